"""Which photos of related pairs make a group, and which of them are kept."""

from collections.abc import Sequence

import pytest

from solar.errors import SolarError
from solar.near_duplicates.groups import groups_of, keep_rule
from solar.near_duplicates.report import KINDS, DuplicateGroup, DuplicatePhoto, Relation


def related(
    a: int, b: int, kind: str, covers: tuple[float, float] = (1.0, 1.0), better: str = "a"
) -> Relation:
    return Relation(a, b, kind, kind, 0.9, covers=covers, better=better, because="better")


def grouped(
    *pairs: Relation,
    kinds: Sequence[str] = KINDS,
    taken: Sequence[str | None] = (None,) * 9,
    keep: str = "evidence",
    names: Sequence[str] = "012345678",
) -> list[DuplicateGroup]:
    """Groups of photos that are called by their rows; the first ones have the most pixels."""

    def facts(row: int) -> DuplicatePhoto:
        return DuplicatePhoto(names[row], 90 - row, 1, 9 - row, taken[row])

    return list(groups_of(pairs, kinds, facts, keep_rule(keep)))


def kept(group: DuplicateGroup) -> tuple[list[str], list[str]]:
    return group.keep, group.rest


def test_a_part_that_no_other_photo_shows_whole_is_kept() -> None:
    [overlapping] = grouped(related(0, 1, "crop", (0.5, 0.5)))
    assert kept(overlapping) == (["0", "1"], [])
    assert overlapping.photos[1].why == "no other kept photo shows all of it (89×1, 1 KiB)"
    # The same two, with a copy of the second, and then with their original.
    [group] = grouped(related(0, 1, "crop", (0.5, 0.5)), related(1, 2, "copy"))
    assert kept(group) == (["0", "1"], ["2"])
    [group] = grouped(
        related(0, 1, "crop", (0.5, 0.5)),
        related(0, 3, "crop", (1.0, 0.4), "b"),
        related(1, 3, "crop", (0.97, 0.4), "b"),
    )
    assert kept(group) == (["3"], ["0", "1"])


def test_where_nothing_tells_nothing_is_removed() -> None:
    [pair] = grouped(related(0, 1, "copy", better=""))
    assert kept(pair) == ([], [])
    assert [photo.keep for photo in pair.photos] == [None, None]
    # The third is a copy of one of the two, whichever of them is the original.
    [three] = grouped(related(0, 1, "copy", better=""), related(1, 2, "copy"))
    assert kept(three) == ([], ["2"])
    assert three.photos[2].why == "copy; 1: better"
    # Evidence that goes round in a circle is none.
    circle = [related(a, b, "copy") for a, b in ((0, 1), (1, 2))]
    [group] = grouped(*circle, related(0, 2, "copy", better="b"))
    assert kept(group) == ([], [])
    # A part that may be finer than the whole is kept beside it.
    [part] = grouped(related(0, 1, "crop", (0.5, 1.0), better=""))
    assert kept(part) == (["0", "1"], [])
    assert "finer" in part.photos[1].why


def test_of_equal_files_one_is_kept_and_named_so_in_a_larger_group() -> None:
    [group] = grouped(related(0, 1, "copy"), related(1, 2, "exact", better=""))
    assert kept(group) == (["0"], ["1", "2"])
    assert group.photos[2].why.startswith("exact")
    assert [row[3] for row in group.rows()] == ["copy", "exact", "exact"]


@pytest.mark.parametrize(
    ("rule", "rest"),
    [
        ("evidence", ["a/1"]),
        ("oldest", ["a/1"]),
        ("largest", ["a/1"]),
        ("folder:a", ["b/0"]),
        ("folder:b, a", ["a/1"]),
        ("folder:c", ["a/1"]),
    ],
)
def test_a_rule_goes_before_the_evidence(rule: str, rest: list[str]) -> None:
    taken = "2019-05-01T12:00:00", "2019-05-01T12:00:01"
    [group] = grouped(related(0, 1, "copy"), keep=rule, names=("b/0", "a/1"), taken=taken)
    assert group.rest == rest
    # What it shows besides is not lost.
    [group] = grouped(related(0, 1, "crop", (0.5, 1.0)), keep="folder:a", names=("b/0", "a/1"))
    assert group.rest == []


@pytest.mark.parametrize("rule", ["newest", "folder:", "folder", "oldest:a"])
def test_an_unknown_rule_is_refused(rule: str) -> None:
    with pytest.raises(SolarError, match=f"no rule '{rule}'.*oldest, largest"):
        keep_rule(rule)


def test_a_name_that_makes_a_copy_tells_where_nothing_else_does() -> None:
    for names in (("a/x (1)", "b/x"), ("x-edited", "x"), ("x~2", "x"), ("x_small", "x")):
        [group] = grouped(related(0, 1, "copy", better=""), names=names)
        assert group.rest == [names[0]]
    [group] = grouped(related(0, 1, "copy", better=""), names=("x1", "x12"))
    assert group.rest == []


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


def test_of_photos_with_as_many_pixels_the_larger_file_is_kept() -> None:
    value = keep_rule("largest")
    assert value is not None
    sizes = ((300, 200, 5), (200, 300, 9), (300, 201, 1))
    photos = [DuplicatePhoto(str(size), *size) for size in sizes]
    assert [photo.bytes for photo in sorted(photos, key=value)] == [1, 9, 5]
