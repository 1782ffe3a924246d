import numpy as np
import pytest

from solar.errors import SolarError
from solar.evaluation import evaluate_labels


def collection(seed: int = 0) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    labels = [*"aaaabbbbbcccdd", "alone"]
    centres = {label: rng.standard_normal(8) for label in sorted(set(labels))}
    rows = np.array([centres[label] + 0.9 * rng.standard_normal(8) for label in labels])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), labels


def by_hand(rows: np.ndarray, labels: list[str], extra: np.ndarray) -> dict[str, float]:
    """Each photo against all the others, one sorted list at a time."""
    everything = np.concatenate([rows, extra]).astype(float)
    values = []
    for i, label in enumerate(labels):
        if labels.count(label) < 2:
            continue
        order = [j for j in np.argsort(-(everything @ everything[i]), kind="stable") if j != i]
        hits = [j < len(labels) and labels[j] == label for j in order]
        places = [place for place, hit in enumerate(hits) if hit]
        area = sum(
            ((k / place if place else 1) + (k + 1) / (place + 1)) / 2
            for k, place in enumerate(places)
        )
        cuts = [min(k, places[-1] + 1) for k in (1, 5, 10)]
        precision = [sum(hits[:k]) / k for k in cuts]
        values.append([area / len(places), *precision, *(any(hits[:k]) for k in (1, 5, 10))])
    names = ("mAP", "mP@1", "mP@5", "mP@10", "recall@1", "recall@5", "recall@10")
    return dict(zip(names, (100 * np.mean(values, axis=0)).tolist(), strict=True))


@pytest.mark.parametrize("distractors", [0, 40])
def test_every_photo_asks_for_the_others_of_its_label(distractors: int) -> None:
    rows, labels = collection()
    extra = collection(1)[0].repeat(3, axis=0)[:distractors]
    found = evaluate_labels(rows, labels, distractors=extra if distractors else None)
    assert found.to_dict() == pytest.approx(by_hand(rows, labels, extra))


def test_a_photo_alone_with_its_label_asks_nothing() -> None:
    rows, labels = collection()
    names = [f"{i}.jpg" for i in range(len(labels))]
    found = evaluate_labels(rows, labels, photos=names)
    assert found.queries == tuple(names[:-1])


def test_copies_of_a_photo_are_found_although_it_leaves_itself_out() -> None:
    rows, labels = collection()
    found = evaluate_labels(rows.repeat(2, axis=0), [x for x in labels for _ in (0, 1)])
    assert found.mean("recall@1") == 1


def test_labels_that_never_repeat_are_refused() -> None:
    rows, _ = collection()
    with pytest.raises(SolarError, match="same label"):
        evaluate_labels(rows, [str(i) for i in range(len(rows))])


def test_labels_of_other_photos_are_refused() -> None:
    rows, labels = collection()
    with pytest.raises(SolarError, match=r"14 labels .* 15 rows"):
        evaluate_labels(rows, labels[:-1])
