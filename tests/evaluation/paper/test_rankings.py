import tarfile
from pathlib import Path

import numpy as np
import pytest
from support.evaluate_networks import network

import solar
from solar.errors import SolarError
from solar.evaluation.paper.rankings import rankings, to_json, to_table
from solar.evaluation.table_text import to_text
from solar.models import RetrievalNet


def test_lists_are_the_full_sort_without_junk(
    truth: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    found = rankings(truth, {"tiny": tiny}, count=3, top=5, protocol="hard")
    names = [f"landmark-{i:03}/view-{j:03}.jpg" for i in range(3) for j in (1, 2, 3)]
    found_by_name = solar.build(truth.parent, tmp_path / "s", model=tiny).lookup(names)
    database = np.stack([found_by_name[name][1] for name in names])
    for one in found:
        landmark = one.query.partition("/")[0]
        [vector] = tiny.describe(truth.parent / one.query, box=one.box)
        order = [names[row] for row in np.argsort(-(database @ vector), kind="stable")]
        # Junk and, in the hard protocol, easy answers are not in the list.
        ignored = {f"{landmark}/view-001.jpg", f"{landmark}/view-002.jpg"}
        expected = [name for name in order if name not in ignored][:5]
        [listed] = one.lists
        assert [hit.name for hit in listed.hits] == expected
        right = [hit.name == f"{landmark}/view-003.jpg" for hit in listed.hits]
        assert [hit.right for hit in listed.hits] == right


def test_the_queries_that_differ_most_come_first(
    truth: Path, tiny: RetrievalNet, other: RetrievalNet
) -> None:
    found = rankings(truth, {"tiny": tiny, "other": other}, count=2, protocol="medium")
    precisions = [
        solar.evaluate(truth, model=net).protocols["medium"]["AP"] for net in (tiny, other)
    ]
    apart = np.abs(precisions[1] - precisions[0])
    assert [one.query[9:12] for one in found] == [
        f"{i:03}" for i in np.argsort(-apart, kind="stable")[:2]
    ]
    for one in found:
        number = int(one.query[9:12])
        assert [listed.model for listed in one.lists] == ["tiny", "other"]
        measured = [listed.average_precision for listed in one.lists]
        assert measured == [values[number] for values in precisions]


def test_a_query_may_be_named_and_carries_its_box_and_photo(
    truth: Path, tiny: RetrievalNet
) -> None:
    [one] = rankings(truth, {"tiny": tiny}, queries=["landmark-002/view-000.jpg"])
    assert one.query == "landmark-002/view-000.jpg"
    assert one.picture == truth.parent / one.query
    assert one.box == (8, 4, 60, 44)
    assert one.protocol == "hard"


def test_labelled_photos_ask_for_each_other_and_never_find_themselves(
    toys: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    [one] = rankings(toys, {"tiny": tiny}, queries=["landmark-001/view-002.jpg"], top=20)
    [listed] = one.lists
    assert len(listed.hits) == 11
    assert one.query not in [hit.name for hit in listed.hits]
    assert {hit.name for hit in listed.hits if hit.right} == {
        f"landmark-001/view-{j:03}.jpg" for j in (0, 1, 3)
    }
    with tarfile.open(tmp_path / "toys.tar", "w") as tar:
        tar.add(toys, "toys")
    [packed] = rankings(
        tmp_path / "toys.tar", {"t": tiny}, queries=["toys/landmark-001/view-002.jpg"], top=20
    )
    assert packed.picture == (toys / one.query).read_bytes()
    shown = [hit.right for hit in packed.lists[0].hits]
    assert shown == [hit.right for hit in listed.hits]


def test_distractors_are_listed_with_their_photos_where_there_are_any(
    truth: Path, toys: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    (others / "copy.jpg").write_bytes((toys / "landmark-000/view-003.jpg").read_bytes())
    query = ["landmark-000/view-000.jpg"]
    [one] = rankings(truth, {"t": tiny}, queries=query, top=9, distractors=others)
    [hit] = [hit for hit in one.lists[0].hits if hit.name == "copy.jpg"]
    assert (hit.picture, hit.right) == (others / "copy.jpg", False)
    np.save(tmp_path / "d.npy", tiny.describe(others / "copy.jpg"))
    [one] = rankings(truth, {"t": tiny}, queries=query, top=9, distractors=tmp_path / "d.npy")
    [hit] = [hit for hit in one.lists[0].hits if hit.name == "distractor 0"]
    assert (hit.picture, hit.right) == (None, False)


def test_lists_as_text_and_json(truth: Path, tiny: RetrievalNet) -> None:
    found = rankings(truth, {"tiny": tiny}, count=1, top=3)
    [listed] = found[0].lists
    marks = "".join("✓" if hit.right else "✗" for hit in listed.hits)
    assert to_text(to_table(found)).splitlines()[2].split()[-1] == marks
    [one] = to_json(found)
    assert one["models"]["tiny"]["AP"] == 100 * listed.average_precision
    assert [hit["photo"] for hit in one["models"]["tiny"]["hits"]] == [
        hit.name for hit in listed.hits
    ]


def test_what_is_not_there_is_told(truth: Path, toys: Path, tmp_path: Path) -> None:
    net = network(scales=(1.0,))
    with pytest.raises(SolarError, match="nobody"):
        rankings(truth, {"net": net}, queries=["nobody"])
    with pytest.raises(SolarError, match="easy or medium or hard"):
        rankings(truth, {"net": net}, protocol="all")
    solar.build(toys, tmp_path / "toys.solar", model=net)
    with pytest.raises(SolarError, match="no photos"):
        rankings(tmp_path / "toys.solar", {"net": net})
    assert rankings(tmp_path / "toys.solar", {"net": net}, root=toys, count=1)[0].picture
