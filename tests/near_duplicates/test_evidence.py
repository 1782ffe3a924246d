"""Which of two copies is the original, told by their files and pixels alone."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from PIL import ExifTags, Image, ImageDraw, ImageFilter, ImageOps
from support.warped import toy_photo

from solar.near_duplicates.evidence import FileTraces, detail_verdict, whole_verdict
from solar.near_duplicates.orientations import opposite
from solar.near_duplicates.pixel_compare import Region

LANCZOS = Image.Resampling.LANCZOS


def saved(image: Image.Image, form: str = "JPEG", **how: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **how)
    return out.getvalue()


def texted(photo: Image.Image) -> Image.Image:
    made = photo.copy()
    ImageDraw.Draw(made).text((20, 100), "sunny morning", "white", font_size=40)
    return made


EDITS: dict[str, tuple[int, Callable[[Image.Image], bytes]]] = {
    "a lower quality": (0, lambda photo: saved(photo, quality=30)),
    "a higher quality": (0, lambda photo: saved(photo, quality=95)),
    "half": (0, lambda photo: saved(photo.resize((160, 120), LANCZOS), quality=90)),
    "enlarged": (0, lambda photo: saved(photo.resize((480, 360), LANCZOS), quality=90)),
    "mirrored": (4, lambda photo: saved(ImageOps.mirror(photo), quality=88)),
    "turned": (1, lambda photo: saved(photo.transpose(Image.Transpose.ROTATE_270), quality=90)),
    "a palette": (0, lambda photo: saved(photo.convert("P"), "GIF")),
    "for print": (0, lambda photo: saved(photo.convert("CMYK"), quality=90)),
    "grey": (0, lambda photo: saved(photo.convert("L"), quality=90)),
    "lossless": (0, lambda photo: saved(photo, "PNG")),
    "lossless and mirrored": (4, lambda photo: saved(ImageOps.mirror(photo), "PNG")),
    "text over it": (0, lambda photo: saved(texted(photo), quality=90)),
    "blurred": (0, lambda photo: saved(photo.filter(ImageFilter.GaussianBlur(1.5)), quality=90)),
}
"""How each lies on the original, and what was done."""

OPEN: dict[str, Callable[[Image.Image], bytes]] = {
    "brighter": lambda photo: saved(photo.point(lambda level: level * 0.8), quality=90),
    "sharpened": lambda photo: saved(photo.filter(ImageFilter.SHARPEN), quality=90),
}


@pytest.fixture(scope="module")
def original() -> bytes:
    fine = Image.effect_noise((320, 240), 60).convert("RGB")
    return saved(Image.blend(Image.fromarray(toy_photo(0, (320, 240))), fine, 0.3), quality=80)


def opened(file: bytes) -> Image.Image:
    return Image.open(io.BytesIO(file)).convert("RGB")


def verdict(a: bytes, b: bytes, way: int = 0) -> str:
    exact = way == 0 and opened(a).tobytes() == opened(b).tobytes()
    return whole_verdict(FileTraces.of(a), FileTraces.of(b), way, exact=exact)[0]


@pytest.mark.parametrize("edit", EDITS)
def test_the_original_is_told_from_what_was_made_from_it(original: bytes, edit: str) -> None:
    way, make = EDITS[edit]
    made = make(opened(original))
    assert verdict(original, made, way) == "a"
    assert verdict(made, original, opposite(way)) == "b"


@pytest.mark.parametrize("edit", OPEN)
def test_what_may_be_either_way_round_is_open(original: bytes, edit: str) -> None:
    made = OPEN[edit](opened(original))
    assert verdict(original, made) == verdict(made, original) == ""


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_a_copy_may_be_turned_by_its_exif(original: bytes, orientation: int) -> None:
    turns = {
        3: Image.Transpose.ROTATE_180,
        6: Image.Transpose.ROTATE_90,
        8: Image.Transpose.ROTATE_270,
    }
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    made = saved(opened(original).transpose(turns[orientation]), quality=85, exif=exif.tobytes())
    assert verdict(original, made) == "a"
    assert verdict(made, original) == "b"


def camera_file(photo: Image.Image, **more: str) -> bytes:
    """As cameras write them: no JFIF header, a maker note."""
    exif = Image.Exif()
    exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = "Maker", "Model 1"
    details = exif.get_ifd(ExifTags.IFD.Exif)
    details[ExifTags.Base.DateTimeOriginal] = "2020:05:01 10:00:00"
    details[ExifTags.Base.MakerNote] = b"its own"
    for name, value in more.items():
        exif[getattr(ExifTags.Base, name)] = value
    file = saved(photo, quality=70, exif=exif.tobytes())
    length = int.from_bytes(file[4:6], "big")
    assert file[6:10] == b"JFIF"
    return file[:2] + file[4 + length :]


def test_a_file_as_the_camera_wrote_it_is_the_original(original: bytes) -> None:
    sharpened = saved(opened(original).filter(ImageFilter.SHARPEN), quality=95)
    assert verdict(camera_file(opened(original)), sharpened) == "a"
    edited = FileTraces.of(camera_file(opened(original), Software="GIMP 2.10"))
    assert edited.origin < FileTraces.of(camera_file(opened(original), Software="1.02")).origin
    later = FileTraces.of(camera_file(opened(original), DateTime="2021:01:01 00:00:00"))
    assert later.origin == edited.origin
    # A file that still says when it was taken is one only where the pixels do not tell.
    assert verdict(camera_file(opened(original), Software="GIMP 2.10"), sharpened) == "a"


def test_a_part_may_have_finer_detail_than_the_whole(original: bytes) -> None:
    photo = opened(original)
    whole = saved(photo.resize((160, 120), LANCZOS), quality=95)
    part = saved(photo.crop((80, 60, 240, 180)), quality=95)
    regions = Region(40, 30, 120, 90), Region(0, 0, 160, 120)
    files = FileTraces.of(whole), FileTraces.of(part)
    assert detail_verdict(*files, 0, *regions) == ("b", "finer detail")
