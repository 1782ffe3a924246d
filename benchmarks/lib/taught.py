"""Descriptors by a teacher: GeM (p = 3) on its map, at the size and scales of the model cards."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from solar.images import Photos, load
from solar.models import SCALES
from solar.nn.backbones.backbone import resize

SIZE = 384
NARROW = 64  # a panorama's shorter side is enlarged to this for the teacher's last layers

Vectors = NDArray[np.float32]


def taught(teacher: torch.nn.Module, photos: Photos, *, device: str, batch: int = 32) -> Vectors:
    """Unit rows: the mean of three scales' unit descriptors; photos of one shape go together."""
    with ThreadPoolExecutor() as pool:
        loaded = pool.map(lambda row: load(photos.read(row), SIZE).pixels, range(len(photos)))
        pixels = list(loaded)
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for row, own in enumerate(pixels):
        by_shape.setdefault(own.shape, []).append(row)
    vectors = np.empty((len(photos), 0), np.float32)
    for rows in by_shape.values():
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            images = torch.from_numpy(np.stack([pixels[row] for row in part])).to(device)
            images = images.movedim(-1, 1).float() / 255
            mean = torch.stack([teacher(_wide(resize(images, s)))[1] for s in SCALES]).mean(0)
            if not vectors.size:
                vectors = np.empty((len(photos), mean.shape[1]), np.float32)
            vectors[part] = torch.nn.functional.normalize(mean).cpu().numpy()
    return vectors


def _wide(images: torch.Tensor) -> torch.Tensor:
    short = min(images.shape[2:])
    return images if short >= NARROW else resize(images, NARROW / short)
