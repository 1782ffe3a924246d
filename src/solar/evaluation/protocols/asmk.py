"""Evaluate ASMK* with local features in place of one vector per photo."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from solar.arrays import Ints
from solar.asmk import index as asmk_index
from solar.asmk.build import KEYPOINTS, SIZE, read_codebook
from solar.asmk.codebook import Codebook
from solar.asmk.features import Finder
from solar.asmk.index import AsmkFolder
from solar.asmk.kernel import ASSIGN, Signatures, aggregate
from solar.datasets.labelled.photo_labels import labelled_photos
from solar.errors import SolarError
from solar.evaluation.labelled import label_groups, measure_labels
from solar.evaluation.metrics import AP_CONVENTIONS
from solar.evaluation.protocols.revisited import (
    answers_of,
    find_truth,
    measure_ground_truth,
    truth_photos,
)
from solar.evaluation.result import Evaluation
from solar.evaluation.settings import EvaluationSettings
from solar.images import Box, Photos, find_photos
from solar.local.features import local_features, local_model, local_name
from solar.storage.types import DescriptorSpec

_DISTRACTORS = "distractors:"  # before their names, which may be those of other photos


def evaluate_asmk(what: str | Path, settings: EvaluationSettings) -> Evaluation:
    """Rank a set with a ground truth, or labelled photos, by ASMK*; see `evaluate`.

    Photos that share nothing with a query come last.
    """
    assert settings.cache is not None
    _refuse(settings)
    truth = find_truth(what, settings)
    boxes: Mapping[str, Box] = {}
    labels: list[str] = []
    if truth is not None:
        database, queries, boxes = truth_photos(str(what), truth, settings.root)
    else:
        database, labels = labelled_photos(Path(what), settings.root)
        queries = database
    model = local_model(settings.local_features)
    finder = Finder(model, KEYPOINTS, settings.size or SIZE, Path(settings.cache, "local"))
    if settings.codebook is not None:
        codebook, whose = read_codebook(settings.codebook, model), "of other photos"
    else:
        codebook, whose = finder.learn(database), "learnt from the set itself"
    with tempfile.TemporaryDirectory(prefix="solar-asmk-") as folder:
        index = _indexed(database, finder, codebook, settings, Path(folder, "index"))
        if truth is not None:
            for name, why in index.failures.items():
                if not name.startswith(_DISTRACTORS):
                    raise SolarError(f"{what} cannot be evaluated without its photo {name}: {why}")
            places = [
                index.ranks(_asked(finder, queries, number, boxes, codebook), rows)
                for number, rows in enumerate(answers_of(truth))
            ]
            found = measure_ground_truth(truth, places, average=settings.average)
        else:
            found = _labelled(database, labels, index, finder, settings.average)
        size = int(index.engine.info()["bytes_a_photo"])
    how = f"ASMK* with {local_name(model)}, {len(codebook.words):,} visual words {whose}"
    kept = f"{size:,} bytes per photo, longest side {finder.size} px"
    average = AP_CONVENTIONS[settings.average]
    return replace(found, convention=f"{how}, {kept}; AP: {average}.", failures=index.failures)


@dataclass(frozen=True)
class _RankedSet:
    """An index of a set, and where photos stand in the list of a query."""

    engine: AsmkFolder
    codebook: Codebook
    rows: Mapping[str, int]  # of the photos that were described
    failures: Mapping[str, str]

    def ranks(self, query: Signatures, items: Ints) -> Ints:
        """The ranks of rows in the list of a query."""
        [hits] = self.engine.search_signatures([query], len(self.rows))
        listed = np.array([self.rows[hit.path] for hit in hits], np.int64)
        missing = np.setdiff1d(np.arange(len(self.rows)), listed)
        return np.argsort(np.concatenate([listed, missing]))[items]


def _indexed(
    database: Photos,
    finder: Finder,
    codebook: Codebook,
    settings: EvaluationSettings,
    folder: Path,
) -> _RankedSet:
    photos = database
    if settings.distractors is not None:
        if not isinstance(settings.distractors, str | Path):
            raise SolarError("With ASMK, `distractors=` must be photos, not embeddings.")
        others = find_photos(settings.distractors)
        names = (f"{_DISTRACTORS}{name}" for name in others.names)
        photos = Photos((*photos.names, *names), (*photos.places, *others.places))
    spec = DescriptorSpec(codebook.dim, local_name(finder.model), settings={"method": "asmk"})
    engine, failures = asmk_index.begin(folder, spec, codebook), dict[str, str]()
    progress = settings.progress
    engine.add_signatures(finder.signatures(photos, codebook, failures, progress=progress))
    described = [name for name in photos.names if name not in failures]
    if not described:
        raise SolarError(f"No photo could be described: {next(iter(failures.values()), 'none')}")
    return _RankedSet(engine, codebook, {name: n for n, name in enumerate(described)}, failures)


def _labelled(
    photos: Photos, labels: Sequence[str], index: _RankedSet, finder: Finder, average: str
) -> Evaluation:
    shown = [
        (number, label)
        for number, (name, label) in enumerate(zip(photos.names, labels, strict=True))
        if name in index.rows
    ]
    asking, kin = label_groups([label for _, label in shown], "the photos", index.failures)
    places, names = [], []
    for row, members in zip(asking.tolist(), kin, strict=True):
        number = shown[row][0]
        asked = _asked(finder, photos, number, {}, index.codebook)
        places.append(index.ranks(asked, members))
        names.append(photos.names[number])
    return measure_labels(names, asking, kin, places, average=average)


def _asked(
    finder: Finder, photos: Photos, number: int, boxes: Mapping[str, Box], codebook: Codebook
) -> Signatures:
    name, photo = photos.names[number], photos.read(number)
    if name in boxes:
        features = local_features(
            photo, finder.model, keypoints=finder.keypoints, size=finder.size, box=boxes[name]
        )
    else:
        features = finder.features(name, photo)
    return aggregate(features.descriptors, codebook, ASSIGN)


def _refuse(settings: EvaluationSettings) -> None:
    for name, given in (
        ("features", settings.features is not None),
        ("protocol", settings.protocol is not None),
        ("scales", settings.scales is not None),
        ("published", settings.published),
        ("compress", settings.compress == "fp16"),
        ("backend", settings.backend not in (None, "torch")),
    ):
        if given:
            raise SolarError(f"`{name}=` is for one embedding per photo: leave it out for ASMK.")
