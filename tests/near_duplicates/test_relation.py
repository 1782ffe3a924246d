"""When two files are the same picture to the last pixel."""

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.warped import toy_photo

from solar.near_duplicates.relation import PhotoComparer
from solar.near_duplicates.report import Relation
from solar.ranking.verify import Verifier


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    return Image.fromarray(toy_photo(0, (160, 120)))


@pytest.fixture(scope="module")
def comparer(tmp_path_factory: pytest.TempPathFactory) -> PhotoComparer:
    return PhotoComparer(Verifier(lambda name: None, tmp_path_factory.mktemp("local")))


def saved(image: Image.Image, **how: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, **({"format": "PNG"} | how))
    return out.getvalue()


def kind(comparer: PhotoComparer, a: bytes | Path, b: bytes | Path) -> str:
    found = comparer.relation(comparer.given(a), comparer.given(b), 0, part=False)
    assert found is not None
    return found.kind


def test_what_is_cut_out_by_alpha_is_another_picture(
    photo: Image.Image, comparer: PhotoComparer
) -> None:
    opaque, cut = photo.copy(), photo.copy()
    opaque.putalpha(255)
    alpha = Image.new("L", photo.size, 255)
    alpha.paste(0, (40, 30, 80, 60))
    cut.putalpha(alpha)
    assert kind(comparer, saved(photo), saved(opaque)) == "exact"
    assert kind(comparer, saved(cut), saved(cut, compress_level=1)) == "exact"
    assert kind(comparer, saved(photo), saved(cut)) == "copy"


def test_several_frames_are_the_same_in_the_same_file_alone(
    photo: Image.Image, comparer: PhotoComparer, tmp_path: Path
) -> None:
    def moving(colour: str) -> bytes:
        later = [Image.new("RGB", photo.size, colour)]
        return saved(photo, format="GIF", save_all=True, append_images=later)

    (tmp_path / "red.gif").write_bytes(moving("red"))
    assert kind(comparer, tmp_path / "red.gif", moving("red")) == "exact"
    assert kind(comparer, tmp_path / "red.gif", moving("blue")) == "copy"
    assert kind(comparer, moving("red"), saved(photo, format="GIF")) == "copy"
    preview = [photo.resize((40, 30))]
    pair = saved(photo, format="MPO", save_all=True, append_images=preview)
    with Image.open(io.BytesIO(pair)) as opened:
        alone = saved(opened.convert("RGB"))
    assert kind(comparer, pair, alone) == "exact"


def test_a_link_is_no_copy_of_its_photo_and_less_than_a_copy_of_it(
    comparer: PhotoComparer, tmp_path: Path
) -> None:
    photo, copy, link = (tmp_path / name for name in ("b.png", "c.png", "a.png"))
    Image.fromarray(toy_photo(0, (160, 120))).save(photo)
    copy.write_bytes(photo.read_bytes())
    link.symlink_to(photo)

    def between(a: Path, b: Path) -> Relation | None:
        return comparer.relation(comparer.given(a), comparer.given(b), 0)

    assert between(link, photo) is None
    found = between(link, copy)
    assert found is not None
    assert (found.kind, found.better) == ("exact", "b")
