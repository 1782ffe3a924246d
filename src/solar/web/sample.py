"""A small index to try things on: generated photos, and a network with drawn weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solar.describe.extractor import Progress

_PHOTO = (640, 480)
_SEEN = 480  # what the network sees of it


def sample_index(
    folder: Path, *, landmarks: int = 6, views: int = 4, progress: Progress | None = None
) -> Path:
    """Make a sample, unless it was made before.

    Args:
        folder: Where its photos, model and index are; each number of photos has its own inside.
        landmarks: Buildings to generate.
        views: Photos of each.
        progress: Called while photos are described.

    Returns:
        The index.

    Raises:
        SolarError: The folder cannot be written.
    """
    import torch

    from solar.datasets import toy
    from solar.models import RetrievalConfig, RetrievalNet, save
    from solar.search import Index
    from solar.search.build import build
    from solar.search.engine import NoIndexError

    place = (folder / f"{landmarks}x{views}").resolve()
    index, model = place / "sample.solar", place / "drawn-weights.safetensors"
    try:
        Index.open(index).close()
        return index
    except NoIndexError:
        pass
    toy.write(place / "photos", landmarks=landmarks, views=views, size=_PHOTO)
    torch.manual_seed(0)
    config = RetrievalConfig(
        "resnet18", attention={4: 4, 5: 2}, whitening=False, size=_SEEN, scales=(1.0,)
    )
    save(RetrievalNet(config), model)
    build(place / "photos", index, model=str(model), progress=progress).index.close()
    return index
