"""Local features of a network that sees whole photos: HOW, DELF, DELG.

The photo is described at several scales. Every location of every map is a feature with a strength
and a place, and the pooling of the network says which are kept (`solar.nn.local_pooling`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.arrays import Floats, Ints
from solar.errors import SolarError
from solar.images import Box, Source, check_visible, load
from solar.images.boxes import pixel_box
from solar.models import RetrievalNet
from solar.models.inference import inference
from solar.nn import LocalPooling

REACH = 145.0
"""Half the side of what a location of a ResNet's conv4 map sees, in pixels."""

OVERLAP = 0.98
"""Of two boxes whose intersection is a larger part of their union, the weaker goes."""

_FIRST, _LEAST = 260.0, 0.1  # thresholds of the strength
_WANTED = 1000


@dataclass(frozen=True, eq=False)
class LocalMap:
    """The features of a photo at one scale."""

    scale: float  # by which the photo was resized
    size: tuple[int, int]  # its height and width then, in pixels
    strengths: Floats  # (h, w) of the locations
    descriptors: Floats  # (h, w, d)


def local_maps(model: RetrievalNet, images: Tensor) -> list[LocalMap]:
    """All local features of a normalised photo (1, 3, h, w), a map for each scale.

    Scales at which nothing is left of the photo are passed over. A SolarError if the network has no
    local features.
    """
    pool = local_pooling(model)
    height, width = images.shape[2:]
    maps = []
    with inference(model):
        features = _backbone(model)
        for scale in pool.scales:
            size = floor(height * scale), floor(width * scale)
            if min(size) < model.backbone.least_side:
                continue
            # Not by the scale itself: coordinates are mapped by the ratio of the sizes.
            resized = images
            if scale != 1:
                resized = F.interpolate(images, size, mode="bilinear", align_corners=False)
            strengths, descriptors = pool.local(features(resized))
            arrays = strengths[0].cpu().numpy(), descriptors[0].movedim(0, -1).cpu().numpy()
            maps.append(LocalMap(scale, size, *arrays))
    return maps


def network_features(
    photo: Source, model: RetrievalNet, *, keypoints: int, size: int, box: Box | None = None
) -> dict[str, Any]:
    """What is strong in a photo, as fields of `LocalFeatures`; arguments as for `local_features`.

    A box is cut out first, as published, so that nothing around it has a part in its features.
    """
    image = load(photo, size, box=box)
    height, width = image.pixels.shape[:2]
    check_visible(width, height, photo)
    left, top, right, bottom = (0, 0, image.width, image.height)
    if box is not None:
        left, top, right, bottom = pixel_box(box, image.width, image.height)
    images = model.normalise(torch.from_numpy(image.pixels)[None].to(model.device))
    maps = local_maps(model, images)
    pool, stride = local_pooling(model), model.backbone.stride
    maps_of, rows = kept_features(pool, maps, stride, keypoints)
    points, sizes = np.empty((2, len(rows), 2))
    descriptors = np.empty((len(rows), pool.local_dim), np.float32)
    for number, one in enumerate(maps):
        mine = maps_of == number
        down, across = np.divmod(rows[mine], one.strengths.shape[1])
        # Pixels of the photo for one of the resized picture.
        ratio = (right - left) / one.size[1], (bottom - top) / one.size[0]
        places = model.backbone.first + stride * np.stack([across, down], axis=1)
        points[mine] = places * ratio + (left, top) - 0.5
        sizes[mine] = 2 * stride * np.array(ratio)
        descriptors[mine] = one.descriptors.reshape(-1, pool.local_dim)[rows[mine]]
    points = np.clip(points, (left - 0.5, top - 0.5), (right - 0.5, bottom - 0.5))
    return {
        "points": points.astype(np.float32),
        "sizes": sizes.mean(axis=1).astype(np.float32),
        "angles": np.zeros(len(rows), np.float32),
        "descriptors": descriptors,
        "shape": (image.height, image.width),
        "scale": ((right - left) / width + (bottom - top) / height) / 2,
        "unit": pool.unit,
        "dense": True,
    }


def kept_features(
    pool: LocalPooling, maps: Sequence[LocalMap], stride: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which of all features are kept: (n,) numbers of maps and (n,) locations, strongest first."""
    strengths = [one.strengths.ravel() for one in maps]
    if pool.selection == "suppression":
        boxes = [receptive_boxes(one.strengths.shape, stride, one.scale) for one in maps]
        return select(strengths, boxes, count)
    maps_of = np.repeat(np.arange(len(maps)), [len(one) for one in strengths])
    rows = np.concatenate([np.empty(0, np.int64), *(np.arange(len(one)) for one in strengths)])
    kept = strongest(np.concatenate([np.empty(0, np.float32), *strengths]), count)
    return maps_of[kept], rows[kept]


def local_pooling(model: RetrievalNet) -> LocalPooling:
    """The local pooling of a network; a SolarError if it has none."""
    if not isinstance(model.pool, LocalPooling):
        raise SolarError(
            f"{model.source or 'The model'} describes whole photos, not keypoints: choose a "
            "patch model, a HOW or DELF network, or rootsift."
        )
    return model.pool


def _backbone(model: RetrievalNet) -> Callable[[Tensor], Tensor]:
    """The backbone; on a CPU it is fused, which is worth it for seven scales."""
    if model.device.type != "cpu" or not model.backbone.fusable:
        return model.forward_features
    fused: nn.Module = model.backbone.fuse()
    fused.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return lambda images: fused(images.contiguous(memory_format=torch.channels_last))


def strongest(strengths: Floats, count: int) -> Ints:
    """The `count` strongest rows, strongest first; of equal ones the earlier first."""
    return np.argsort(-strengths, kind="stable")[:count]


def above_threshold(strengths: Floats) -> Ints:
    """Rows above the first threshold of 260, 130, 65 … that a thousand pass; none is below 0.1.

    Where no threshold lets that many pass, those above the last: a small map has fewer.
    """
    threshold = _FIRST
    passing = np.flatnonzero(strengths > threshold)
    while len(passing) < _WANTED and threshold / 2 >= _LEAST:
        threshold /= 2
        passing = np.flatnonzero(strengths > threshold)
    return passing


def receptive_boxes(shape: tuple[int, ...], stride: float, scale: float = 1.0) -> Floats:
    """What each location of a map (h, w) sees, (h·w, 4): y0, x0, y1, x1 in pixels of the photo.

    The map is of the photo times `scale`; boxes reach beyond its border.
    """
    rows, columns = shape
    y, x = np.divmod(np.arange(rows * columns), columns)
    centres = stride * np.stack([y, x, y, x], axis=1)
    return ((centres + REACH * np.array([-1, -1, 1, 1])) / scale).astype(np.float32)


def suppressed(
    boxes: Floats, strengths: Floats, *, overlap: float = OVERLAP, most: int = _WANTED
) -> Ints:
    """Of the `most` strongest, those that no stronger one covers, strongest first.

    Boxes are (n, 4): y0, x0, y1, x1. One is dropped if its intersection with one that is kept is
    more than `overlap` of their union.
    """
    left = strongest(strengths, most)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    while len(left):
        first, left = left[0], left[1:]
        kept.append(int(first))
        begin = np.maximum(boxes[left, :2], boxes[first, :2])
        end = np.minimum(boxes[left, 2:], boxes[first, 2:])
        shared = np.maximum(end - begin, 0).prod(axis=1)
        left = left[shared <= overlap * (area[left] + area[first] - shared)]
    return np.array(kept, np.int64)


def select(strengths: Sequence[Floats], boxes: Sequence[Floats], count: int) -> tuple[Ints, Ints]:
    """The scale, and the row of it, of each feature that DELF keeps of several scales.

    Every scale sends those above its own threshold; then the strongest of all are kept, no place
    twice.
    """
    passing = [above_threshold(one) for one in strengths]
    scales = np.repeat(np.arange(len(passing)), [len(rows) for rows in passing])
    rows = np.concatenate([np.empty(0, np.int64), *passing])
    all_boxes = np.concatenate([np.empty((0, 4), np.float32), *_taken(boxes, passing)])
    strength = np.concatenate([np.empty(0, np.float32), *_taken(strengths, passing)])
    kept = suppressed(all_boxes, strength, most=count)
    return scales[kept], rows[kept]


def _taken(arrays: Sequence[Floats], rows: Sequence[Ints]) -> list[Floats]:
    return [one[some] for one, some in zip(arrays, rows, strict=True)]
