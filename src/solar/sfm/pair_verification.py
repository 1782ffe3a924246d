"""Pairs of photos and their local features, a few at a time; which pairs fit one geometry."""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from solar.describe.progress import Progress, counted
from solar.errors import SolarError, and_more
from solar.index.embeddings import DescribedCollection
from solar.local.features import LocalFeatures
from solar.ranking.calibration import Evidence
from solar.ranking.verify import Verifier, VerifySettings

Pair: TypeAlias = tuple[str, str]
"""Names of two photos."""

PAIRS = 64
"""So many have their features in memory at a time: up to some hundred MB."""


def verifier_of(photos: DescribedCollection, settings: VerifySettings) -> Verifier:
    """What finds and compares local features of the photos of a collection.

    A SolarError if it is unknown where the photos are, or OpenCV is not installed.
    """
    roots = photos.roots.moved_to(settings.photos)
    if not any(Path(root.path).exists() for root in roots.roots):
        raise SolarError(
            f"{roots or 'The folder of the photos'} cannot be found: name it with `photos=`, or "
            "photos= in Python."
        )
    return Verifier(roots.find, photos.local, settings)


def verified(
    pairs: Iterable[Pair],
    verifier: Verifier,
    total: int,
    progress: Progress | None = None,
) -> Iterator[Pair]:
    """Those of the pairs whose keypoints fit one geometry, in their order.

    Photos that are gone or cannot be read fit none, which a warning says.
    """
    advance = counted(progress, "Verifying", total)
    for some in matched(pairs, verifier):
        yield from (pair for pair, found in some if found is not None and found.same_scene)
        advance(len(some))


def matched(
    pairs: Iterable[Pair], verifier: Verifier
) -> Iterator[list[tuple[Pair, Evidence | None]]]:
    """How the photos of each pair match, `PAIRS` at a time; None where one cannot be read."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        for some, features in with_features(pairs, verifier, threads):
            found = threads.map(partial(_evidence, verifier, features), some)
            yield list(zip(some, found, strict=True))


def _evidence(
    verifier: Verifier, features: Mapping[str, LocalFeatures], pair: Pair
) -> Evidence | None:
    if any(name not in features for name in pair):
        return None
    return verifier.evidence(*(features[name] for name in pair))


def with_features(
    pairs: Iterable[Pair], verifier: Verifier, threads: ThreadPoolExecutor
) -> Iterator[tuple[list[Pair], dict[str, LocalFeatures]]]:
    """Pairs in pieces, each with the features of its photos.

    Features are as they are kept, so that another run gives the same. Photos that are gone or
    cannot be read have none, which a warning says at the end.
    """
    errors: dict[str, str] = {}

    def found(name: str) -> LocalFeatures | None:
        try:
            fresh = verifier.features(name)
            return verifier.kept(name) or fresh
        except SolarError as error:
            errors[name] = str(error)
            return None

    waiting, features = iter(pairs), dict[str, LocalFeatures]()
    while some := list(islice(waiting, PAIRS)):
        names = dict.fromkeys(name for pair in some for name in pair)
        new = [name for name in names if name not in features and name not in errors]
        features = {name: one for name, one in features.items() if name in names}
        known = zip(new, threads.map(found, new), strict=True)
        features |= {name: one for name, one in known if one is not None}
        yield some, features
    if errors:
        warnings.warn(f"Not matched: {and_more(errors.values())}", stacklevel=3)
