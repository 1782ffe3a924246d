import io
import pickle
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from solar.errors import SolarError
from solar.images import Photos, find_photos, load
from solar.images.roots import named_photos


def photo(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), (shade, shade, shade)).save(buffer, "PNG")
    return buffer.getvalue()


def shard(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_a_folder_is_searched_in_depth_and_sorted(tmp_path: Path) -> None:
    for name in ("b/2.JPG", "b/1.png", "a.webp", "notes.txt", ".hidden.jpg", ".git/x.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert find_photos(tmp_path).names == ("a.webp", "b/1.png", "b/2.JPG")


def test_a_list_keeps_its_order_and_names(tmp_path: Path) -> None:
    (tmp_path / "z.png").write_bytes(photo(1))
    (tmp_path / "list.txt").write_text("z.png\n\n# a remark\n sub/a.png \n", encoding="utf-8")
    photos = find_photos(tmp_path / "list.txt")
    assert photos.names == ("z.png", "sub/a.png")
    assert load(photos.read(0), None).pixels.max() == 1


def test_members_of_a_shard_are_read_in_place(tmp_path: Path) -> None:
    path = shard(
        tmp_path / "s.tar", {"v/b.png": photo(7), "v/readme.md": b"x", "v/a.png": photo(9)}
    )
    photos = find_photos(path)
    assert photos.names == ("v/b.png", "v/a.png")
    assert [int(load(photos.read(i), None).pixels.max()) for i in (0, 1)] == [7, 9]
    assert pickle.loads(pickle.dumps(photos)) == photos


def test_several_sources_follow_each_other(tmp_path: Path) -> None:
    first = shard(tmp_path / "1.tar", {"a.png": photo(1)})
    second = shard(tmp_path / "2.tar", {"b.png": photo(2)})
    assert find_photos([second, first]).names == ("b.png", "a.png")


@pytest.mark.parametrize("name", ["x.tar.gz", "x.zip"])
def test_compressed_archives_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x1f\x8b")
    with pytest.raises(SolarError, match="unpack it"):
        find_photos(tmp_path / name)


def test_what_holds_no_photo_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="There is no photo in"):
        find_photos(tmp_path)
    with pytest.raises(SolarError, match="empty list"):
        find_photos([])
    with pytest.raises(SolarError, match="no file or folder"):
        find_photos(tmp_path / "nothing")


def test_a_name_that_two_sources_share_begins_with_the_source(tmp_path: Path) -> None:
    first = shard(tmp_path / "1.tar", {"a.png": photo(1)})
    second = shard(tmp_path / "2.tar", {"a.png": photo(2)})
    assert find_photos([first, second]).names == ("1.tar//a.png", "2.tar//a.png")


def test_two_photos_of_one_name_in_a_list_are_refused(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a.png\na.png\n")
    (tmp_path / "a.png").write_bytes(photo(1))
    with pytest.raises(SolarError, match=r"are called a\.png"):
        find_photos(tmp_path / "list.txt")


def test_a_damaged_shard_and_a_binary_list_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.tar").write_bytes(b"no tar at all" * 100)
    with pytest.raises(SolarError, match="not a complete tar"):
        find_photos(tmp_path / "bad.tar")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00photo")
    with pytest.raises(SolarError, match="not a text file"):
        find_photos(tmp_path / "bad.txt")


def test_a_shard_that_shrank_is_one_sentence(tmp_path: Path) -> None:
    path = shard(tmp_path / "s.tar", {"a.png": photo(7)})
    photos = find_photos(path)
    path.write_bytes(path.read_bytes()[:520])
    with pytest.raises(SolarError, match="has become shorter"):
        photos.read(0)


def test_some_photos_are_taken_in_the_order_asked_for(tmp_path: Path) -> None:
    photos = Photos.in_folder(tmp_path, ["a.jpg", "b.jpg", "c.jpg"])
    assert photos.select([2, 0]) == Photos(
        ("c.jpg", "a.jpg"), (tmp_path / "c.jpg", tmp_path / "a.jpg")
    )


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "photos" / "rome").mkdir(parents=True)
    for file in ("secret.png", "photos/rome/1.png"):
        (tmp_path / file).write_bytes(photo(3))
    find = named_photos(tmp_path / "photos")
    assert find("rome/../rome/1.png") == tmp_path / "photos" / "rome" / "1.png"
    for name in ("../secret.png", "rome/../../secret.png", str(tmp_path / "secret.png")):
        assert find(name) is None


def test_content_and_stamp_come_from_reading_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = photo(1)
    (tmp_path / "a.png").write_bytes(data)
    files = find_photos(tmp_path)
    inside = find_photos(shard(tmp_path / "s.tar", {"a.png": data}))
    for photos in (files, inside):
        file, stamp = photos.content(0)
        assert (file.read(), file.read(), stamp) == (data, data, photos.stamp(0))
    assert files.content(0)[0].name == tmp_path / "a.png"
    read: list[int] = []
    monkeypatch.setattr(Photos, "read", lambda self, number: read.append(number) or data)
    assert inside.content(0)[0].data == data
    assert read == [0]


def test_what_cannot_be_read_has_neither_content_nor_stamp(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(photo(1))
    photos = find_photos(tmp_path)
    (tmp_path / "a.png").unlink()
    for look in (photos.stamp, photos.content):
        with pytest.raises(SolarError, match="No such file"):
            look(0)
    (tmp_path / "a.png").mkdir()
    with pytest.raises(SolarError, match="not a regular file"):
        photos.content(0)
