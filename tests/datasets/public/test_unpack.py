import gzip
import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.archives import below, make_archive

from solar.datasets.public import unpack as unpacking
from solar.datasets.public.unpack import unpack
from solar.errors import SolarError


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "into"


KINDS = ["a.zip", "a.tar", "a.tar.gz"]
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_members_come_out_as_they_went_in(tmp_path: Path, into: Path, kind: str) -> None:
    members = {"a/b/1.jpg": b"one", "2.jpg": bytes(3_000_000)}
    assert unpack([make_archive(tmp_path / kind, members)], into) == 2
    assert below(into) == members


@every_kind
@pytest.mark.parametrize(("keep", "expected"), [(1, "1.jpg"), (2, "b/1.jpg"), (9, "a/b/1.jpg")])
def test_only_the_end_of_a_path_is_kept(
    tmp_path: Path, into: Path, kind: str, keep: int, expected: str
) -> None:
    unpack([make_archive(tmp_path / kind, {"./a/b/1.jpg": b"one"})], into, keep=keep)
    assert list(below(into)) == [expected]


@every_kind
def test_other_endings_and_hidden_files_stay_in_the_archive(
    tmp_path: Path, into: Path, kind: str
) -> None:
    members = {"1.JPG": b"one", "notes.txt": b"two", "__MACOSX/._1.jpg": b"three"}
    assert unpack([make_archive(tmp_path / kind, members)], into, suffixes=(".jpg",)) == 1
    assert below(into) == {"1.JPG": b"one"}


@every_kind
def test_only_wanted_files_are_written(tmp_path: Path, into: Path, kind: str) -> None:
    archive = make_archive(tmp_path / kind, {"x/a/1.jpg": b"one", "x/a/2.jpg": b"two"})
    assert unpack([archive], into, keep=2, wanted=lambda path: path == "a/2.jpg") == 1
    assert below(into) == {"a/2.jpg": b"two"}
    assert unpack([archive], into, wanted=lambda path: False) == 0


def test_parts_of_an_archive_are_read_as_one(tmp_path: Path, into: Path) -> None:
    whole = make_archive(
        tmp_path / "a.tar.gz", {"1.jpg": b"one" * 999, "2.jpg": b"two"}
    ).read_bytes()
    cuts = [0, 1, 50, len(whole)]
    parts = [tmp_path / f"a.part{number}" for number in range(3)]
    for part, start, end in zip(parts, cuts, cuts[1:], strict=False):
        part.write_bytes(whole[start:end])
    assert unpack(parts, into) == 2
    assert below(into)["1.jpg"] == b"one" * 999


LEADING_OUT = [
    "../out.jpg",
    "a/../../out.jpg",
    "/tmp/out.jpg",
    "..\\out.jpg",
    "C:out.jpg",
    "\\o.jpg",
]


@every_kind
@pytest.mark.parametrize("name", LEADING_OUT)
@pytest.mark.parametrize("keep", [0, 1])
def test_paths_that_lead_out_are_refused(
    tmp_path: Path, into: Path, kind: str, name: str, keep: int
) -> None:
    archive = make_archive(tmp_path / kind, {name: b"bad"})
    with pytest.raises(SolarError, match=r"not safe.*path"):
        unpack([archive], into, keep=keep)
    assert below(tmp_path) == {archive.name: archive.read_bytes()}


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE],
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, into: Path, kind: bytes) -> None:
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as file:
        info = tarfile.TarInfo("1.jpg")
        info.type, info.linkname = kind, "/etc/passwd"
        file.addfile(info)
    with pytest.raises(SolarError, match=r"1\.jpg' is a link"):
        unpack([archive], into)
    assert not list(into.iterdir())


def test_a_link_in_a_zip_is_refused(tmp_path: Path, into: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        info = zipfile.ZipInfo("1.jpg")
        info.external_attr = 0o120777 << 16
        file.writestr(info, "/etc/passwd")
    with pytest.raises(SolarError, match="is a link"):
        unpack([archive], into)
    assert not list(into.iterdir())


@every_kind
def test_a_cut_off_archive_is_called_damaged(tmp_path: Path, into: Path, kind: str) -> None:
    archive = make_archive(tmp_path / kind, {"1.jpg": bytes(range(256)) * 99})
    archive.write_bytes(archive.read_bytes()[: 9000 if kind == "a.tar" else -9])
    with pytest.raises(SolarError, match=kind):
        unpack([archive], into)


def test_a_flipped_bit_that_only_the_checksum_tells_is_found(tmp_path: Path, into: Path) -> None:
    plain = make_archive(tmp_path / "a.tar", {"1.jpg": b"one"}).read_bytes()
    archive = tmp_path / "a.tgz"
    content = bytearray(gzip.compress(plain))
    content[-8] ^= 1
    archive.write_bytes(content)
    with pytest.raises(SolarError, match="CRC"):
        unpack([archive], into)


# Headers that no honest program writes.


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE, **fields: bytes) -> bytes:
    """512 bytes, with any number as size; fields are given by their place, as `at386`."""
    info = tarfile.TarInfo(name)
    info.type = kind
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
    for place, value in fields.items():
        start = int(place.removeprefix("at"))
        block[start : start + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def pax(**records: str) -> bytes:
    lines = b""
    for key, value in records.items():
        line = f" {key.replace('__', '.')}={value}\n".encode()
        lines += b"%d%s" % (len(line) + 2 + (len(line) > 97), line)
    return header("pax", len(lines), tarfile.XHDTYPE) + lines.ljust(512, b"\0")


TIB = 1 << 40
PHOTO = header("1.jpg", 3) + b"one".ljust(512, b"\0")
SPARSE = {"GNU__sparse__major": "1", "GNU__sparse__minor": "0", "GNU__sparse__name": "1.jpg"}
ODD = {
    "sparse": (
        header(
            *("1.jpg", 3, tarfile.GNUTYPE_SPARSE),
            at398=b"00000000003\0",
            at483=b"\x80" + TIB.to_bytes(11, "big"),
        )
        + b"one".ljust(512, b"\0"),
        r"1\.jpg' is a sparse file",
    ),
    "sparse, new": (
        pax(**SPARSE, GNU__sparse__realsize=str(TIB))
        + header("1.jpg", 512)
        + b"1\n0\n0\n".ljust(512, b"\0"),
        r"1\.jpg' is a sparse file",
    ),
    "sparse, damaged": (
        pax(**SPARSE, GNU__sparse__realsize="9") + header("1.jpg", 512) + b"x" * 512,
        "cannot be unpacked",
    ),
    "huge": (header("1.jpg", TIB) + b"x" * 512, r"claims to have 1,099,511,627,776 bytes"),
    "huge, new": (pax(size=str(TIB)) + PHOTO, r"claims to have 1,099,511,627,776 bytes"),
    "huge header": (header("x", TIB, tarfile.XHDTYPE) + PHOTO, "claims to be huge"),
    "huge name": (header("x", TIB, tarfile.GNUTYPE_LONGNAME) + PHOTO, "claims to be huge"),
    "negative": (header("1.jpg", -512), "negative size"),
    "negative, new": (pax(size="-1024") + PHOTO, "cannot be unpacked|not safe"),
    "negative folder": (header("a", -1024, tarfile.DIRTYPE) + PHOTO, "negative size"),
    "negative name": (header("x", -1, tarfile.GNUTYPE_LONGNAME) + PHOTO, "negative size"),
    "name with a zero": (pax(path="a\0b.jpg") + PHOTO, "no file can have|cannot be unpacked"),
}


@pytest.mark.parametrize(("content", "sentence"), ODD.values(), ids=list(ODD))
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_odd_headers_get_a_sentence_and_write_nothing(
    tmp_path: Path,
    into: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    sentence: str,
    compress: Callable[[bytes], bytes],
) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(compress(content + bytes(1024)))
    monkeypatch.setattr(shutil, "copyfileobj", lambda *_: pytest.fail("a byte was written"))
    with pytest.raises(SolarError, match=sentence) as caught:
        unpack([archive], into)
    assert "\n" not in str(caught.value)
    assert below(into) == {}


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_corrupt_compression_is_called_damaged(tmp_path: Path, into: Path, method: int) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", method) as file:
        file.writestr("1.jpg", bytes(range(256)) * 400)
    content = bytearray(archive.read_bytes())
    content[50:80] = bytes(byte ^ 0x55 for byte in content[50:80])
    archive.write_bytes(content)
    with pytest.raises(SolarError, match=r"a\.zip"):
        unpack([archive], into)
    assert below(into) == {}


@pytest.mark.parametrize("kind", ["a.zip", "a.tar.gz"])
def test_an_archive_made_to_fill_the_disk_is_refused(
    tmp_path: Path, into: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "_ALLOWANCE", 1 << 20)
    archive = make_archive(tmp_path / kind, {f"{n}.jpg": bytes(1 << 20) for n in range(8)})
    with pytest.raises(SolarError, match=r"'\d\.jpg' goes beyond"):
        unpack([archive], into)
    written = sum(map(len, below(into).values()))
    assert written <= (1 << 20) + 200 * archive.stat().st_size


@every_kind
def test_hidden_folders_stay_in_the_archive(tmp_path: Path, into: Path, kind: str) -> None:
    members = {"1.jpg": b"one", ".solar/a.json": b"planted"}
    assert unpack([make_archive(tmp_path / kind, members)], into) == 1
    assert below(into) == {"1.jpg": b"one"}


@every_kind
def test_an_archive_without_photos_is_not_the_right_one(
    tmp_path: Path, into: Path, kind: str
) -> None:
    archive = make_archive(tmp_path / kind, {"readme.txt": b"moved"})
    with pytest.raises(SolarError, match=r"no \.jpg"):
        unpack([archive], into, suffixes=(".jpg",))


def test_a_full_disk_is_one_sentence_and_leaves_no_half_file(
    tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: io.BufferedWriter, length: int) -> None:
        target.write(b"half")
        raise OSError(28, "No space left on device")

    archive = make_archive(tmp_path / "a.tar", {"1.jpg": b"one"})
    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(SolarError, match="No space left") as caught:
        unpack([archive], into)
    assert "\n" not in str(caught.value)
    assert below(into) == {}


def test_a_file_in_the_way_of_the_folder_is_one_sentence(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "a.tar", {"1.jpg": b"one"})
    (tmp_path / "into").write_text("a file")
    with pytest.raises(SolarError, match=r"a\.tar into"):
        unpack([archive], tmp_path / "into")
