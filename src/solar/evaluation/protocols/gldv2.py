"""Google Landmarks v2: retrieval mAP@100 and recognition µAP, for photos or for predictions."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from solar.arrays import Doubles, Ints
from solar.datasets.public.gldv2 import (
    CLEAN_LIST,
    RECOGNITION,
    RETRIEVAL,
    USAGES,
    Solution,
    photo_ids,
    photo_landmarks,
    read_predictions,
    read_solution,
    solution_file,
)
from solar.errors import SolarError
from solar.evaluation.described_photos import (
    DescribedPhotos,
    PhotoDescriber,
    describe_side,
    how_described,
    open_distractors,
    open_rows,
    rank_options,
)
from solar.evaluation.embeddings import NAMES
from solar.evaluation.metrics import average_precision_at
from solar.evaluation.ranks import best, ranks
from solar.evaluation.result import Evaluation
from solar.evaluation.settings import EvaluationSettings
from solar.images import Photos, find_photos
from solar.storage.catalogue import is_index
from solar.storage.rows import Matrix

K = 100


def evaluate_retrieval(
    what: str | Path, describe: PhotoDescriber | None, settings: EvaluationSettings
) -> Evaluation:
    """Measure mAP@k: test photos query the index photos, or predictions are given."""
    solution, k = _solution(what, RETRIEVAL, settings), settings.depth or K
    asked = list(solution.right)
    if settings.predictions is not None:
        lists = read_predictions(settings.predictions, solution)
        found = [_in_list(solution.right[photo], lists.get(photo, ())) for photo in asked]
        how = "Predictions as given"
    else:
        index = _Side(Path(what, settings.database or "index"), 0, None, settings)
        test = _Side(Path(what, settings.queries or "test"), 1, asked, settings)
        # Describing may take days: report what is missing before.
        index.rows((one for own in solution.right.values() for one in own), solution)
        test.rows(asked, solution)
        gallery, queries = index.describe(describe), test.describe(describe)
        right = [index.rows(solution.right[photo], solution) for photo in asked]
        ranking = rank_options(settings, open_distractors(describe, settings))
        vectors = queries[test.rows(asked, solution)]
        found = [np.sort(own) for own in ranks(vectors, gallery, right, **ranking)]
        how = f"Whole photos, {how_described(describe, settings)}"
    values = dict(zip(asked, (average_precision_at(own, k) for own in found), strict=True))
    return Evaluation(
        tuple(asked),
        _by_usage(
            solution, lambda photos: {f"AP@{k}": np.array([values[photo] for photo in photos])}
        ),
        convention=f"{how}; AP over the first {k}: sum of the precisions at the correct photos, "
        f"divided by min({k}, correct photos).",
    )


def evaluate_recognition(
    what: str | Path, describe: PhotoDescriber | None, settings: EvaluationSettings
) -> Evaluation:
    """Measure µAP: a test photo gets the landmark of its nearest train photo, or predictions do."""
    solution = _solution(what, RECOGNITION, settings)
    asked = list(solution.right)
    if settings.predictions is not None:
        given = read_predictions(settings.predictions, solution)
        answers = {photo: (own[0], float(own[1])) for photo, own in given.items()}
        how = "Predictions as given"
    else:
        answers = _nearest_landmarks(what, solution, describe, settings)
        how = f"Whole photos, {how_described(describe, settings)}, landmark of the nearest photo"
    return Evaluation(
        tuple(asked),
        _by_usage(solution, lambda photos: measure_recognition(photos, solution.right, answers)),
        convention=f"{how}; µAP: all answers in one list by score; its interval takes the "
        "precision at each answer as it is.",
    )


def measure_recognition(
    photos: Sequence[str],
    right: Mapping[str, Sequence[str]],
    answers: Mapping[str, tuple[str, float]],
) -> dict[str, Doubles]:
    """Each photo's part in µAP, so that their mean is µAP, and whether its answer is right.

    Answers are a landmark and a score by photo. A photo without any right landmark lowers the
    precision of those listed after it, and is NaN here.
    """
    # As the challenge sorts them: by score, then by name.
    listed = sorted(
        (number for number, photo in enumerate(photos) if photo in answers),
        key=lambda number: (-answers[photos[number]][1], photos[number]),
    )
    known = np.array([bool(right[photo]) for photo in photos])
    correct = np.zeros(len(photos), np.bool_)
    correct[listed] = [answers[photos[n]][0] in right[photos[n]] for n in listed]
    parts = np.zeros(len(photos))
    precision = correct[listed].cumsum() / np.arange(1, len(listed) + 1)
    parts[listed] = np.where(correct[listed], precision, 0)
    return {
        "µAP": np.where(known, parts, np.nan),
        "accuracy": np.where(known, correct, np.nan),
    }


def _nearest_landmarks(
    what: str | Path,
    solution: Solution,
    describe: PhotoDescriber | None,
    settings: EvaluationSettings,
) -> dict[str, tuple[str, float]]:
    listed = Path(what, CLEAN_LIST)
    landmarks = photo_landmarks(listed)
    train = _Side(Path(what, settings.database or "train"), 0, landmarks, settings)
    test = _Side(Path(what, settings.queries or "test"), 1, solution.right, settings)
    for name in train.numbers:
        if name not in landmarks:
            raise SolarError(f"The photo {name} of {train.place} is not in {listed}.")
    test.rows(solution.right, solution)
    gallery, queries = train.describe(describe), test.describe(describe)
    vectors = queries[test.rows(solution.right, solution)]
    ranking = rank_options(settings, open_distractors(describe, settings))
    # A distractor shows no landmark: its answer is never right.
    shown = [str(landmarks[name]) for name in train.numbers]
    nearest = (
        (shown[row[0]] if row[0] < len(shown) else "", float(score[0]))
        for row, score in best(vectors, gallery, 1, **ranking)
    )
    return dict(zip(solution.right, nearest, strict=True))


def _solution(what: str | Path, task: str, settings: EvaluationSettings) -> Solution:
    return read_solution(settings.ground_truth or Path(what, solution_file(task)), task)


class _Side:
    """The index, train or test photos, by their ids, and their descriptors once described.

    Rows of features that are no index are in the order of the published lists, `index.csv`,
    `train_clean.csv` and `test.csv`.
    """

    def __init__(
        self, place: Path, side: int, wanted: Container[str] | None, settings: EvaluationSettings
    ) -> None:
        self.place = place
        self.found: Photos | DescribedPhotos
        features = None if settings.features is None else settings.features[side]
        if features is not None:
            self.found = open_rows(features, NAMES[1 - side], "`features=`")
        elif is_index(place):
            self.found = open_rows(place, str(place), "")
        else:
            photos = find_photos(place)
            here = (n for n, name in enumerate(photos.names) if not wanted or _id(name) in wanted)
            self.found = photos.select(here)
        if isinstance(self.found, DescribedPhotos) and self.found.known is None:
            listed = place.parent / (CLEAN_LIST if place.name == "train" else f"{place.name}.csv")
            ids = [photo.decode() for photo in photo_ids(listed).tolist()]
            self.found.rows_of(ids, f"photos in {listed}")
        else:
            ids = [_id(name) for name in self.found.names]
        self.numbers = {photo: number for number, photo in enumerate(ids)}
        if len(self.numbers) < len(ids):
            raise SolarError(f"Two photos of {place} have the same id: keep one of them.")

    def describe(self, describe: PhotoDescriber | None) -> Matrix:
        """The descriptors; photos that cannot be read lose their numbers."""
        part = describe_side(self.found, self.place, describe)
        if part.known is not None:
            self.numbers = {_id(name): number for number, name in enumerate(part.names)}
        return part.rows

    def rows(self, photos: Iterable[str], solution: Solution) -> list[int]:
        """The numbers of some photos; a SolarError if one is missing."""
        try:
            return [self.numbers[photo] for photo in photos]
        except KeyError as error:
            photo, path = error.args[0], solution.path
            raise SolarError(f"{path} names the photo {photo}, not in {self.place}.") from None


def _id(name: str) -> str:
    return PurePosixPath(name).stem


def _in_list(right: Sequence[str], listed: Sequence[str]) -> Ints:
    """Ranks of the right photos in a list; those not in it come far behind."""
    first = {photo: rank for rank, photo in reversed([*enumerate(listed)])}
    return np.sort(np.array([first.get(photo, 2**62) for photo in right], np.int64))


def _by_usage(
    solution: Solution, measure: Callable[[list[str]], Mapping[str, Doubles]]
) -> dict[str, Mapping[str, Doubles]]:
    """Measure the public part and the private one, each with NaN for the photos of the other."""
    found: dict[str, Mapping[str, Doubles]] = {}
    of = np.array(list(solution.usage.values()))
    for usage in USAGES:
        photos = [photo for photo, own in solution.usage.items() if own == usage]
        if photos:
            spread = {}
            for name, values in measure(photos).items():
                spread[name] = np.full(len(of), np.nan)
                spread[name][of == usage] = values
            found[usage.lower()] = spread
    return found
