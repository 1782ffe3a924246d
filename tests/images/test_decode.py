import io
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import ExifTags, Image, ImageDraw, ImageFilter, PngImagePlugin, features

from solar.errors import SolarError
from solar.images import ImageError, check_visible, crop, image_size, load, read_image
from solar.images.resize import thumbnail

LANCZOS = Image.Resampling.LANCZOS
AVIF = pytest.mark.skipif(not features.check("avif"), reason="this Pillow has no AVIF")


def texture(width, height, seed=0):
    """A picture with edges and fine detail, and no symmetry that would hide a wrong turn."""
    rng = np.random.default_rng(seed)
    noise = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
    image = Image.blend(
        noise.filter(ImageFilter.GaussianBlur(3)), noise.filter(ImageFilter.GaussianBlur(1)), 0.3
    )
    draw = ImageDraw.Draw(image)
    for _ in range(12):
        x, y = rng.integers(0, width), rng.integers(0, height)
        colour = tuple(rng.integers(0, 256, 3).tolist())
        draw.rectangle((x, y, x + width // 6, y + height // 9), fill=colour)
    draw.polygon([(0, 0), (width // 3, 0), (0, height // 5)], fill=(250, 20, 20))
    return image


def encoded(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def oriented(image, orientation, kind="JPEG", **options):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    return encoded(image, kind, exif=exif.tobytes(), **options)


def published(data, size=None, box=None):
    """The published reading of a photo, in Pillow alone."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    full = max(image.size)
    if box:
        image = image.crop(box)
        size = size * max(image.size) / full
    if size:
        image.thumbnail((size, size), LANCZOS)
    return np.asarray(image)


def psnr(a, b):
    error = np.mean((a.astype(float) - b.astype(float)) ** 2)
    return 10 * np.log10(255**2 / max(error, 1e-9))


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


# --- exact mode -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(640, 480), (481, 639), (1500, 200), (100, 80)])
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_exact_pixels_are_the_published_ones(shape, kind):
    data = encoded(texture(*shape), kind)
    photo = load(data, 128)
    assert np.array_equal(photo.pixels, published(data, 128))
    assert (photo.width, photo.height) == shape


@pytest.mark.parametrize("box", [(30, 40, 333, 221), (10.5, 11.5, 500.4, 400.6), (0, 0, 640, 480)])
def test_exact_query_is_the_published_one(box):
    data = encoded(texture(640, 480), "JPEG")
    assert np.array_equal(load(data, 128, box=box).pixels, published(data, 128, box))


def test_without_a_size_every_pixel_is_kept():
    data = encoded(texture(90, 70), "JPEG")
    assert np.array_equal(load(data, None).pixels, published(data))
    assert load(data, None, box=(10, 20, 40, 60)).pixels.shape == (40, 30, 3)


def test_pixels_may_be_written_to():
    assert load(encoded(texture(9, 7), "PNG"), None).pixels.flags.writeable


def test_path_text_bytes_image_and_array_agree(tmp_path):
    image = texture(50, 40)
    path = tmp_path / "photo.png"
    image.save(path)
    for source in (path, str(path), path.read_bytes(), image, np.asarray(image)):
        assert read_image(source).tobytes() == image.tobytes()
        assert image_size(source) == (50, 40)


def test_unknown_mode_is_refused():
    with pytest.raises(SolarError, match=r"'quick'.*exact"):
        load(texture(9, 9), 8, mode="quick")  # type: ignore[arg-type]


# --- orientation ------------------------------------------------------------------------------

UPRIGHT_TO_STORED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a, -1),
}


def stored_as(image, orientation):
    return Image.fromarray(np.ascontiguousarray(UPRIGHT_TO_STORED[orientation](np.array(image))))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", pytest.param("AVIF", marks=AVIF)])
def test_every_orientation_ends_upright(orientation, kind):
    upright = texture(61, 40)
    full = {"quality": 98, "subsampling": "4:4:4"}
    options = {"WEBP": {"lossless": True}, "JPEG": full, "AVIF": full}.get(kind, {})
    data = oriented(stored_as(upright, orientation), orientation, kind, **options)
    assert image_size(data) == (61, 40)
    assert psnr(np.asarray(read_image(data)), np.asarray(upright)) > 35


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orient_off_is_the_published_reading(orientation):
    data = oriented(texture(61, 40), orientation)
    assert np.array_equal(load(data, 32, orient=False).pixels, published(data, 32))
    assert image_size(data, orient=False) == (61, 40)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_is_in_pixels_of_the_upright_photo(orientation):
    upright = texture(400, 300)
    box = (50, 20, 251, 160)
    data = oriented(stored_as(upright, orientation), orientation, "PNG")
    expected = thumbnail(crop(upright, box), 100 * 201 / 400)
    assert np.array_equal(load(data, 100, box=box).pixels, np.asarray(expected))


def png_with_orientation_after_the_pixels():
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    plain, end = encoded(texture(30, 20), "PNG"), chunk(b"IEND", b"")
    return plain.removesuffix(end) + chunk(b"eXIf", exif.tobytes()[6:]) + end


def test_orientation_after_the_pixels_of_a_png_is_found():
    data = png_with_orientation_after_the_pixels()
    assert image_size(data) == read_image(data).size == (20, 30)


def test_size_of_a_png_is_told_without_decoding(monkeypatch):
    def refuse(self):
        raise AssertionError("decoded")

    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", refuse)
    assert image_size(png_with_orientation_after_the_pixels()) == (20, 30)


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0"]
)
def test_damaged_exif_is_ignored(exif):
    data = encoded(texture(30, 20), "JPEG", exif=exif)
    assert read_image(data).size == image_size(data) == (30, 20)


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_orientation_out_of_range_is_ignored(orientation):
    assert image_size(oriented(texture(30, 20), orientation)) == (30, 20)


# --- fast mode --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1003, 701), (640, 480), (479, 641), (385, 383), (2000, 300)])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_fast_has_the_shape_of_exact_and_nearly_its_pixels(shape, orientation):
    data = oriented(texture(*shape), orientation, quality=92)
    exact, fast = load(data, 128), load(data, 128, mode="fast")
    assert fast.pixels.shape == exact.pixels.shape
    assert (fast.width, fast.height) == (exact.width, exact.height)
    assert not np.array_equal(fast.pixels, exact.pixels)  # it did scale
    assert psnr(fast.pixels, exact.pixels) > 38


@pytest.mark.parametrize("orientation", range(1, 9))
def test_fast_cuts_the_same_box(orientation):
    data = oriented(texture(1201, 903), orientation, quality=92)
    box = (101, 207, 640, 555)
    exact, fast = (load(data, 160, box=box, mode=mode).pixels for mode in ("exact", "fast"))
    assert fast.shape == exact.shape
    assert psnr(fast, exact) > 38


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_fast_reads_other_colour_modes(mode):
    data = encoded(texture(800, 600).convert(mode), "JPEG", quality=92)
    exact, fast = load(data, 128), load(data, 128, mode="fast")
    assert psnr(fast.pixels, exact.pixels) > 38


@pytest.mark.parametrize(("width", "size"), [(380, 128), (128, 128), (90, 128), (700, None)])
def test_fast_is_exact_where_scaling_would_lose_detail(width, size):
    data = encoded(texture(width, width - 7), "JPEG")
    assert np.array_equal(load(data, size, mode="fast").pixels, load(data, size).pixels)


def test_fast_leaves_an_opened_image_alone():
    image = Image.open(io.BytesIO(encoded(texture(800, 600), "JPEG")))
    load(image, 100, mode="fast")
    assert image.size == (800, 600)


# --- formats and colour modes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("1", "PNG"),
        ("L", "PNG"),
        ("L", "JPEG"),
        ("LA", "PNG"),
        ("P", "PNG"),
        ("P", "GIF"),
        ("RGB", "TIFF"),
        ("RGB", "WEBP"),
        ("RGB", "BMP"),
        ("RGBA", "PNG"),
        ("RGBA", "WEBP"),
        ("CMYK", "TIFF"),
        ("CMYK", "JPEG"),
        ("YCbCr", "JPEG"),
        pytest.param("RGB", "AVIF", marks=AVIF),
    ],
)
def test_every_format_is_read_as_published(mode, kind):
    data = encoded(texture(33, 21).convert(mode), kind)
    assert np.array_equal(np.asarray(read_image(data)), published(data))


def test_white_paper_in_a_cmyk_jpeg_is_white():
    # Adobe stores CMYK inverted; read without noticing, white would be black.
    data = encoded(Image.new("CMYK", (16, 16), (0, 0, 0, 0)), "JPEG")
    assert b"Adobe" in data
    assert read_image(data).getpixel((8, 8)) == (255, 255, 255)


def test_alpha_is_dropped_not_blended():
    image = Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert read_image(encoded(image, "PNG")).getpixel((0, 0)) == (10, 20, 30)


@pytest.mark.filterwarnings("error")
def test_palette_with_transparency_is_read_without_a_warning():
    image = texture(20, 20).convert("P")
    data = encoded(image, "PNG", transparency=bytes(range(256)))
    assert read_image(data).tobytes() == image.convert("RGB").tobytes()


def test_first_frame_of_an_animation_is_read():
    frames = [Image.new("L", (8, 8), level) for level in (40, 200)]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert read_image(data).getpixel((0, 0)) == (40, 40, 40)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_sixteen_bit_grey_is_scaled(kind):
    levels = np.array([[0, 128, 129, 257, 32768, 65278, 65535]], dtype=np.uint16)
    pixels = np.asarray(read_image(encoded(Image.fromarray(levels), kind)))
    assert pixels[0, :, 0].tolist() == [0, 0, 1, 1, 128, 254, 255]


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_samples_without_a_white_level_are_refused(dtype):
    data = encoded(Image.fromarray(np.ones((4, 4), dtype=dtype)), "TIFF")
    with pytest.raises(ImageError, match="32-bit samples"):
        read_image(data)


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 1), (5, 4, 3), (5, 4, 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_arrays_of_every_shape_are_read(shape, dtype):
    array = np.full(shape, np.iinfo(dtype).max, dtype=dtype)
    assert np.array_equal(np.asarray(read_image(array)), np.full((5, 4, 3), 255))


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4, 3)), np.zeros((4, 4, 2), np.uint8), np.zeros((0, 4, 3), np.uint8)]
)
def test_arrays_that_are_no_photo_are_refused(array):
    with pytest.raises(ImageError, match="is not a photo"):
        read_image(array)


def test_heic_without_pillow_heif_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    data = struct.pack(">I", 24) + b"ftypheic" + bytes(4) + b"mif1heic" + bytes(100)
    with pytest.raises(ImageError, match="pip install pillow-heif"):
        read_image(data)


@pytest.mark.parametrize("orientation", [1, 6, 7])
def test_heic_is_read_like_any_photo(orientation, tmp_path):
    upright = texture(64, 48)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    path = tmp_path / "photo.heic"
    encoder = pillow_heif.from_pillow(stored_as(upright, orientation))
    encoder.save(path, quality=95, chroma=444, exif=exif.tobytes())
    assert path.read_bytes()[4:11] == b"ftyphei"
    assert image_size(path) == (64, 48)
    assert psnr(np.asarray(read_image(path)), np.asarray(upright)) > 30
    small = load(path, 32, box=(0, 0, 32, 48))
    assert (small.pixels.shape, small.width, small.height) == ((24, 16, 3), 64, 48)


def test_a_heic_that_is_cut_short_is_refused():
    stream = io.BytesIO()
    pillow_heif.from_pillow(texture(64, 48)).save(stream)
    with pytest.raises(ImageError):
        read_image(stream.getvalue()[:900])


# --- what is refused --------------------------------------------------------------------------


def png_header(width, height):
    body = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", body) + chunk(b"IDAT", zlib.compress(b"0" * 99))


def jpeg_header(width, height):
    data = bytearray(encoded(Image.new("RGB", (8, 8)), "JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def tiff_header(width, height):
    tags = [(256, 4, width), (257, 4, height), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8)]
    tags += [(277, 3, 1), (278, 4, height), (279, 4, 99)]
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4)


@pytest.mark.parametrize("header", [png_header, jpeg_header, tiff_header])
@pytest.mark.parametrize("pillow_limit", [None, 1000, Image.MAX_IMAGE_PIXELS])
def test_a_bomb_is_refused_from_its_header(header, pillow_limit, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pillow_limit)
    data = header(50_000, 50_000)
    with pytest.raises(ImageError, match="50,000 x 50,000"):
        load(data, 1024, mode="fast")
    assert pillow_limit == Image.MAX_IMAGE_PIXELS
    assert image_size(data) == (50_000, 50_000)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_the_limit_of_the_call_counts_not_that_of_pillow(monkeypatch):
    data = encoded(texture(50, 40), "PNG")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert read_image(data).size == (50, 40)
    assert read_image(data, max_pixels=2000).size == (50, 40)
    with pytest.raises(ImageError, match=r"1,999.*max_pixels="):
        read_image(data, max_pixels=1999)


@pytest.mark.parametrize(
    "kind", ["JPEG", "PNG", "WEBP", "TIFF", "GIF", pytest.param("AVIF", marks=AVIF)]
)
@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_a_truncated_file_is_refused_by_name(kind, mode, tmp_path):
    data = encoded(texture(400, 300), kind)
    path = tmp_path / "cut.img"
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ImageError, match=r"cut\.img"):
        load(path, 64, mode=mode)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_every_cut_through_a_small_file_is_refused_or_read(kind):
    data = encoded(texture(16, 16), kind)
    for length in range(len(data)):
        try:
            assert read_image(data[:length]).size == (16, 16)
        except ImageError:
            continue


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.jpg", b"", "is empty"),
        ("text.jpg", b"this is not a photo\n" * 100, "GIF, BMP, AVIF or HEIC"),
        ("page.svg", b'<?xml version="1.0"?><svg width="9" height="9"/>', "not JPEG, PNG"),
        ("page.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not JPEG, PNG"),
        ("film.mp4", bytes(4) + b"ftypisom" + bytes(99), "is a video"),
        ("cut.avif", bytes(3) + b"\x18ftypavif" + bytes(99), "damaged from the start"),
        ("cut.avifs", bytes(3) + b"\x18ftypavis" + bytes(99), "damaged from the start"),
    ],
)
def test_a_file_that_is_no_photo_is_refused_by_name(name, content, sentence, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    for read in (read_image, image_size):
        with pytest.raises(ImageError, match=sentence) as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ImageError, match="is a folder"):
        read_image(tmp_path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ImageError, match=r"gone\.jpg"):
        read_image(tmp_path / "gone.jpg")


@pytest.mark.parametrize("path", ["a\0b.jpg", "a" * 5000])
def test_an_impossible_path_is_refused(path):
    with pytest.raises(ImageError):
        read_image(path)


def test_a_forbidden_file_is_refused(tmp_path, monkeypatch):
    def forbid(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "secret.jpg"
    path.touch()
    monkeypatch.setattr(Path, "open", forbid)  # file modes mean nothing to root
    with pytest.raises(ImageError, match="is not readable"):
        read_image(path)


def test_something_else_is_refused():
    with pytest.raises(ImageError, match="not int"):
        read_image(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(1, 1), (33, 1), (7, 90), (90, 7)])
def test_too_little_to_see_is_refused_by_name(size):
    with pytest.raises(ImageError, match=rf"a\.jpg .*{size[0]} × {size[1]} .*8 per side"):
        check_visible(*size, "a.jpg")


def test_eight_pixels_can_be_seen_unless_a_scale_leaves_none():
    check_visible(8, 90)
    check_visible(8, 90, scales=(1, 0.7), least=5)
    for scale, least, needed in ((0.1, 1, 10), (0.7, 6, 9)):
        with pytest.raises(ImageError, match=rf"8 × 90 .*\b{needed} per side"):
            check_visible(8, 90, scales=(1, scale), least=least)
        check_visible(needed, 90, scales=(1, scale), least=least)


def test_opened_files_are_closed(tmp_path):
    path = tmp_path / "photo.jpg"
    texture(20, 20).save(path)
    image = read_image(path)
    image_size(path)
    path.unlink()
    assert image.copy().size == (20, 20)  # the pixels were read
