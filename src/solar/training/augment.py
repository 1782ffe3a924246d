"""Augmentation of a batch of photos on its device.

All random numbers come from the given generator, equally many for any settings, so that runs can be
repeated and resumed. Crop, mirror, rotation, stretch and perspective are one homography per photo.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from solar.errors import SolarError
from solar.training.recipe import check_range

_DRAWS = 29  # random numbers per photo, one for each `next(chance)` below
_BLUR, _ERASED = 2.0, 0.25  # the largest: pixels of a Gaussian, share of the area
_LUMA = (0.299, 0.587, 0.114)
# Rows of YCbCr without its offsets, as JPEG has it.
_YCC = (_LUMA, (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))
# JPEG's quantisation at quality 50 for luma and chroma (ITU-T T.81, annex K).
_COARSE_LUMA = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77,
    24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
_COARSE_COLOUR = (
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99, *(99,) * 32,
)  # fmt: skip


@dataclass(frozen=True)
class Augmentation:
    """Strengths of random changes; zero everywhere leaves photos unchanged.

    Attributes:
        crop: Largest share of the area that a crop at a random place leaves out. With 0, photos
            are cropped around the middle if the aspect ratio changes.
        stretch: Crops are up to this share wider or narrower than the result.
        flip: Probability of mirroring left and right.
        rotate: Largest rotation, in degrees.
        homography: Shear and perspective: 0.3 moves corners by up to about 0.3 of half a side.
        colour: Largest relative change of brightness, contrast and saturation.
        hue: Largest rotation of hues, in degrees.
        gamma: 0.5 draws exponents from 1 / 1.5 to 1.5.
        grey: Probability of greyscale.
        blur: Probability of a Gaussian blur.
        noise: Largest standard deviation of added noise, white being 1.
        blocks: Probability of strong JPEG compression.
        erase: Probability of a rectangle of one colour.
    """

    crop: float = 0.0
    stretch: float = 0.0
    flip: float = 0.0
    rotate: float = 0.0
    homography: float = 0.0
    colour: float = 0.0
    hue: float = 0.0
    gamma: float = 0.0
    grey: float = 0.0
    blur: float = 0.0
    noise: float = 0.0
    blocks: float = 0.0
    erase: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            unbounded = name in ("stretch", "rotate", "hue", "gamma")
            check_range(f"The augmentation {name}", value, 0, math.inf if unbounded else 1)
            if value == 1 and name in ("crop", "homography"):
                raise SolarError(f"The augmentation {name} must be below 1.")


@torch.no_grad()
def augment(
    images: Tensor,
    settings: Augmentation,
    generator: torch.Generator,
    *,
    size: int | tuple[int, int] | None = None,
    aspects: Tensor | None = None,
) -> Tensor:
    """Change every photo of a batch differently: (b, 3, *size) float32 in 0..1.

    Args:
        images: (b, 3, h, w) RGB in 0..1, or bytes.
        settings: How strongly.
        generator: Preferably on the CPU, so that a GPU does not wait.
        size: Side, or height and width, of the result; default: as before. Another aspect ratio
            crops the photo.
        aspects: (b,) original width over height of photos that were squashed, to be undone.
    """
    size = (images.shape[-2], images.shape[-1]) if size is None else size
    shape = (size, size) if isinstance(size, int) else size
    drawn = torch.rand(len(images), _DRAWS, generator=generator, device=generator.device)
    seed = torch.randint(2**62, (1,), generator=generator, device=generator.device)
    chance = iter(drawn.unbind(1))
    x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    squashed = torch.full((len(x),), x.shape[-1] / x.shape[-2]) if aspects is None else aspects
    matrices = _views(chance, settings, squashed.to(drawn), shape)
    moving = (settings.crop, settings.stretch, settings.flip, settings.rotate, settings.homography)
    if any(moving) or aspects is not None or shape != x.shape[-2:]:
        x = warp(_reduced(x, settings, shape), _sent(matrices, x.device), shape)
    x = _light(x, chance, settings)
    x = _blurred(x, chance, settings)
    x = _noisy(x, chance, settings, seed)
    x = _blocky(x, chance, settings)
    return _erased(x.clamp(0, 1), chance, settings)


def warp(images: Tensor, matrices: Tensor, size: tuple[int, int]) -> Tensor:
    """Resample photos (b, 3, h, w) to (b, 3, *size), mirrored beyond the borders.

    Matrices (b, 3, 3) map coordinates (x, y) of the result to those of the photo, both from −1 to 1
    between the outer edges.
    """
    height, width = size
    x = (torch.arange(width, device=images.device) * 2 + 1) / width - 1
    y = (torch.arange(height, device=images.device) * 2 + 1) / height - 1
    places = torch.stack(
        [x.expand(height, width), y[:, None].expand(height, width), x.new_ones(height, width)], -1
    )
    found = places.reshape(1, -1, 3) @ matrices.float().transpose(1, 2)
    grid = (found[..., :2] / found[..., 2:]).view(len(images), height, width, 2)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def _between(chance: Iterator[Tensor], low: float, high: float) -> Tensor:
    return low + (high - low) * next(chance)


def _factor(chance: Iterator[Tensor], strength: float) -> Tensor:
    return torch.exp(_between(chance, -1, 1) * math.log1p(strength))


def _sent(values: Tensor, device: torch.device) -> Tensor:
    """Copy to a device without waiting for it."""
    return values.to(device, non_blocking=True)


def _column(values: Tensor, x: Tensor) -> Tensor:
    return _sent(values, x.device)[:, None, None, None]


def _views(
    chance: Iterator[Tensor], settings: Augmentation, aspects: Tensor, result: tuple[int, int]
) -> Tensor:
    """A homography per photo, for `warp`."""
    area = _between(chance, 1 - settings.crop, 1)
    stretch = _factor(chance, settings.stretch)
    wide = result[1] / result[0]
    wanted = wide / aspects
    half_x = ((area * stretch).sqrt() * wanted.clamp(max=1)).clamp(max=1)
    half_y = ((area / stretch).sqrt() * (1 / wanted).clamp(max=1)).clamp(max=1)
    wander = float(settings.crop > 0)
    x = _between(chance, -wander, wander) * (1 - half_x)
    y = _between(chance, -wander, wander) * (1 - half_y)
    mirror = 1 - 2 * (next(chance) < settings.flip).float()
    angle = _between(chance, -1, 1) * math.radians(settings.rotate)
    shear_x, shear_y, tilt_x, tilt_y = (
        _between(chance, -1, 1) * settings.homography / 2 for _ in range(4)
    )
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    # The tilts add up to less than one, so no point is behind the camera.
    tilt = _matrix(one, shear_x, zero, shear_y, one, zero, tilt_x, tilt_y, one)
    # Rotate in coordinates with equal units.
    sine, cosine = angle.sin(), angle.cos()
    turn = _matrix(cosine, -sine / wide, zero, sine * wide, cosine, zero, zero, zero, one)
    cut = _matrix(half_x * mirror, zero, x, zero, half_y, y, zero, zero, one)
    return cut @ turn @ tilt


def _matrix(*entries: Tensor) -> Tensor:
    return torch.stack(entries, dim=1).view(-1, 3, 3)


def _reduced(x: Tensor, settings: Augmentation, shape: tuple[int, int]) -> Tensor:
    """Shrink with antialiasing, as `warp` is bilinear."""
    scale = max(shape[0] / x.shape[-2], shape[1] / x.shape[-1]) / math.sqrt(1 - settings.crop)
    if scale >= 1:
        return x
    target = [math.ceil(side * scale) for side in x.shape[-2:]]
    return F.interpolate(x, target, mode="bilinear", antialias=True, align_corners=False)


def _light(x: Tensor, chance: Iterator[Tensor], settings: Augmentation) -> Tensor:
    """Gamma; then brightness, contrast, saturation, hue and grey in one matrix."""
    gamma = _factor(chance, settings.gamma)
    brightness, contrast, saturation = (_factor(chance, settings.colour) for _ in range(3))
    hue = _between(chance, -1, 1) * math.radians(settings.hue)
    grey = next(chance) < settings.grey
    if settings.gamma:
        x = x.clamp(min=1e-6) ** _column(gamma, x)
    if not (settings.colour or settings.hue or settings.grey):
        return x
    saturation = saturation.masked_fill(grey, 0)
    ycc = torch.tensor(_YCC, device=hue.device)
    one, zero = torch.ones_like(hue), torch.zeros_like(hue)
    chroma = _matrix(
        one, zero, zero,
        zero, saturation * hue.cos(), -saturation * hue.sin(),
        zero, saturation * hue.sin(), saturation * hue.cos(),
    )  # fmt: skip
    mix = torch.linalg.inv(ycc) @ chroma @ ycc * (brightness * contrast)[:, None, None]
    luma = x.mean(dim=(2, 3)) @ _sent(torch.tensor(_LUMA), x.device)
    lift = _sent(brightness * (1 - contrast), x.device) * luma
    mixed = torch.baddbmm(lift[:, None, None], _sent(mix, x.device), x.flatten(2))
    return mixed.view_as(x)


def _chosen(chance: Iterator[Tensor], probability: float) -> Tensor:
    return (next(chance) < probability).nonzero()[:, 0]


def _blurred(x: Tensor, chance: Iterator[Tensor], settings: Augmentation) -> Tensor:
    chosen = _chosen(chance, settings.blur)
    sigma = _column(_between(chance, 0.1, _BLUR)[chosen], x)
    if not len(chosen):
        return x
    chosen = _sent(chosen, x.device)
    down, across = (gaussian(side, sigma) for side in x.shape[-2:])
    return x.index_copy(0, chosen, down @ x[chosen] @ across.mT)


def gaussian(side: int, sigma: Tensor) -> Tensor:
    """A Gaussian blur along one side as a matrix: (…, 1, 1) deviations to (…, side, side).

    At borders weights are renormalised.
    """
    place = torch.arange(side, device=sigma.device)
    apart = (place[:, None] - place).square()
    return torch.softmax(-apart / (2 * sigma.square()), dim=-1)


def _noisy(x: Tensor, chance: Iterator[Tensor], settings: Augmentation, seed: Tensor) -> Tensor:
    strength = next(chance) * settings.noise
    if not settings.noise:
        return x
    # Draw on the device.
    generator = torch.Generator(x.device).manual_seed(int(seed))
    noise = torch.randn(x.shape, generator=generator, device=x.device)
    return x + noise * _column(strength, x)


def _blocky(x: Tensor, chance: Iterator[Tensor], settings: Augmentation) -> Tensor:
    chosen = _chosen(chance, settings.blocks)
    coarseness = _between(chance, 0.7, 4.0)[chosen]  # JPEG qualities of about 65 down to 12
    if not len(chosen):
        return x
    chosen = _sent(chosen, x.device)
    some = jpeg_like(x[chosen].clamp(0, 1), _sent(coarseness, x.device))
    return x.index_copy(0, chosen, some)


def jpeg_like(images: Tensor, coarseness: Tensor) -> Tensor:
    """Quantise the cosine transform of 8×8 blocks, as JPEG does.

    Images are (b, 3, h, w) in 0..1, which the result may slightly leave; a coarseness (b,) of 1 is
    JPEG quality 50, and larger is worse.
    """
    device = images.device
    height, width = images.shape[-2:]
    padded = F.pad(images, (0, -width % 8, 0, -height % 8), mode="replicate")
    ycc = torch.tensor(_YCC)
    rgb = _sent(torch.linalg.inv(ycc), device)
    tables = torch.tensor([_COARSE_LUMA, _COARSE_COLOUR, _COARSE_COLOUR]) / 255
    steps = _sent(tables, device).view(1, 3, 1, 1, 8, 8) * coarseness.view(-1, 1, 1, 1, 1, 1)
    colours = torch.einsum("ij,bjhw->bihw", _sent(ycc, device), padded)
    colours = quantised(colours, steps)[..., :height, :width]
    return torch.einsum("ij,bjhw->bihw", rgb, colours)


def quantised(planes: Tensor, steps: Tensor) -> Tensor:
    """Round the cosine transform of 8×8 blocks to multiples of some steps.

    Planes are (b, c, h, w), with sides that are multiples of eight; steps (b or 1, c, 1, 1, 8, 8).
    """
    b, c, height, width = planes.shape
    waves = torch.arange(8, device=planes.device)
    cosines = torch.cos(math.pi / 8 * waves[:, None] * (waves + 0.5)) / 2
    cosines[0] /= math.sqrt(2)
    blocks = planes.reshape(b, c, height // 8, 8, width // 8, 8).transpose(3, 4)
    rounded = (cosines @ blocks @ cosines.T / steps).round() * steps
    return (cosines.T @ rounded @ cosines).transpose(3, 4).reshape(planes.shape)


def _erased(x: Tensor, chance: Iterator[Tensor], settings: Augmentation) -> Tensor:
    happens = next(chance) < settings.erase
    area = _between(chance, 0.02, _ERASED)
    aspect = _factor(chance, 1.0)
    tall, wide = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    top, left = next(chance) * (1 - tall), next(chance) * (1 - wide)
    colour = torch.stack([next(chance) for _ in range(3)], dim=1)
    if not settings.erase:
        return x
    y = (torch.arange(x.shape[-2], device=x.device) + 0.5)[None, :, None] / x.shape[-2]
    z = (torch.arange(x.shape[-1], device=x.device) + 0.5)[None, None, :] / x.shape[-1]
    top, left, tall, wide, happens = (
        _sent(values, x.device)[:, None, None] for values in (top, left, tall, wide, happens)
    )
    hidden = happens & (y >= top) & (y < top + tall) & (z >= left) & (z < left + wide)
    return torch.where(hidden[:, None], _sent(colour, x.device)[:, :, None, None], x)
