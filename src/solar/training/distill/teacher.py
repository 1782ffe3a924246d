"""Teachers: networks that are imitated, whatever they were written with.

A TorchScript or `torch.export` file is a program: torch runs what is written in it. Take teachers,
like any other program, only from where you would install software from.
"""

import warnings
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.errors import SolarError
from solar.models import retrieval_model
from solar.models.retrieval_config import IMAGENET_MEAN, IMAGENET_STD
from solar.nn import GeM, l2_normalize, pca_whitening


class Teacher(nn.Module):
    """A frozen network, or several: photos in, a feature map and a descriptor out.

    The backbone takes normalised images (b, 3, h, w) to a feature map (b, channels, h', w'), and
    the head, whose weights are already on the right device, that to descriptors (b, dim). Those of
    `others` are put beside it.
    """

    whitening: nn.Linear | None

    def __init__(
        self,
        backbone: nn.Module,
        head: Callable[[Tensor], Tensor],
        mean: Sequence[float],
        std: Sequence[float],
    ) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head
        self.mean = nn.Buffer(torch.tensor(mean).view(3, 1, 1))
        self.std = nn.Buffer(torch.tensor(std).view(3, 1, 1))
        self.others = nn.ModuleList()
        self.centre, self.scale = nn.Buffer(torch.zeros(1, 1, 1)), nn.Buffer(torch.ones(1, 1, 1))
        self.whitening = None
        self.requires_grad_(False)
        self.channels = self.dim = 0

    def train(self, mode: bool = True) -> "Teacher":
        """Do nothing: a teacher never learns, and an exported program has no modes."""
        return self

    @torch.no_grad()
    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Look at photos: (b, 3, h, w) in 0..1 to (b, channels, h', w') and (b, dim), unit rows."""
        features = self.look(images)
        with torch.autocast(images.device.type, enabled=False):
            features = features.float()
            own = self.head(features)
            own = own if self.whitening is None else l2_normalize(self.whitening(own))
            features = (features - self.centre) * self.scale
        rows = [own, *(other(images)[1] for other in self.others)]
        return features, l2_normalize(torch.cat(rows, dim=1))

    @torch.no_grad()
    def whiten(self, photos: Iterable[Tensor], power: float) -> None:
        """See from now on how photos differ, and not what all of them have in common.

        Every channel of the map loses its mean over the photos, batches (b, 3, h, w) in 0..1, and
        is divided by its deviation to the `power`; the descriptor is whitened as far
        (`solar.nn.pca_whitening`). Other teachers stay as they are.
        """
        sums = squares = torch.zeros(self.channels, dtype=torch.float64, device=self.mean.device)
        count = 0
        descriptors = []
        for images in photos:
            features = self.look(images).double()
            descriptors.append(self.head(features.float()))
            sums = sums + features.sum(dim=(0, 2, 3))
            squares = squares + features.square().sum(dim=(0, 2, 3))
            count += len(features) * features[0, 0].numel()
        mean = sums / count
        variance = squares / count - mean.square()
        # A channel that is silent in these photos must not shout in others.
        variance = variance.clamp(min=1e-4 * float(variance.mean()))
        self.centre = nn.Buffer(mean.float()[:, None, None])
        self.scale = nn.Buffer(variance.pow(-power / 2).float()[:, None, None])
        whitening = pca_whitening(torch.cat(descriptors), power).linear()
        self.whitening = whitening.to(self.centre.device).requires_grad_(False)

    @torch.no_grad()
    def look(self, images: Tensor) -> Tensor:
        """The backbone's feature map alone."""
        return self.features(images)

    def features(self, images: Tensor) -> Tensor:
        """The same for a teacher that learns."""
        # Without this, TorchScript spends seconds on optimising for each new size of image.
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            features: Tensor = self.backbone((images - self.mean) / self.std)
        return features


def load_teachers(
    sources: Sequence[str], *, device: str | torch.device = "cpu", sizes: Sequence[int] = (224,)
) -> Teacher:
    """Load several teachers as one: the first one's map, and all descriptors side by side."""
    first, *others = (load_teacher(source, device=device, sizes=sizes) for source in sources)
    first.others.extend(others)
    first.dim += sum(other.dim for other in others)
    return first


def load_teacher(
    source: str | Path, *, device: str | torch.device = "cpu", sizes: Sequence[int] = (224,)
) -> Teacher:
    """Load a teacher and try it out on squares of these sides; a SolarError if it fails at one.

    The source is what `solar.load` takes for a retrieval network (its backbone gives the map and
    its head the descriptor); or a TorchScript file or a `torch.export` file ending in .pt2, which
    takes images normalised as for ImageNet and gives a feature map (pooled by GeM with p = 3). Such
    a file is a program, and trusted like one.
    """
    path = Path(source)
    if path.suffix == ".pt2" or _is_torchscript(path):
        program = _read_program(path, torch.device(device))
        pool = GeM(p=3.0).to(device).requires_grad_(False)
        teacher = Teacher(program, lambda x: l2_normalize(pool(x)), IMAGENET_MEAN, IMAGENET_STD)
    else:
        network = retrieval_model(source, device=device).requires_grad_(False)
        config = network.config
        teacher = Teacher(network.backbone, network.head, config.mean, config.std)
    teacher.to(device)
    for size in sizes:
        features = _tried(teacher, source, size, torch.device(device))
        teacher.channels, teacher.dim = features.shape[1], teacher.head(features).shape[1]
    return teacher


def _is_torchscript(path: Path) -> bool:
    if not (path.is_file() and zipfile.is_zipfile(path)):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def _read_program(path: Path, device: torch.device) -> nn.Module:
    program: Any
    try:
        if path.suffix == ".pt2":
            program = torch.export.load(path).module()
        else:
            with warnings.catch_warnings():  # that there are newer formats
                warnings.simplefilter("ignore", DeprecationWarning)
                program = torch.jit.load(path, map_location=device).eval()  # type: ignore[no-untyped-call]
    except Exception as error:  # a damaged file can make the reader fail in any way at all
        reason = str(error).strip().split("\n")[0]
        raise SolarError(f"{path} is not a program that torch can read ({reason}).") from error
    assert isinstance(program, nn.Module)
    return program


def _tried(teacher: Teacher, source: str | Path, size: int, device: torch.device) -> Tensor:
    try:
        features = teacher.look(torch.rand(2, 3, size, size, device=device))
    except Exception as error:  # whatever a program finds to complain about
        reason = str(error).strip().split("\n")[0]
        raise SolarError(
            f"The teacher {source} does not take two images of {size} × {size} ({reason}): "
            "export it with batch, height and width left open, or train at its size."
        ) from error
    if features.dim() != 4 or len(features) != 2:
        raise SolarError(
            f"The teacher {source} gives {tuple(features.shape)} for two images, "
            "not a feature map (2, channels, height, width)."
        )
    return features


class Projection(nn.Module):
    """From what a student sees to what its teacher sees: needed in training only."""

    def __init__(self, channels: int, teacher: Teacher) -> None:
        super().__init__()
        self.places = nn.Conv2d(channels, teacher.channels, 1)
        self.pooled = nn.Linear(channels, teacher.dim)

    def forward(
        self, features: Tensor, descriptors: Tensor, grid: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Project a map (b, channels, h, w), resized to the teacher's grid, and pooled vectors.

        Gives (b, teacher's channels, *grid) and (b, teacher's dim).
        """
        if list(features.shape[-2:]) != list(grid):
            features = F.interpolate(features, list(grid), mode="bilinear", align_corners=False)
        return self.places(features), self.pooled(descriptors)
