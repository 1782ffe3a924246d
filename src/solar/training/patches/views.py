"""Augmentation of patch pairs: noise of detectors, light and cameras, in batches on any device."""

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from solar.datasets.patches.hpatches_cut import JITTERS, Jitter
from solar.errors import SolarError
from solar.training.augment import gaussian, quantised

STRENGTHS = {
    "none": Jitter(0, 0, 0, 0),
    **{"easy": JITTERS["e"], "hard": JITTERS["h"], "tough": JITTERS["t"]},
}
"""The detector noise of HPatches, to which all but "none" add perspective."""

PERSPECTIVE = 0.05
"""How much nearer than the middle a side of the patch can be."""


@dataclass(frozen=True)
class Views:
    """How the two patches of a training pair differ.

    Attributes:
        first: Detector noise of the first patch, one of these drawn per pair.
        second: The same for the second patch.
        turn: Rotate by any angle and mirror both patches of a pair together.
        coarser: The second patch comes from a photo up to 2^coarser times smaller.
        blur: Largest Gaussian blur, in pixels of a 32×32 patch.
        shadow: How much darker one side of an edge through the patch can be.
        noise: Largest standard deviation, as a share of 255.
        jpeg: Coarsest step of the quantised cosine transform, as a multiple of the standard's.
        gamma: Largest exponent, in powers of two.
        gain: Largest factor, in powers of two, before clipping at white.
        bias: Largest offset, as a share of 255.
        chance: Probability of blur, shadow, noise, JPEG and a smaller photo for second patches.
        first_chance: The same for first patches.
    """

    first: tuple[str, ...] = ("none", "easy")
    second: tuple[str, ...] = ("easy", "hard", "tough")
    turn: bool = False
    coarser: float = 2.0
    blur: float = 4.0
    shadow: float = 0.3
    noise: float = 0.012
    jpeg: float = 1.0
    gamma: float = 0.4
    gain: float = 0.4
    bias: float = 0.08
    chance: float = 0.3
    first_chance: float = 0.1

    def __post_init__(self) -> None:
        if unknown := {*self.first, *self.second} - STRENGTHS.keys():
            known = ", ".join(STRENGTHS)
            raise SolarError(f"There is no detector noise {min(unknown)!r}: choose from {known}.")
        if not self.first or not self.second:
            raise SolarError("Name at least one detector noise for each patch of a pair.")


def jitter(count: int, names: tuple[str, ...], generator: torch.Generator) -> Tensor:
    """Draw detector noise: (count, 3, 3) maps of a patch's [−1, 1]² to itself.

    One of the names, keys of `STRENGTHS`, is drawn for each; the generator decides the device.
    """
    device = generator.device
    table = _strengths(names, device)
    which = torch.randint(len(names), (count,), generator=generator, device=device)
    rotation, scale, anisotropy, translation, perspective = table[which].T
    draws = torch.rand((8, count), generator=generator, device=device) * 2 - 1
    stretch = torch.exp2(anisotropy * draws[2] / 2)
    along = _turns(math.pi / 2 * draws[3])  # direction of the stretch
    stretched = (along * torch.stack([stretch, 1 / stretch], 1)[:, None]) @ along.mT
    linear = torch.exp2(scale * draws[1])[:, None, None] * stretched @ _turns(rotation * draws[0])
    upper = torch.cat([linear, (translation * draws[4:6]).T[..., None]], 2)
    last = torch.stack([*(perspective * draws[6:8]), torch.ones_like(perspective)], 1)
    return torch.cat([upper, last[:, None]], 1)


@cache
def _strengths(names: tuple[str, ...], device: torch.device) -> Tensor:
    """(names, 5), sent to a GPU once, as that waits for it."""
    found = ((STRENGTHS[name], 0 if name == "none" else PERSPECTIVE) for name in names)
    rows = [(math.radians(n.rotation), n.scale, n.anisotropy, n.translation, p) for n, p in found]
    return torch.tensor(rows, device=device)


def turns(count: int, generator: torch.Generator) -> Tensor:
    """Draw rotations by any angle, half of them mirrored: (count, 3, 3)."""
    draws = torch.rand((2, count), generator=generator, device=generator.device)
    linear = _turns(2 * math.pi * draws[0])
    linear = torch.where(draws[1, :, None, None] < 0.5, linear, linear.flip(1))
    whole = torch.eye(3, device=generator.device).repeat(count, 1, 1)
    whole[:, :2, :2] = linear
    return whole


def _turns(angles: Tensor) -> Tensor:
    cosine, sine = angles.cos(), angles.sin()
    return torch.stack([torch.stack([cosine, -sine], 1), torch.stack([sine, cosine], 1)], 1)


def coarseness(count: int, views: Views, generator: torch.Generator) -> Tensor:
    """Pyramid levels at which second patches are read, (count,), mostly 0."""
    chance = torch.full((count,), views.chance, device=generator.device)
    return _some(views.coarser, chance, generator)


def change_light(patches: Tensor, views: Views, generator: torch.Generator) -> Tensor:
    """Change patches (2, n, 1, s, s) as lenses, light, sensors and compression do.

    They are first and second patches from 0 to 255, rounded in the result; s is a multiple of
    eight, and the generator is on their device.
    """
    n, device, shape = patches.shape[1], patches.device, patches.shape
    chances = (views.first_chance, views.chance)
    chance = torch.cat([torch.full((n, 1, 1, 1), one, device=device) for one in chances])
    patches = patches.flatten(0, 1)
    if views.blur:
        patches = _blurred(patches, _some(views.blur, chance, generator))
    if views.shadow:
        strength = _some(views.shadow, chance, generator)
        patches = patches * (1 - strength * _half_planes(patches, generator))
    gamma, gain, bias = torch.rand((3, 2 * n, 1, 1, 1), generator=generator, device=device) * 2 - 1
    patches = (patches / 255).clamp_min(1e-4) ** torch.exp2(views.gamma * gamma)
    patches = 255 * (patches * torch.exp2(views.gain * gain) + views.bias * bias)
    if views.noise:
        grain = torch.randn(patches.shape, generator=generator, device=device)
        patches = patches + 255 * _some(views.noise, chance, generator) * grain
    patches = patches.clamp(0, 255)
    if views.jpeg:
        patches = _compressed(patches, _some(views.jpeg, chance, generator))
    return patches.round().clamp(0, 255).view(shape)


def _some(most: float, chance: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform from 0 to `most` with probability `chance`, else 0, in its shape."""
    draws = torch.rand((2, *chance.shape), generator=generator, device=chance.device)
    return most * draws[0] * (draws[1] < chance)


def _blurred(patches: Tensor, sigma: Tensor) -> Tensor:
    weights = gaussian(patches.shape[-1], sigma.clamp_min(0.1))
    return weights @ patches @ weights.mT


def _half_planes(patches: Tensor, generator: torch.Generator) -> Tensor:
    """(n, 1, s, s): 0 on one side of a random soft edge, 1 on the other."""
    n, size, device = len(patches), patches.shape[-1], patches.device
    angle, offset, soft = torch.rand((3, n, 1, 1, 1), generator=generator, device=device)
    line = (torch.arange(size, device=device) * 2 + 1) / size - 1
    angle = 2 * math.pi * angle
    across = angle.cos() * line + angle.sin() * line[:, None] - (offset - 0.5)
    return torch.sigmoid(across / (0.02 + 0.3 * soft))


def _compressed(patches: Tensor, coarse: Tensor) -> Tensor:
    """JPEG quantisation of 8×8 blocks with steps that approximate the standard's table."""
    k = torch.arange(8, device=patches.device)
    steps = coarse[..., None, None] * (10 + 6 * (k[:, None] + k))
    return quantised(patches, steps.clamp_min(1e-3))  # where 0, too fine to matter
