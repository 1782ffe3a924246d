import gzip
import io
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.archives import below, make_archive

from solar.datasets.unpack import unpack
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
    with pytest.raises(SolarError, match=r"not safe to unpack.*leads out"):
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
    with pytest.raises(SolarError, match=r"1\.jpg' is a link or a device"):
        unpack([archive], into)
    assert not list(into.iterdir())


def test_a_link_in_a_zip_is_refused(tmp_path: Path, into: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        info = zipfile.ZipInfo("1.jpg")
        info.external_attr = 0o120777 << 16
        file.writestr(info, "/etc/passwd")
    with pytest.raises(SolarError, match="is a link or a device"):
        unpack([archive], into)
    assert not list(into.iterdir())


@every_kind
def test_a_cut_off_archive_is_called_damaged(tmp_path: Path, into: Path, kind: str) -> None:
    archive = make_archive(tmp_path / kind, {"1.jpg": bytes(range(256)) * 99})
    archive.write_bytes(archive.read_bytes()[: 9000 if kind == "a.tar" else -9])
    with pytest.raises(SolarError, match=rf"{kind} cannot be unpacked .*; delete it"):
        unpack([archive], into)


def test_a_flipped_bit_that_only_the_checksum_tells_is_found(tmp_path: Path, into: Path) -> None:
    plain = make_archive(tmp_path / "a.tar", {"1.jpg": b"one"}).read_bytes()
    archive = tmp_path / "a.tgz"
    content = bytearray(gzip.compress(plain))
    content[-8] ^= 1
    archive.write_bytes(content)
    with pytest.raises(SolarError, match="CRC"):
        unpack([archive], into)


@every_kind
def test_an_archive_without_photos_is_not_the_right_one(
    tmp_path: Path, into: Path, kind: str
) -> None:
    archive = make_archive(tmp_path / kind, {"readme.txt": b"moved"})
    with pytest.raises(SolarError, match=r"holds no \.jpg files"):
        unpack([archive], into, suffixes=(".jpg",))


def test_a_full_disk_is_one_sentence_and_leaves_no_half_file(
    tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: io.BufferedWriter, length: int) -> None:
        target.write(b"half")
        raise OSError(28, "No space left on device")

    archive = make_archive(tmp_path / "a.tar", {"1.jpg": b"one"})
    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(SolarError, match="No space left on device; free some room") as caught:
        unpack([archive], into)
    assert "\n" not in str(caught.value)
    assert below(into) == {}


def test_a_file_in_the_way_of_the_folder_is_one_sentence(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "a.tar", {"1.jpg": b"one"})
    (tmp_path / "into").write_text("a file")
    with pytest.raises(SolarError, match=r"Could not unpack .*a\.tar into"):
        unpack([archive], tmp_path / "into")
