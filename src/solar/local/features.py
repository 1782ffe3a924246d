"""Local features: where a photo has something to recognise, and what it looks like there.

OpenCV's SIFT finds the keypoints. A patch network describes the patch around each, or SIFT does:
`"sift"`, or `"rootsift"`, the square roots of its normalised histograms (Arandjelović and
Zisserman, CVPR 2012). ORB (Rublee et al., ICCV 2011) and AKAZE (Alcantarilla et al., BMVC 2013)
find keypoints of their own, and describe each by bits: 256, and 488 of which the last two are
always zero; such descriptors are compared by how many bits differ. Networks such as HOW find and
describe in one; see `solar.local.learned`.

Two ways to cut a patch from a keypoint of diameter d, both turned by the keypoint's angle:

- `"demo"`: as the demo of the published code does it: 3 d wide, read with bicubic interpolation
  from the photo, black beyond its border. Large keypoints alias, and the patch's centre is half a
  pixel off the keypoint.
- `"wide"`: 6 d wide and at least 20 pixels, read from a pyramid, the border repeated. This is what
  our own networks are trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from solar.arrays import Doubles, Floats, Pixels
from solar.defaults import KEYPOINTS, SIZE
from solar.errors import SolarError
from solar.images import Box, Source, load
from solar.images.boxes import pixel_box
from solar.images.opencv import opencv

if TYPE_CHECKING:
    from torch import Tensor

    from solar.local.patch_network import PatchBackend
    from solar.models import PatchNet, RetrievalNet

Method = Literal["sift", "orb", "akaze"]

BINARY = ("orb", "akaze")
"""Methods that describe a keypoint by bits."""

_BYTES = {"orb": 32, "akaze": 61}
_LEAST_SIDE = 32  # of a photo, for the methods of bits: they fail on a few pixels

Frames = Literal["wide", "demo"]
Descriptors: TypeAlias = NDArray[Any]
"""float32 rows, mostly of unit norm, or rows of bytes with the bits of binary descriptors."""
KeypointModel: TypeAlias = "PatchNet | PatchBackend | Literal['sift', 'rootsift', 'orb', 'akaze']"
"""What describes keypoints that OpenCV has found."""
LocalModel: TypeAlias = "KeypointModel | RetrievalNet"
"""What describes keypoints; a network for whole photos has to have local features, as HOW does."""

HISTOGRAMS = ("sift", "rootsift")
NAMED = (*HISTOGRAMS, *BINARY)
"""What describes keypoints without a network."""

DEFAULT: Literal["rootsift"] = "rootsift"
"""The default, which needs no weights."""

PATCH = 32


@dataclass(frozen=True, eq=False)
class LocalFeatures:
    """Keypoints of a photo, strongest first, and their descriptors.

    A place with several dominant directions has a keypoint for each.

    Attributes:
        points: (n, 2) x and y in pixels of the whole upright photo; (0, 0) is the centre of the
            first pixel.
        sizes: (n,) diameters in the same pixels.
        angles: (n,) degrees, clockwise from the x axis.
        descriptors: (n, d) float32, of unit norm if `unit`; of ORB and AKAZE (n, bytes) uint8.
        shape: Height and width of the whole upright photo.
        scale: By how much the photo was shrunk to find them: this many pixels became one.
        unit: Off: descriptors have lengths of their own, which ASMK uses.
        dense: Points are locations of a map: only as exact as its grid, and much like their
            neighbours.
    """

    points: Floats
    sizes: Floats
    angles: Floats
    descriptors: Descriptors
    shape: tuple[int, int]
    scale: float = 1.0
    unit: bool = True
    dense: bool = False

    def __len__(self) -> int:
        return len(self.points)

    @property
    def directions(self) -> Floats:
        """The descriptors, all of unit norm."""
        return self.descriptors if self.unit else _unit(self.descriptors)


def local_features(
    photo: Source,
    model: LocalModel = DEFAULT,
    *,
    keypoints: int = KEYPOINTS,
    size: int = SIZE,
    box: Box | None = None,
    frames: Frames = "wide",
) -> LocalFeatures:
    """Find and describe the keypoints of a photo.

    A SolarError if it cannot be read, the box misses it, an argument makes no sense, or OpenCV has
    no AKAZE.

    Args:
        photo: As for `solar.images.load`; it is turned upright.
        model: A patch network, a network with local features, `"sift"`, `"rootsift"`, `"orb"` or
            `"akaze"`.
        keypoints: Keep this many, those of the highest contrast. A photo of the sky has none.
        size: Limit for the longer side: larger photos are shrunk first.
        box: x1, y1, x2, y2 in pixels: only keypoints inside. Their patches may reach beyond it.
        frames: How patches are cut for a network, see the top of this module.
    """
    if min(keypoints, size) < 1:
        raise SolarError("Local features need at least one keypoint and one pixel.")
    if frames not in get_args(Frames):
        raise SolarError(f'frames must be "wide" or "demo", not {frames!r}.')
    if not isinstance(model, str):
        from solar.models import RetrievalNet

        if isinstance(model, RetrievalNet):
            from solar.local.learned import network_features

            found = network_features(photo, model, keypoints=keypoints, size=size, box=box)
            return LocalFeatures(**found)
    image = load(photo, size)
    grey: Pixels = opencv().cvtColor(image.pixels, opencv().COLOR_RGB2GRAY)
    across, down = image.width / grey.shape[1], image.height / grey.shape[0]
    inside = None
    if box is not None:
        x1, y1, x2, y2 = pixel_box(box, image.width, image.height)
        inside = (x1 / across, y1 / down, x2 / across, y2 / down)
    table, descriptors = _found_and_described(grey, model, keypoints, inside, frames)
    points = (table[:, :2] + 0.5) * (across, down) - 0.5
    scale = (across + down) / 2
    return LocalFeatures(
        points=points.astype(np.float32),
        sizes=(table[:, 2] * scale).astype(np.float32),
        angles=table[:, 3].astype(np.float32),
        descriptors=descriptors,
        shape=(image.height, image.width),
        scale=scale,
    )


def local_model(model: LocalModel | str | Path | None, backend: str = "torch") -> LocalModel:
    """The model for local features of this name, file or network; None is the default.

    `backend` runs a patch network on a CPU, see `solar.describe.cpu.backends`. A SolarError if
    there is no such model or backend, or the model describes whole photos.
    """
    model = DEFAULT if model is None else model
    if model == "akaze":
        akaze()  # not every OpenCV has it
    if model in NAMED:
        if backend != "torch":
            raise SolarError(f"{model} is not a network: `backend=` needs a patch model.")
        return cast("LocalModel", model)
    from solar.models import PatchNet, RetrievalNet, load

    device = None if backend == "torch" else "cpu"
    network: LocalModel = load(model, device=device) if isinstance(model, str | Path) else model
    if backend != "torch":
        from solar.local.patch_network import open_patch_backend

        if not isinstance(network, PatchNet):
            raise SolarError(f"{local_name(network)} is not a patch model, which `backend=` needs.")
        return open_patch_backend(network, backend)
    if isinstance(network, RetrievalNet):
        from solar.local.learned import local_pooling

        local_pooling(network)  # raises if there is none
    return network


def local_name(model: LocalModel) -> str:
    """The name of a model in results."""
    if isinstance(model, str):
        return model
    return model.source or ("network" if hasattr(model, "backbone") else "patch network")


def local_fingerprint(model: LocalModel) -> str:
    """Two models that share it give the same descriptors."""
    if isinstance(model, str):
        return model
    from solar.local.patch_network import PatchBackend
    from solar.models import fingerprint

    if isinstance(model, PatchBackend):  # int8 and float32 are not quite the same
        return f"{fingerprint(model.net)} {model.name}"
    return fingerprint(model)


def patch_cutter(
    grey: Pixels, found: NDArray[Any], frames: Frames = "wide", device: Any = "cpu"
) -> Callable[[slice], Tensor]:
    """A function that cuts patches (n, 1, 32, 32) float32, 0 to 255, of some keypoints.

    The photo is (h, w); keypoints (n, 4) are x, y and diameter in its pixels, angle in degrees.
    """
    import torch

    points, sizes, turns = found[:, :2], found[:, 2], np.deg2rad(found[:, 3])
    if frames == "wide":
        from solar.local.patch_cutting import REGION, SMALLEST, GreyPhotos, cut, square_frames

        places = square_frames(points, np.maximum(REGION * sizes, SMALLEST), turns).to(device)
        photos = GreyPhotos.lay([grey]).to(device)
        return lambda some: cut(photos, places[some], size=PATCH)
    step = 3 * sizes / PATCH
    columns = (step * np.cos(turns), step * np.sin(turns), points[:, 0], points[:, 1])
    table = torch.from_numpy(np.stack(columns)).float().to(device)
    picture = torch.from_numpy(grey).to(device).float()[None, None]
    return lambda some: _demo_patches(picture, table[:, some])


def _demo_patches(picture: Tensor, table: Tensor) -> Tensor:
    """Patches of the published demo from a photo (1, 1, h, w).

    The table (4, n) has the cosines and sines of the angles, times the step from one pixel of a
    patch to the next, and x and y.
    """
    import torch

    line = torch.arange(PATCH, device=picture.device) - PATCH / 2
    v, u = torch.meshgrid(line, line, indexing="ij")
    c, s, x, y = table[:, :, None, None]
    height, width = picture.shape[2:]
    across = (2 * (c * u - s * v + x) + 1) / width - 1
    down = (2 * (s * u + c * v + y) + 1) / height - 1
    # One tall picture of all the patches: the photo is read in place, not once per patch.
    grid = torch.stack([across, down], -1).reshape(1, -1, PATCH, 2)
    cut_out = torch.nn.functional.grid_sample(
        picture, grid, mode="bicubic", padding_mode="zeros", align_corners=False
    )
    return cut_out.clamp(0, 255).reshape(-1, 1, PATCH, PATCH)


def _found_and_described(
    grey: Pixels, model: KeypointModel, count: int, inside: tuple[float, ...] | None, frames: Frames
) -> tuple[Doubles, Descriptors]:
    """Keypoints (n, 4): x, y, diameter and angle in pixels of the photo; and their descriptors."""
    if not isinstance(model, str):
        found, _ = keypoints_of(grey, "sift", count, inside, describe=False)
        return found, _described(grey, found, model, frames)
    if model == "orb" or model == "akaze":
        return keypoints_of(grey, model, count, inside)
    found, rows = keypoints_of(grey, "sift", count, inside)
    return found, root_sift(rows) if model == "rootsift" else _unit(rows)


def _described(
    grey: Pixels, found: Doubles, model: PatchNet | PatchBackend, frames: Frames
) -> Floats:
    from solar.local.patch_network import descriptors_of
    from solar.models import PatchNet

    if len(found) == 0:
        return np.empty((0, model.dim), np.float32)
    patches = patch_cutter(grey, found, frames, model.device)
    if isinstance(model, PatchNet):
        return descriptors_of(model, len(found), patches)
    return model.descriptors_of(len(found), patches)


def root_sift(histograms: Floats) -> Floats:
    """RootSIFT of SIFT: square roots of each histogram's shares, (n, 128) of unit norm."""
    total = histograms.sum(axis=1, keepdims=True)
    rooted: Floats = np.sqrt(histograms / np.maximum(total, 1e-12))
    return rooted


def _unit(rows: Floats) -> Floats:
    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


def keypoints_of(
    grey: Pixels,
    method: Method,
    count: int,
    inside: tuple[float, ...] | None = None,
    *,
    describe: bool = True,
) -> tuple[Doubles, NDArray[Any]]:
    """Find the `count` strongest keypoints of a grey photo (h, w), or of the box `inside` it.

    Returns (n, 4) x, y, diameter and angle in degrees; and their descriptors: (n, 128) float32
    histograms of SIFT, (n, 32) or (n, 61) bytes of ORB or AKAZE. Without `describe`, SIFT saves the
    time for them. A SolarError if OpenCV has no AKAZE.
    """
    if method == "sift":
        # Without a box SIFT itself drops the weaker ones, before it describes them.
        sift = opencv().SIFT_create(nfeatures=0 if inside else count)
        found, rows = sift.detectAndCompute(grey, None) if describe else (sift.detect(grey), None)
        blank = np.empty((len(found), 128), np.float32)
    else:
        found, rows = _of_bits(grey, method, count, inside)
        blank = np.empty((len(found), _BYTES[method]), np.uint8)
    rows = blank if rows is None else rows
    table = np.array([(*k.pt, k.size, k.angle, k.response) for k in found], np.float64)
    table = table.reshape(-1, 5)
    if inside:
        x, y = table[:, 0] + 0.5, table[:, 1] + 0.5
        within = (x >= inside[0]) & (y >= inside[1]) & (x <= inside[2]) & (y <= inside[3])
        table, rows = table[within], rows[within]
    x, y, sizes, angles, strength = table.T
    best = np.lexsort((angles, sizes, x, y, -strength))[:count]  # threads find them in any order
    return table[best, :4], rows[best]


def akaze() -> Any:
    """OpenCV's AKAZE; a SolarError where it has none.

    OpenCV 4 has it. OpenCV 5 has it among the extra modules, which are a package of their own.
    """
    cv2 = opencv()
    for place in (cv2, getattr(cv2, "xfeatures2d", None)):
        create = getattr(place, "AKAZE_create", None)
        if create is not None:
            return create()
    raise SolarError(
        f"This OpenCV ({cv2.__version__}) has no AKAZE: choose orb, or install "
        "opencv-contrib-python-headless instead of opencv-python-headless."
    )


def _of_bits(
    grey: Pixels, method: Method, count: int, inside: tuple[float, ...] | None
) -> tuple[Any, Any]:
    finder = akaze() if method == "akaze" else opencv().ORB_create(nfeatures=count)
    if min(grey.shape) < _LEAST_SIDE:
        return (), None
    mask = None
    if inside:  # ORB keeps so many per level of its pyramid: they must not be spent elsewhere
        left, top, right, bottom = inside
        mask = np.zeros_like(grey)
        mask[int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))] = 255
    return finder.detectAndCompute(grey, mask)  # type: ignore[no-any-return]
