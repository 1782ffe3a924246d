"""Labelled photos held in memory, to measure a network while it learns."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from solar.datasets.folders import labelled_photos
from solar.evaluate.labelled import evaluate_labels
from solar.images import load
from solar.images.batches import Batcher
from solar.models import RetrievalNet
from solar.models.inference import inference


class Labelled:
    """Photos and what they show, decoded once.

    Args:
        source: Folders of `landmark/photo.jpg`, tar shards of the same, or one CSV.
        size: Longest side of a photo.
        workers: Threads that decode.

    Raises:
        SolarError: A photo cannot be read, or it is not said what one shows.
    """

    def __init__(self, source: Sequence[str | Path], size: int, *, workers: int = 4) -> None:
        photos, self.labels = labelled_photos(source)
        with ThreadPoolExecutor(workers) as pool:
            numbers = range(len(photos))
            decoded = pool.map(lambda n: load(photos.read(n), size, mode="fast").pixels, numbers)
            self.pixels = list(decoded)

    def mean_average_precision(self, model: RetrievalNet, scales: Sequence[float]) -> float:
        """Ask for every photo among the others, all described at these scales; in percent."""
        vectors = np.empty((len(self.pixels), model.dim), np.float32)
        batcher: Batcher[int] = Batcher(64)
        with inference(model):
            for number, pixels in enumerate(self.pixels):
                for batch in batcher.add(number, pixels):
                    vectors[batch.keys] = _described(model, batch.pixels, scales)
            for batch in batcher.flush():
                vectors[batch.keys] = _described(model, batch.pixels, scales)
        return 100 * evaluate_labels(vectors, self.labels).mean()


def _described(
    model: RetrievalNet,
    pixels: Sequence["np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"],
    scales: Sequence[float],
) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    images = model.normalise(torch.from_numpy(np.stack(pixels)).to(model.device))
    return np.asarray(model.multiscale(images, scales).float().cpu().numpy(), np.float32)
