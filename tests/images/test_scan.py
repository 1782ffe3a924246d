import io
import os
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from solar.errors import SolarError
from solar.images import scan as module
from solar.images.scan import Found, scan, scan_folder


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    return folder


def names(folder: Path, **options: bool) -> list[str]:
    return [one.below for one in scan_folder(folder, **options).found]


def test_what_is_hidden_or_no_photo_is_passed_over_in_silence(tmp_path: Path) -> None:
    fill(tmp_path, "b.jpg", "a/c.PNG", ".b.jpg", ".git/d.jpg", "notes.md", "jpg", "e.jpg.part")
    fill(tmp_path, "a/@eaDir/c.PNG/SYNOPHOTO_THUMB_M.jpg", "#recycle/f.jpg")
    found = scan_folder(tmp_path)
    assert [one.below for one in found.found] == ["a/c.PNG", "b.jpg"]
    assert found.skipped == {}


def test_a_file_is_known_by_its_size_and_time(tmp_path: Path) -> None:
    fill(tmp_path, "a.jpg")
    os.utime(tmp_path / "a.jpg", ns=(1, 1_234_567_890_123))
    seen = Found("a.jpg", tmp_path / "a.jpg", 5, 1_234_567_890_123)
    assert scan_folder(tmp_path).found == [seen]


def test_a_link_is_followed_once_and_a_loop_ends(tmp_path: Path) -> None:
    fill(tmp_path / "outside", "1.jpg", "deep/2.jpg")
    folder = fill(tmp_path / "photos", "a/3.jpg")
    (folder / "first").symlink_to(tmp_path / "outside")
    (folder / "second").symlink_to(tmp_path / "outside")
    (folder / "a" / "up").symlink_to(folder)
    (tmp_path / "outside" / "back").symlink_to(folder / "a")
    (folder / "self").symlink_to("self")
    assert names(folder) == ["a/3.jpg", "first/1.jpg", "first/deep/2.jpg"]
    assert names(folder, follow=False) == ["a/3.jpg"]


def test_a_folder_keeps_its_own_path_where_a_link_leads_to_it_too(tmp_path: Path) -> None:
    folder = fill(tmp_path / "photos", "z/deep/1.jpg")
    (folder / "a").symlink_to(folder / "z")
    (folder / "b").symlink_to(folder / "z" / "deep")
    assert names(folder) == ["z/deep/1.jpg"]


def test_a_link_to_a_photo_is_a_photo_whether_folders_are_followed_or_not(tmp_path: Path) -> None:
    folder = fill(tmp_path / "photos", "a.jpg")
    (folder / "b.jpg").symlink_to(fill(tmp_path / "outside", "b.jpg") / "b.jpg")
    assert names(folder) == names(folder, follow=False) == ["a.jpg", "b.jpg"]


def test_a_link_to_nothing_and_links_in_a_circle_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "gone.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "x.jpg").symlink_to("y.jpg")
    (tmp_path / "y.jpg").symlink_to("x.jpg")
    skipped = scan_folder(tmp_path).skipped
    assert skipped["gone.jpg"] == "it is a link to nothing"
    assert skipped.keys() == {"gone.jpg", "x.jpg", "y.jpg"}
    assert "symbolic links" in skipped["x.jpg"]


def test_what_is_no_file_is_skipped_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as listening, pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)  # the path of a socket may only be short
        listening.bind("socket.jpg")
    (tmp_path / "device.jpg").symlink_to("/dev/null")
    assert scan_folder(tmp_path).skipped == {
        "pipe.jpg": "it is a pipe, not a photo",
        "socket.jpg": "it is a socket, not a photo",
        "device.jpg": "it is a device, not a photo",
    }


def test_a_folder_that_is_called_like_a_photo_is_searched(tmp_path: Path) -> None:
    fill(tmp_path, "album.jpg/1.jpg")
    assert names(tmp_path) == ["album.jpg/1.jpg"]


def test_names_that_are_not_utf8_are_skipped(tmp_path: Path) -> None:
    fill(tmp_path, "good.jpg")
    for name in (b"caf\xe9.jpg", b"f\xfc/1.jpg", b"notes-\xe9.txt"):
        file = tmp_path / os.fsdecode(name)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x")
    found = scan_folder(tmp_path)
    assert [one.below for one in found.found] == ["good.jpg"]
    why = "its name is not UTF-8: rename it"
    assert found.skipped == {"caf\udce9.jpg": why, "f\udcfc/": why}


def test_videos_are_skipped_and_raw_files_are_photos(tmp_path: Path) -> None:
    fill(tmp_path, "a.NEF", "b.mp4", "c.MOV", "d.jpg")
    found = scan_folder(tmp_path)
    assert [one.below for one in found.found] == ["a.NEF", "d.jpg"]
    assert sorted(found.skipped) == ["b.mp4", "c.MOV"]
    assert all("video" in reason for reason in found.skipped.values())


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that nobody may read, not even who may read everything."""
    looking = os.scandir

    def scandir(path: str | Path) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied", str(path))
        return looking(path)

    with monkeypatch.context() as patched:
        patched.setattr(module.os, "scandir", scandir)
        yield fill(tmp_path, "locked/1.jpg", "open/2.jpg") / "locked"


def test_a_folder_that_cannot_be_read_is_skipped(locked: Path) -> None:
    found = scan_folder(locked.parent)
    assert [one.below for one in found.found] == ["open/2.jpg"]
    assert found.skipped == {"locked/": "it cannot be read: Permission denied"}


def test_a_root_that_cannot_be_read_is_one_sentence(locked: Path) -> None:
    with pytest.raises(SolarError, match=r"locked.*Permission denied"):
        scan(locked)


def test_folders_that_are_told_are_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, "a/1.jpg", "a/in/2.jpg", "a/in.jpg")
    besides = frozenset({str(tmp_path / "a" / "in")})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("a")
    for place in (tmp_path / "a", Path("a"), Path("a/../a"), Path("link")):
        found = scan(place, besides=besides).found
        assert [one.below for one in found] == ["1.jpg", "in.jpg"], place


def test_a_list_names_photos_that_may_be_missing_or_none(tmp_path: Path) -> None:
    fill(tmp_path, "a.jpg", "film.avi")
    os.mkfifo(tmp_path / "pipe.jpg")
    entries = "a.jpg\n# a remark\n\n gone.jpg \npipe.jpg\nfilm.avi\n"
    (tmp_path / "list.txt").write_text(entries)
    found = scan(tmp_path / "list.txt")
    assert [(one.below, one.bytes) for one in found.found] == [("a.jpg", 5), ("gone.jpg", -1)]
    assert "pipe" in found.skipped["pipe.jpg"]
    assert "video" in found.skipped["film.avi"]


def test_members_of_a_shard_are_photos_by_name_and_kind(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "s.tar", "w") as shard:
        for name in ("v/a.jpg", "b.MP4", "readme.md", "caf\udce9.jpg"):
            member = tarfile.TarInfo(name)
            member.size = 3
            shard.addfile(member, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("link.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "v/a.jpg"
        shard.addfile(link)
    found = scan(tmp_path / "s.tar")
    assert [(one.below, one.bytes) for one in found.found] == [("v/a.jpg", 3)]
    assert found.found[0].modified == (tmp_path / "s.tar").stat().st_mtime_ns
    assert found.skipped.keys() == {"b.MP4", "caf\udce9.jpg"}


def test_one_photo_is_a_source_of_its_own(tmp_path: Path) -> None:
    fill(tmp_path, "a.jpg")
    assert [one.below for one in scan(tmp_path / "a.jpg").found] == ["a.jpg"]
