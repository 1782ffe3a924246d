import pytest

from solar.datasets.public import registry
from solar.datasets.public.registry import Dataset
from solar.errors import SolarError

EVERY = pytest.mark.parametrize("dataset", registry.datasets(), ids=lambda d: d.name)


@EVERY
def test_every_file_has_an_address_of_its_own_name_or_code(dataset: Dataset) -> None:
    parts = [part for archive in dataset.archives for part in archive.parts]
    for file in (*dataset.files, *parts):
        assert file.urls
        assert all(url.startswith(("http://", "https://")) for url in file.urls)
        assert all(url.endswith((file.name, file.name.rpartition(".")[2])) for url in file.urls)


def test_no_two_files_share_a_name_on_a_mirror() -> None:
    names = [
        file.mirrored or file.name
        for dataset in registry.datasets()
        for file in (
            *dataset.files,
            *(part for archive in dataset.archives for part in archive.parts),
        )
    ]
    assert len(names) == len(set(names))


@EVERY
def test_every_dataset_states_its_terms_and_size(dataset: Dataset) -> None:
    assert dataset.terms.endswith(".")
    assert dataset.page.startswith("http")
    assert dataset.download > 10**9
    assert dataset.unpacked > 10**9


def test_the_large_ones_have_all_their_archives() -> None:
    assert len(registry.find("revisitop1m").archives) == 100
    (whole,) = registry.find("gl18").archives
    assert [part.name[-2:] for part in whole.parts] == [f"a{c}" for c in "abcdefghijklmnopqrstuv"]
    assert len({part.urls for part in whole.parts}) == 22
    for subset, count in (("clean", 500), ("train", 500), ("index", 100), ("test", 20)):
        assert len(registry.find("gldv2").narrowed([subset]).archives) == count


def test_files_of_google_landmarks_v2_lie_in_the_folders_of_its_bucket() -> None:
    last = registry.find("gldv2").narrowed(["train"]).archives[-1].parts[0]
    assert last.urls == ("https://s3.amazonaws.com/google-landmark/train/images_499.tar",)
    assert (last.name, last.mirrored) == ("train_images_499.tar", "train/images_499.tar")
    assert last.md5_file is not None
    assert last.md5_file.urls[0].endswith("/google-landmark/md5sum/train/md5.images_499.txt")


@pytest.mark.parametrize(
    ("scene", "pictures"), [("liberty", 1759), ("notredame", 1829), ("yosemite", 2475)]
)
def test_patches_fill_pictures(scene: str, pictures: int) -> None:
    assert registry.mosaics(scene) == pictures


def test_a_misspelt_name_is_told() -> None:
    with pytest.raises(SolarError, match=r"'roxford'.*roxford5k"):
        registry.find("roxford")


def test_a_subset_has_its_own_files_and_archives() -> None:
    whole = registry.find("gldv2")
    assert whole.subsets == ("clean", "train", "index", "test", "labels")
    assert whole.narrowed() == whole.narrowed(["clean"])
    assert [file.name for file in whole.narrowed(["test"]).files] == [
        "test.csv",
        "recognition_solution_v2.1.csv",
        "retrieval_solution_v2.1.csv",
    ]
    labels = whole.narrowed(["labels"])
    assert (labels.files, labels.archives) == (whole.files, ())
    assert whole.narrowed(["clean", "train"]).archives == whole.narrowed(["train"]).archives
    assert whole.download > 500e9
    assert 190e9 < whole.unpacked < 195e9
    with pytest.raises(SolarError, match=r"gldv2 .*'val': clean or train"):
        whole.narrowed(["val"])
    with pytest.raises(SolarError, match=r"gl18 .*'clean'"):
        registry.find("gl18").narrowed(["clean"])
