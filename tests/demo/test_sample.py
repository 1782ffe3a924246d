from pathlib import Path

import pytest
from support.boxed import needs_weights
from support.drawn import drawn_retrieval

from solar.demo import sample, toy
from solar.errors import SolarError
from solar.images import Roots
from solar.index import Index
from solar.models import RetrievalConfig, RetrievalNet, save
from solar.models import load as load_model


@pytest.fixture
def model(tmp_path: Path) -> RetrievalNet:
    """A small network with attention, which comes from a file."""
    config = RetrievalConfig("resnet18", attention={5: 2}, size=96, scales=(1.0,))
    path = save(drawn_retrieval(config), tmp_path / "small.safetensors")
    net = load_model(path, device="cpu")
    assert isinstance(net, RetrievalNet)
    return net


def test_a_sample_of_generated_photos_is_made_once(tmp_path: Path, model: RetrievalNet) -> None:
    described: list[int] = []
    for _ in range(2):
        made = sample.toy_sample(
            tmp_path,
            model,
            landmarks=2,
            views=2,
            progress=lambda _, done, __: described.append(done),
        )
    assert described[-1] == made.photos == 4
    assert described.count(4) == 1
    assert Path(made.query).is_file()
    answer = sample.ask(made, model, k=3)
    assert len(answer.hits) == 3
    assert {made.is_right(hit.path) for hit in answer.hits} == {True, False}
    page = answer.page.read_text(encoding="utf-8")
    assert page.count("✓ right") + page.count("✗ wrong") == 3
    assert "Attention maps" in page
    told = sample.score(made)
    assert 0 < told["mAP"] <= 100  # type: ignore[operator]


def test_another_model_has_another_sample(tmp_path: Path, model: RetrievalNet) -> None:
    first = sample.toy_sample(tmp_path, model, landmarks=1, views=2)
    model.pool.p.data += 1
    assert sample.toy_sample(tmp_path, model, landmarks=1, views=2).index != first.index


@needs_weights
def test_a_folder_is_asked_for_the_photo_with_the_surest_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(device="cpu")
    assert isinstance(model, RetrievalNet)
    photos = tmp_path / "my photos"
    photos.mkdir()
    for number, (identity, view) in enumerate(((0, 0), (1, 0), (2, 0))):
        toy.landmark(identity, view, size=(96, 72)).save(photos / f"{number}.jpg")
    almost = toy.landmark(2, 0, size=(96, 72)).crop((6, 4, 96, 72))
    almost.save(photos / "3.jpg")
    (photos / "4.jpg").write_bytes((photos / "0.jpg").read_bytes())  # a copy proves nothing
    made = sample.folder_sample(photos, tmp_path / "out", model)
    assert (made.photos, made.found, made.label) == (5, 5, "")
    assert made.query in ("name:2.jpg", "name:3.jpg")
    answer = sample.ask(made, model)
    assert made.query.removeprefix("name:") not in [hit.path for hit in answer.hits]
    assert "✓ right" not in answer.page.read_text(encoding="utf-8")
    with Index.open(made.index) as index:
        assert index.roots == Roots.at(photos)
    (photos / "5.jpg").write_bytes((photos / "0.jpg").read_bytes())
    monkeypatch.setattr(sample, "MOST", 4)
    fewer = sample.folder_sample(photos, tmp_path / "out", model)
    assert (fewer.photos, fewer.found) == (4, 6)


def test_a_lone_photo_has_nothing_like_it(tmp_path: Path, model: RetrievalNet) -> None:
    (tmp_path / "one").mkdir()
    toy.landmark(0, 0, size=(96, 72)).save(tmp_path / "one" / "0.jpg")
    with pytest.raises(SolarError, match="only 1 photo"):
        sample.folder_sample(tmp_path / "one", tmp_path / "out", model)
