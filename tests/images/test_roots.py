import os
from pathlib import Path

import pytest

from solar.errors import SolarError
from solar.images import Root, Roots, collect, scan_roots


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(os.fsencode(folder / name))
    return folder


def test_one_root_needs_no_name(tmp_path: Path) -> None:
    fill(tmp_path / "photos", "rome/1.jpg")
    photos = collect([tmp_path / "photos"])
    assert photos.names == ("rome/1.jpg",)
    assert photos.roots == Roots.at(tmp_path / "photos")


def test_names_of_two_roots_never_meet(tmp_path: Path) -> None:
    first = fill(tmp_path / "camA", "1.jpg")
    second = fill(tmp_path / "camB", "1.jpg")
    photos = collect([first, second])
    assert photos.names == ("camA//1.jpg", "camB//1.jpg")
    assert [photos.roots.find(name) for name in photos.names] == [
        first / "1.jpg",
        second / "1.jpg",
    ]


def test_a_second_root_gets_a_name_and_the_first_keeps_its_own(tmp_path: Path) -> None:
    first = fill(tmp_path / "camA", "1.jpg")
    second = fill(tmp_path / "camB", "1.jpg")
    photos = collect([second], collect([first]).roots)
    assert photos.names == ("camB//1.jpg",)
    assert photos.roots == Roots((Root(str(first)), Root(str(second), "camB")))
    assert photos.roots.find("1.jpg") == first / "1.jpg"


def test_folders_of_one_name_are_numbered(tmp_path: Path) -> None:
    folders = [fill(tmp_path / str(disk) / "photos", "1.jpg") for disk in range(3)]
    photos = collect(folders)
    assert photos.names == ("photos//1.jpg", "photos-2//1.jpg", "photos-3//1.jpg")


def test_a_folder_that_is_given_twice_is_one_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path / "photos", "1.jpg")
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    photos = collect([folder, "photos/", "link"])
    assert photos.names == ("photos//1.jpg",)
    assert len(photos.roots.roots) == 1
    again = collect([Path("photos")], Roots.at(folder))
    assert (again.names, again.roots) == (("1.jpg",), Roots.at(folder))


def test_what_is_below_a_root_is_called_by_it(tmp_path: Path) -> None:
    folder = fill(tmp_path / "photos", "rome/deep/1.jpg", "rome/2.jpg")
    roots = Roots.at(folder)
    for source in ("rome", "rome/deep", "rome/deep/1.jpg"):
        photos = collect([folder / source], roots)
        assert "rome/deep/1.jpg" in photos.names, source
        assert photos.roots == roots, source


def test_a_folder_around_a_root_leaves_that_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = fill(tmp_path / "all", "1.jpg", "in/2.jpg")
    inner = Roots.at(outer / "in")
    monkeypatch.chdir(tmp_path)
    for source in (outer, Path("all")):
        photos = collect([source], inner)
        assert photos.names == ("all//1.jpg",)
        assert sorted(scan_roots(photos.roots).names) == ["2.jpg", "all//1.jpg"]


def test_a_folder_around_single_photos_holds_all_the_others_too(tmp_path: Path) -> None:
    folder = fill(tmp_path / "all", "1.jpg", "in/2.jpg", "in/3.jpg")
    single = collect([folder / "in" / "2.jpg"]).roots
    assert scan_roots(single, ["2.jpg"]).names == ("2.jpg",)
    photos = collect([folder], single)
    names = {"2.jpg", "3.jpg", "all//1.jpg"}
    assert names - {"2.jpg"} <= set(photos.names)
    assert set(scan_roots(photos.roots, {"2.jpg", *photos.names}).names) == names


def test_a_folder_below_single_photos_belongs_to_the_collection_whole(tmp_path: Path) -> None:
    folder = fill(tmp_path / "all", "1.jpg", "2.jpg", "in/3.jpg")
    photos = collect([folder / "in"], collect([folder / "1.jpg"]).roots)
    fill(folder, "in/4.jpg")
    found = scan_roots(photos.roots, {"1.jpg", *photos.names}).names
    assert found == ("1.jpg", "in//3.jpg", "in//4.jpg")


def test_photos_beside_a_list_are_not_of_the_list(tmp_path: Path) -> None:
    fill(tmp_path, "1.jpg", "2.jpg", "more/3.jpg")
    (tmp_path / "list.txt").write_text("1.jpg\n")
    listed = collect([tmp_path / "list.txt"])
    assert listed.names == ("1.jpg",)
    for source in ("more", "2.jpg"):
        photos = collect([tmp_path / source], listed.roots)
        everything = {"1.jpg", *photos.names}
        assert set(scan_roots(photos.roots, everything).names) == everything, source
        assert len(everything) == 2


def test_single_photos_are_found_again_and_no_others(tmp_path: Path) -> None:
    folder = fill(tmp_path / "photos", "1.jpg", "2.jpg", "3.jpg")
    photos = collect([folder / "1.jpg", folder / "3.jpg"])
    assert [name.rpartition("/")[2] for name in photos.names] == ["1.jpg", "3.jpg"]
    assert scan_roots(photos.roots, photos.names).names == photos.names
    (folder / "1.jpg").unlink()
    assert scan_roots(photos.roots, photos.names).names == photos.names[1:]


def test_a_root_whose_name_is_not_text_does_not_cost_the_run(tmp_path: Path) -> None:
    odd = fill(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")), "1.jpg")
    photos = collect([fill(tmp_path / "other", "1.jpg"), odd])
    for name in photos.names:
        name.encode()
        assert photos.roots.find(name) is not None
    assert len(set(photos.names)) == 2


def test_a_file_knows_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fill(tmp_path / "a", "rome/1.jpg", "in/2.jpg")
    second = fill(tmp_path / "b", "3.jpg")
    roots = collect([first, second, first / "in"]).roots
    inner = collect([first / "in"], Roots.at(second)).roots
    assert roots.name_of(first / "rome" / "1.jpg") == "a//rome/1.jpg"
    assert roots.name_of(second / "3.jpg") == "b//3.jpg"
    assert inner.name_of(first / "in" / "2.jpg") == "in//2.jpg"
    assert inner.name_of(first / "rome" / "1.jpg") is None
    monkeypatch.chdir(first)
    assert roots.name_of("rome/../rome/1.jpg") == "a//rome/1.jpg"
    (tmp_path / "link").symlink_to(second)
    assert roots.name_of(tmp_path / "link" / "3.jpg") == "b//3.jpg"


def test_a_photo_has_one_absolute_place(tmp_path: Path) -> None:
    fill(tmp_path / "a", "1.jpg")
    fill(tmp_path / "b", "2.jpg")
    (tmp_path / "shard.tar").write_bytes(b"")
    roots = Roots((Root(str(tmp_path / "a")), Root(str(tmp_path / "b"), "b")))
    assert roots.absolute("1.jpg") == str(tmp_path / "a" / "1.jpg")
    assert roots.absolute("b//2.jpg") == str(tmp_path / "b" / "2.jpg")
    assert roots.absolute("b//gone.jpg") == str(tmp_path / "b" / "gone.jpg")
    assert Roots.at(tmp_path / "shard.tar").absolute("x.jpg") is None
    assert Roots().absolute("x.jpg") is None
    unnamed = Roots((Root(str(tmp_path / "a")), Root(str(tmp_path / "b"))))
    assert unnamed.absolute("2.jpg") == str(tmp_path / "b" / "2.jpg")


@pytest.mark.parametrize("name", ["../secret.jpg", "x/../../secret.jpg", "b//../secret.jpg", "\0"])
def test_no_name_leads_out_of_a_root(tmp_path: Path, name: str) -> None:
    fill(tmp_path, "secret.jpg", "a/1.jpg", "b/2.jpg")
    roots = Roots((Root(str(tmp_path / "a")), Root(str(tmp_path / "b"), "b")))
    assert roots.find(name) is None
    assert roots.find(str(tmp_path / "secret.jpg")) is None
    assert roots.absolute(name) != str(tmp_path / "secret.jpg")
    assert roots.absolute(str(tmp_path / "secret.jpg")) != str(tmp_path / "secret.jpg")


def test_a_photo_of_a_root_that_is_gone_is_not_there(tmp_path: Path) -> None:
    roots = Roots((Root(str(tmp_path / "gone")), Root(str(tmp_path / "gone.tar"), "t")))
    assert roots.find("1.jpg") is roots.find("t//1.jpg") is None


def test_roots_that_moved_are_found_in_their_new_place(tmp_path: Path) -> None:
    first, second = fill(tmp_path / "a", "1.jpg"), fill(tmp_path / "b", "1.jpg")
    roots = collect([first, second]).roots
    assert roots.moved_to(None) == roots
    (tmp_path / "disk").mkdir()
    first.rename(tmp_path / "disk" / "a")
    second.rename(tmp_path / "disk" / "b")
    moved = roots.moved_to(tmp_path / "disk")
    assert moved.find("a//1.jpg") == tmp_path / "disk" / "a" / "1.jpg"
    assert moved.find("b//1.jpg") == tmp_path / "disk" / "b" / "1.jpg"
    one = Roots.at(first).moved_to(tmp_path / "disk" / "a")
    assert one.find("1.jpg") == tmp_path / "disk" / "a" / "1.jpg"
    assert Roots().moved_to(tmp_path) == Roots.at(tmp_path)


def test_roots_come_back_as_they_were_stored(tmp_path: Path) -> None:
    roots = Roots((Root("/a"), Root("/b", "b"), Root("/c", "c", whole=False)))
    assert Roots.read(roots.stored()) == roots
    assert str(roots) == "/a, /b, /c"
    assert not Roots()


def test_nothing_to_find_is_one_sentence_with_a_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(SolarError, match=r"'pipe\.jpg'"):
        collect([tmp_path])
    assert scan_roots(Roots.at(tmp_path)).names == ()


def test_a_tilde_is_home_unless_it_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(fill(tmp_path / "home", "photos/1.jpg")))
    monkeypatch.chdir(fill(tmp_path / "here", "~old~/2.jpg"))
    assert collect(["~/photos"]).roots == Roots.at("~/photos")
    assert Roots.at("~/photos").find("1.jpg") == tmp_path / "home" / "photos" / "1.jpg"
    assert collect(["~old~"]).names == ("2.jpg",)


def test_what_nobody_may_look_at_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path / "locked" / "photos", "1.jpg")
    looking = os.stat

    def stat(path: os.PathLike[str], **options: bool) -> os.stat_result:
        if "locked" in Path(path).parts[:-1]:
            raise PermissionError(13, "Permission denied", str(path))
        return looking(path, **options)

    monkeypatch.setattr(os, "stat", stat)
    for source in (folder, folder / "1.jpg", folder / "list.txt"):
        with pytest.raises(SolarError, match=r"locked.*Permission denied"):
            collect([source])
    with pytest.raises(SolarError, match="cannot be read"):
        scan_roots(Roots((Root(str(folder)),)))
    assert Roots((Root(str(folder)),)).find("1.jpg") is None


@pytest.mark.parametrize("name", ["../private", "..", "/etc", "a/../../private"])
def test_the_name_of_a_root_does_not_lead_out_of_where_the_photos_are(
    tmp_path: Path, name: str
) -> None:
    fill(tmp_path / "private", "1.jpg")
    fill(tmp_path / "photos", "1.jpg")
    (tmp_path / "photos" / "a").mkdir()
    roots = Roots((Root("/elsewhere", name),))
    assert str(roots.moved_to(tmp_path / "photos")) == str(tmp_path / "photos")


@pytest.mark.parametrize("path", [5, None, "a\0b", "\ud800", ["/etc"]])
def test_a_root_that_is_no_path_is_one_sentence(path: object) -> None:
    with pytest.raises(SolarError, match="restore"):
        Roots.read([[path, "", True]])
