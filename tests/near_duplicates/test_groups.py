"""Which photos of related pairs make a group, and which of them are kept."""

from collections.abc import Sequence

from solar.near_duplicates.groups import groups_of
from solar.near_duplicates.report import KINDS, DuplicateGroup, DuplicatePhoto, Relation


def related(a: int, b: int, kind: str, covers: tuple[float, float] = (1.0, 1.0)) -> Relation:
    return Relation(a, b, kind, kind, 0.9, covers=covers)


def grouped(
    *pairs: Relation, kinds: Sequence[str] = KINDS, taken: Sequence[str | None] = (None,) * 9
) -> list[DuplicateGroup]:
    """Groups of photos that are called by their rows; the first ones have the most pixels."""

    def facts(row: int) -> DuplicatePhoto:
        return DuplicatePhoto(str(row), 90 - row, 1, 1, taken[row])

    return list(groups_of(pairs, kinds, facts))


def kept(group: DuplicateGroup) -> tuple[list[str], list[str]]:
    return group.keep, group.rest


def test_a_part_that_no_other_photo_shows_whole_is_kept() -> None:
    [overlapping] = grouped(related(0, 1, "crop", (0.5, 0.5)))
    assert kept(overlapping) == (["0", "1"], [])
    assert overlapping.photos[1].why == "no other kept photo shows all of it"
    # The same two, with a copy of the second, and then with their original.
    [group] = grouped(related(0, 1, "crop", (0.5, 0.5)), related(1, 2, "copy"))
    assert kept(group) == (["0", "1"], ["2"])
    [group] = grouped(
        related(0, 1, "crop", (0.5, 0.5)),
        related(0, 3, "crop", (1.0, 0.4)),
        related(1, 3, "crop", (0.97, 0.4)),
    )
    assert kept(group) == (["3"], ["0", "1"])


def test_what_is_in_a_part_is_in_the_whole() -> None:
    [group] = grouped(related(0, 1, "crop", (0.5, 1.0)), related(1, 2, "crop", (0.5, 1.0)))
    assert kept(group) == (["0"], ["1", "2"])


def test_groups_are_joined_by_the_kinds_that_are_asked_for() -> None:
    pairs = related(0, 1, "exact"), related(0, 2, "crop", (0.3, 1.0)), related(1, 3, "copy")

    def found(*kinds: str) -> list[tuple[str, list[str]]]:
        return [(one.kind, sorted(one.keep + one.rest)) for one in grouped(*pairs, kinds=kinds)]

    assert found("exact", "copy") == [("copy", ["0", "1", "3"])]
    assert found("exact", "crop") == [("crop", ["0", "1", "2"])]
    assert found("exact") == [("exact", ["0", "1"])]


def test_places_are_told_of_kept_photos_whatever_is_asked_for() -> None:
    pairs = (
        related(0, 1, "copy"),
        related(2, 3, "crop", (0.5, 0.5)),
        *(related(a, b, "burst") for a, b in ((0, 2), (0, 3), (1, 2))),
    )
    for kinds in (("burst",), ("exact", "burst"), KINDS):
        [burst] = [one for one in grouped(*pairs, kinds=kinds) if one.kind == "burst"]
        assert kept(burst) == (["0", "2", "3"], [])


def test_a_photo_without_a_time_does_not_join_moments_that_are_apart() -> None:
    # 2 looks like all of the others, and 3 to 5 are frames of a long series.
    pairs = [related(a, b, "burst") for a, b in ((0, 1), (0, 2), (2, 3), (3, 4), (4, 5))]
    series = [f"2023-07-14T10:00:{second:02}" for second in (0, 9, 18)]
    taken = ["2019-05-01T12:00:00", "2019-05-01T12:00:01", None, *series]
    found = [(group.kind, group.keep) for group in grouped(*pairs, taken=taken)]
    assert found == [("burst", ["0", "1"]), ("burst", list("345")), ("place", list("012345"))]
    [one] = grouped(*pairs[2:], taken=taken)
    assert (one.kind, one.keep) == ("burst", list("2345"))
