import pytest

from solar.albums.report import album_names


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["a/Rome", "b/Paris"], ["Rome", "Paris"]),
        (["2019/Rome", "2021/Rome", "Oslo"], ["2019/Rome", "2021/Rome", "Oslo"]),
        (["x/2019/Rome", "y/2019/Rome", "Rome"], ["x/2019/Rome", "y/2019/Rome", "Rome"]),
        (["Rome", "Oslo", "Rome", "Rome"], ["Rome", "Oslo", "Rome (2)", "Rome (3)"]),
        (["old_town"], ["old town"]),
        (["", ""], ["Album", "Album (2)"]),
    ],
)
def test_no_two_albums_have_the_same_name(folders: list[str], names: list[str]) -> None:
    assert album_names([tuple(filter(None, one.split("/"))) for one in folders]) == names
