import hashlib
import json
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import filelock
import pytest
from support.archives import below, make_archive
from support.file_server import FileServer, serve

from solar import download as fetching
from solar.datasets.public import registry
from solar.datasets.public.check import check
from solar.datasets.public.fetch import get, marker
from solar.datasets.public.registry import BLURRED, ORIGINAL, Archive, File
from solar.errors import SolarError

PHOTOS = {f"paris/{place}/p{number}.jpg": b"x" * 99 for number, place in enumerate("abcde")}
NAMES = [Path(name).stem for name in PHOTOS]


def archive(name: str, release: str, size: int = 1000) -> Archive:
    return Archive(name, (File(name, ()),), "jpg", 1, (".jpg",), size, size, release)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A mirror with a small Paris in two archives, known to the catalogue without any address."""
    monkeypatch.setattr(fetching, "_PAUSE", 0)
    monkeypatch.delenv("SOLAR_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    small = replace(
        registry.find("rparis6k"),
        files=(File("gnd_rparis6k.pkl", ()),),
        archives=(
            archive("paris_1-v1.tgz", BLURRED),
            archive("paris_2-v1.tgz", BLURRED, size=3000),
            archive("paris_1.tgz", ORIGINAL),
        ),
        photos=len(PHOTOS),
    )
    monkeypatch.setattr(registry, "_DATASETS", (small,))
    with serve() as running:
        monkeypatch.setenv("SOLAR_MIRRORS", running.base)
        truth = {"imlist": NAMES[1:], "qimlist": NAMES[:1], "gnd": [{"easy": [0]}]}
        running.add("gnd_rparis6k.pkl", pickle.dumps(truth))
        for number, chosen in ((1, list(PHOTOS)[:2]), (2, list(PHOTOS)[2:])):
            members = {name: PHOTOS[name] for name in chosen}
            content = make_archive(tmp_path / f"made{number}.tgz", members).read_bytes()
            running.add(f"paris_{number}-v1.tgz", content)
        running.add("paris_1.tgz", make_archive(tmp_path / "old.tgz", PHOTOS).read_bytes())
        yield running


def asked(server: FileServer) -> list[str]:
    return [path.strip("/") for path, _ in server.requests]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_get_makes_a_complete_dataset(server: FileServer, root: Path) -> None:
    folder = get("rparis6k", root)
    assert folder == root / "rparis6k"
    assert below(folder / "jpg") == {Path(name).name: data for name, data in PHOTOS.items()}
    assert check("rparis6k", root).complete


def test_archives_are_removed_after_use(server: FileServer, root: Path) -> None:
    folder = get("rparis6k", root)
    assert sorted(path.name for path in folder.iterdir()) == [
        ".solar",
        "gnd_rparis6k.pkl",
        "gnd_rparis6k.pkl.sha256",
        "jpg",
    ]


def test_archives_are_kept_on_request(server: FileServer, root: Path) -> None:
    folder = get("rparis6k", root, keep_archives=True)
    assert (folder / "archives" / "paris_1-v1.tgz").is_file()
    assert (folder / "archives" / "paris_2-v1.tgz").is_file()


def test_a_finished_dataset_is_not_fetched_again(
    server: FileServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get("rparis6k", root)
    monkeypatch.setenv("SOLAR_OFFLINE", "1")
    server.requests.clear()
    get("rparis6k", root)
    assert asked(server) == []


def test_again_unpacks_what_was_deleted(server: FileServer, root: Path) -> None:
    folder = get("rparis6k", root)
    shutil.rmtree(folder / "jpg")
    report = check("rparis6k", root)
    assert report.unpacked
    assert not report.complete
    get("rparis6k", root, again=True)
    assert check("rparis6k", root).complete


def test_an_interrupted_get_goes_on(server: FileServer, root: Path) -> None:
    second = server.answers["/paris_2-v1.tgz"]
    second.sends = [100, 0, 0, 0]  # a beginning, then nothing for all four attempts
    with pytest.raises(SolarError, match=r"paris_2-v1\.tgz"):
        get("rparis6k", root)
    assert not check("rparis6k", root).complete
    server.requests.clear()
    get("rparis6k", root)
    assert asked(server) == ["paris_2-v1.tgz"]
    assert server.ranges() == ["bytes=100-"]
    assert check("rparis6k", root).complete


def test_an_archive_whose_unpacking_was_interrupted_is_unpacked_anew(
    server: FileServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfileobj", stop)
        with pytest.raises(KeyboardInterrupt):
            get("rparis6k", root)
    server.requests.clear()
    get("rparis6k", root)
    assert asked(server) == ["paris_2-v1.tgz"]
    assert check("rparis6k", root).complete


def test_the_marker_tells_what_was_unpacked(server: FileServer, root: Path) -> None:
    folder = get("rparis6k", root)
    content = server.answers["/paris_1-v1.tgz"].content
    noted = json.loads((folder / ".solar" / "paris_1-v1.tgz.json").read_text())
    assert noted == {
        "archive": "paris_1-v1.tgz",
        "release": "blurred",
        "files": 2,
        "parts": [
            {
                "name": "paris_1-v1.tgz",
                "bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
        ],
    }


def test_an_unsafe_archive_gets_no_marker(server: FileServer, root: Path, tmp_path: Path) -> None:
    bad = make_archive(tmp_path / "bad.tgz", {"../../../out.jpg": b"bad"}).read_bytes()
    server.add("paris_1-v1.tgz", bad)
    with pytest.raises(SolarError, match="not safe"):
        get("rparis6k", root)
    first = registry.find("rparis6k").archives[0]
    assert marker(root / "rparis6k", first) is None
    assert not list(tmp_path.rglob("out.jpg"))


def test_a_wrong_md5_is_told(
    server: FileServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = registry.find("rparis6k")
    wrong = replace(whole.archives[0], parts=(File("paris_1-v1.tgz", (), md5="0" * 32),))
    monkeypatch.setattr(registry, "_DATASETS", (replace(whole, archives=(wrong,)),))
    with pytest.raises(SolarError, match=r"paris_1-v1\.tgz.* 000"):
        get("rparis6k", root)


def test_the_other_release_can_be_asked_for(server: FileServer, root: Path) -> None:
    get("rparis6k", root, release="original")
    assert asked(server) == ["gnd_rparis6k.pkl", "paris_1.tgz"]
    assert check("rparis6k", root).release == "original"


def test_releases_are_not_mixed(server: FileServer, root: Path) -> None:
    get("rparis6k", root, release="original")
    with pytest.raises(SolarError, match="original release"):
        get("rparis6k", root)


def test_an_unknown_release_is_told(server: FileServer, root: Path) -> None:
    with pytest.raises(SolarError, match="'v2': blurred or original"):
        get("rparis6k", root, release="v2")


@pytest.mark.parametrize(("keep", "needed"), [(False, "7.0"), (True, "8.0")])
def test_a_small_disk_is_told_before_anything_is_fetched(
    server: FileServer, root: Path, monkeypatch: pytest.MonkeyPatch, keep: bool, needed: str
) -> None:
    whole = registry.find("rparis6k")
    large = tuple(
        replace(a, download=a.download * 10**6, unpacked=a.unpacked * 10**6) for a in whole.archives
    )
    monkeypatch.setattr(registry, "_DATASETS", (replace(whole, archives=large),))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=6_900_000_000))
    with pytest.raises(SolarError, match=rf" {needed} GB .* 6\.9 GB"):
        get("rparis6k", root, keep_archives=keep)
    assert asked(server) == []
    get("rparis6k", root, check_space=False)
    assert check("rparis6k", root).complete


def test_a_folder_that_cannot_be_made_is_one_sentence(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SolarError, match="root="):
        get("rparis6k", tmp_path / "file")


def test_two_at_once_do_not_meet(server: FileServer, root: Path) -> None:
    (root / "rparis6k" / ".solar").mkdir(parents=True)
    with (
        filelock.FileLock(root / "rparis6k" / ".solar" / "lock"),
        pytest.raises(SolarError, match="Another process"),
    ):
        get("rparis6k", root)


def test_offline_says_where_to_put_the_file(
    server: FileServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOLAR_OFFLINE", "1")
    with pytest.raises(SolarError, match=r"SOLAR_OFFLINE.*gnd_rparis6k\.pkl"):
        get("rparis6k", root)
    assert asked(server) == []


# Subsets, published md5 files, and lists of what to keep.

IDS = ["0a1b2c3d4e5f6071", "0a1b2c3d4e5f6072", "fedcba9876543210", "fedcba9876543211"]
LISTED = [IDS[0], IDS[2]]
LABELS = ("train_clean.csv", "train.csv", "index.csv")


def place(photo: str) -> str:
    return f"{photo[0]}/{photo[1]}/{photo[2]}/{photo}.jpg"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A mirror with a Google Landmarks v2 of two train archives and one index archive."""
    monkeypatch.setattr(fetching, "_PAUSE", 0)
    monkeypatch.delenv("SOLAR_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    archives = ("train_images_000.tar", "train_images_001.tar", "index_images_000.tar")
    whole = registry.find("gldv2")
    small = replace(
        whole,
        files=tuple(replace(f, urls=(), size=0) for f in whole.files if f.name in LABELS),
        archives=tuple(
            replace(a, download=1000, unpacked=1000) for a in whole.archives if a.name in archives
        ),
    )
    monkeypatch.setattr(registry, "_DATASETS", (small,))
    sizes = {"train_clean.csv": 2, "train.csv": 4, "index.csv": 1}
    monkeypatch.setattr(registry, "GLDV2_PHOTOS", sizes)
    with serve() as running:
        monkeypatch.setenv("SOLAR_MIRRORS", running.base)
        running.add(
            "metadata/train_clean.csv", f"landmark_id,images\n7,{' '.join(LISTED)}".encode()
        )
        rows = "".join(f"{photo},http://a,7\n" for photo in IDS)
        running.add("metadata/train.csv", f"id,url,landmark_id\n{rows}".encode())
        running.add("metadata/index.csv", f"id\n{IDS[0]}\n".encode())
        packed = {"train/images_000": IDS[:2], "train/images_001": IDS[2:]}
        for path, photos in {**packed, "index/images_000": IDS[:1]}.items():
            members = {place(photo): path.encode() for photo in photos}
            content = make_archive(tmp_path / "made.tar", members).read_bytes()
            running.add(f"{path}.tar", content)
            md5, name = hashlib.md5(content).hexdigest(), path.replace("/", "/md5.")
            running.add(f"md5sum/{name}.txt", f"{md5}  {path}.tar\n".encode())
        yield running


def test_only_the_photos_of_the_clean_list_are_kept(bucket: FileServer, root: Path) -> None:
    told: list[str] = []
    folder = get("gldv2", root, say=told.append)
    assert set(below(folder / "train")) == {place(photo) for photo in LISTED}
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".sha256") == [
        ".solar",
        "train",
        "train_clean.csv",
    ]
    assert told[0] == "gldv2: about 0.0 GB to download, 0.0 GB on disk."
    assert told[2] == "train_images_000.tar: 1 files unpacked."
    report = check("gldv2", root)
    assert report.complete
    assert [item.what for item in report.items] == [
        "train_clean.csv",
        "names in train_clean.csv",
        "photos of train_clean.csv",
    ]
    bucket.requests.clear()
    get("gldv2", root)
    assert asked(bucket) == []


def test_all_photos_are_fetched_after_the_listed_ones_but_not_the_other_way_round(
    bucket: FileServer, root: Path
) -> None:
    folder = get("gldv2", root)
    assert not check("gldv2", root, only=["train"]).unpacked
    get("gldv2", root, only=["train"])
    assert set(below(folder / "train")) == {place(photo) for photo in IDS}
    assert check("gldv2", root, only=["train"]).complete
    bucket.requests.clear()
    get("gldv2", root, only=["clean"])
    assert asked(bucket) == []


def test_archives_of_one_name_in_two_folders_are_told_apart(bucket: FileServer, root: Path) -> None:
    folder = get("gldv2", root, only=["index", "clean"])
    assert below(folder / "index") == {place(IDS[0]): b"index/images_000"}
    assert below(folder / "train")[place(IDS[0])] == b"train/images_000"
    assert check("gldv2", root, only=["index", "clean"]).complete


def test_labels_alone_are_fetched(bucket: FileServer, root: Path) -> None:
    folder = get("gldv2", root, only=["labels"])
    assert {name for name in below(folder) if name.endswith(".csv")} == set(LABELS)
    assert check("gldv2", root, only=["labels"]).complete
    report = check("gldv2", root)
    assert [item.found for item in report.items] == [1, 2, 0]
    assert report.items[-1].missing == tuple(place(photo) for photo in LISTED)


def test_an_interrupted_set_goes_on_where_it_was(bucket: FileServer, root: Path) -> None:
    bucket.answers["/train/images_001.tar"].sends = [100, 0, 0, 0]
    with pytest.raises(SolarError, match=r"train_images_001\.tar"):
        get("gldv2", root)
    bucket.requests.clear()
    get("gldv2", root)
    assert asked(bucket) == ["train/images_001.tar"]
    assert bucket.ranges() == ["bytes=100-"]
    assert check("gldv2", root).complete


def test_an_archive_that_is_not_what_its_md5_file_says_is_refused(
    bucket: FileServer, root: Path
) -> None:
    wrong = f"{'0' * 32}  images_000.tar".encode()
    bucket.answers["/md5sum/train/md5.images_000.txt"].content = wrong
    with pytest.raises(SolarError, match=r"train_images_000\.tar.* 000"):
        get("gldv2", root)
    assert not (root / "gldv2" / "train").exists()


def test_a_file_without_an_md5_is_refused(bucket: FileServer, root: Path) -> None:
    bucket.answers["/md5sum/train/md5.images_000.txt"].content = b"not found"
    with pytest.raises(SolarError, match=r"train_images_000\.tar\.md5"):
        get("gldv2", root)
    assert "train/images_000.tar" not in asked(bucket)


def test_check_tells_of_a_list_that_cannot_be_read_or_is_missing(
    bucket: FileServer, root: Path
) -> None:
    (root / "gldv2").mkdir(parents=True)
    (missing,) = check("gldv2", root).items[1:]
    assert (missing.expected, missing.note) == (2, "train_clean.csv is needed to look for them.")
    (root / "gldv2" / "train_clean.csv").write_text("landmark_id,images\n7,../../etc\n")
    (bad,) = check("gldv2", root).items[1:]
    assert not bad.complete
    assert "Line 2 of" in bad.note
