"""Ways to describe square grey patches: a patch network, SIFT or RootSIFT."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from solar.arrays import Floats, Pixels
from solar.errors import SolarError
from solar.images.opencv import opencv
from solar.local.features import HISTOGRAMS, root_sift

if TYPE_CHECKING:
    from solar.models import PatchNet

Describe = Callable[[Pixels], Floats]  # (n, s, s) uint8 to (n, d) float32

Shrink = Literal["area", "bilinear"]
"""How patches become 32×32: by area means, or bilinearly as OpenCV does, in whole grey levels."""

METHODS = HISTOGRAMS

SIFT_SIZE = 13 / 65
"""Size of the keypoint that a patch is described as, as a part of its side: the best of 8, 10.8, 13
and 16 pixels of 65 for both methods, tried on the seven sequences that the docs report on."""

_INPUT = 32


def patch_describer(
    model: "PatchNet | str", *, device: str | None = None, shrink: Shrink = "area"
) -> Describe:
    """Describe patches by `sift`, `rootsift`, a patch network, or what `solar.load` takes."""
    if isinstance(model, str) and model in METHODS:
        return partial(describe_sift, root=model == "rootsift")
    from solar.models import PatchNet, load

    network = load(model, device=device) if isinstance(model, str) else model
    if not isinstance(network, PatchNet):
        raise SolarError(f"{model} describes photos: patches need a patch network.")
    return partial(describe_patches, network, shrink=shrink)


def describe_patches(model: "PatchNet", patches: Pixels, shrink: Shrink = "area") -> Floats:
    """Describe patches of any side of at least 32 with a network that takes 32×32.

    For the 64×64 patches of PhotoTour the two ways to shrink them differ in rounding alone; for
    the 65×65 ones of HPatches by less than a grey level in most pixels.
    """
    import torch

    from solar.local.patch_network import patch_descriptors

    return patch_descriptors(model, torch.from_numpy(shrunk(patches, _INPUT, shrink))[:, None])


def shrunk(patches: Pixels, side: int, how: Shrink = "area") -> npt.NDArray[np.float32]:
    """Shrink (n, s, s) to (n, side, side) float32; a SolarError if s is smaller."""
    if patches.shape[1] < side:
        raise SolarError(f"Patches of {patches.shape[1]} pixels are too small: {side} are needed.")
    cv2 = opencv()
    small = [
        cv2.resize(patch, (side, side))  # bilinear by default
        if how == "bilinear"
        else cv2.resize(patch.astype(np.float32), (side, side), interpolation=cv2.INTER_AREA)
        for patch in patches
    ]
    return np.array(small, np.float32).reshape(-1, side, side)


def describe_sift(patches: Pixels, *, root: bool = False) -> Floats:
    """OpenCV's SIFT, or RootSIFT, of one upright keypoint in the middle of each patch: (n, 128)."""
    cv2 = opencv()
    side = patches.shape[1]
    sift = cv2.SIFT_create()
    keypoint = [cv2.KeyPoint((side - 1) / 2, (side - 1) / 2, SIFT_SIZE * side, 0)]
    rows = np.empty((len(patches), 128), np.float32)
    for number, patch in enumerate(patches):
        rows[number] = sift.compute(patch, keypoint)[1][0]
    return root_sift(rows) if root else rows
