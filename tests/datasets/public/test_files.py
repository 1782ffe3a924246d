import pytest

from solar.datasets.public import registry
from solar.errors import SolarError


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
    with pytest.raises(SolarError, match=r"gldv2 has no subset 'val': clean or train or index"):
        whole.narrowed(["val"])
    with pytest.raises(SolarError, match=r"gl18 has no subset 'clean': it comes as a whole\."):
        registry.find("gl18").narrowed(["clean"])
