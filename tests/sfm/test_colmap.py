import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.warped import toy_photo, turned

from solar.errors import SolarError
from solar.images import Roots
from solar.ranking.verify import Verifier, VerifySettings
from solar.sfm.colmap import DatabaseCounts, check_database, reconstruct, write_database

pycolmap: Any = pytest.importorskip("pycolmap", reason='pip install "solar-retrieval[sfm]"')

_FOCAL_35MM, _MODEL, _ORIENTATION = 0xA405, 0x0110, 0x0112


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One house seen twice, by a camera that tells its focal length, and another house."""
    folder = tmp_path_factory.mktemp("photos")
    first = toy_photo(0, (320, 240))
    pictures = {
        "a b.jpg": first,
        "塔.jpg": turned(first, 1.0)[0],
        "c.jpg": toy_photo(1, (320, 240)),
    }
    for name, picture in pictures.items():
        exif = Image.Exif()
        if name != "c.jpg":
            exif[_MODEL] = "Box"
            exif.get_ifd(0x8769)[_FOCAL_35MM] = 35
        Image.fromarray(picture).save(folder / name, exif=exif, quality=95)
    return folder


@pytest.fixture
def verifier(folder: Path, tmp_path: Path) -> Callable[..., Verifier]:
    settings = VerifySettings(size=320, keypoints=500)
    return lambda place=folder: Verifier(Roots.at(place).find, tmp_path / "local", settings)


PAIRS = [("a b.jpg", "塔.jpg"), ("a b.jpg", "c.jpg"), ("塔.jpg", "gone.jpg")]


def test_a_database_holds_what_a_mapper_needs(
    verifier: Callable[..., Verifier], tmp_path: Path
) -> None:
    file, told = tmp_path / "photos.db", []
    with pytest.warns(UserWarning, match=r"Not matched: There is no photo gone\.jpg"):
        counts = write_database(
            file, PAIRS, verifier(), progress=lambda *one: told.append(one), total=3
        )
    assert counts == DatabaseCounts(images=3, matched=2, verified=1)
    assert told[-1] == ("Matching", 3, 3)
    assert not list(tmp_path.glob(".solar-*"))
    with pycolmap.Database.open(file) as database:
        images = {image.name: image for image in database.read_all_images()}
        assert set(images) == {"a b.jpg", "塔.jpg", "c.jpg"}
        a, b, c = (images[name] for name in ("a b.jpg", "塔.jpg", "c.jpg"))
        assert a.camera_id == b.camera_id != c.camera_id
        camera = database.read_camera(a.camera_id)
        assert camera.has_prior_focal_length
        assert not database.read_camera(c.camera_id).has_prior_focal_length
        assert (camera.width, camera.height) == (320, 240)
        points = verifier().features("a b.jpg").points
        assert np.allclose(database.read_keypoints(a.image_id)[:, :2], points + 0.5, atol=0.01)
        matches = database.read_matches(a.image_id, b.image_id)
        geometry = database.read_two_view_geometry(a.image_id, b.image_id)
        assert len(matches) >= len(geometry.inlier_matches) > 50
        assert database.num_verified_image_pairs() == 1


def test_the_same_photos_give_the_same_database_again(
    verifier: Callable[..., Verifier], tmp_path: Path
) -> None:
    for name in ("one.db", "two.db"):  # the second time with features that are kept
        write_database(tmp_path / name, PAIRS[:2], verifier())
    one, two = (pycolmap.Database.open(tmp_path / name) for name in ("one.db", "two.db"))
    with one, two:
        for number in (1, 2, 3):
            assert np.array_equal(one.read_keypoints(number), two.read_keypoints(number))
        for first, second in zip(
            one.read_two_view_geometries()[1], two.read_two_view_geometries()[1], strict=True
        ):
            assert np.array_equal(first.inlier_matches, second.inlier_matches)


@pytest.mark.parametrize("orientation", [1, 2, 3, 4, 5, 6, 7, 8])
def test_keypoints_are_those_of_the_file_whichever_way_up_it_is(
    folder: Path, verifier: Callable[..., Verifier], tmp_path: Path, orientation: int
) -> None:
    """The photo has a box near the corner in which its stored pixels begin, and nothing else."""
    picture = np.zeros((120, 160), np.uint8)
    picture[20:32, 30:46] = 255
    exif = Image.Exif()
    exif[_ORIENTATION] = orientation
    for name in ("a.png", "b.png"):
        Image.fromarray(picture).save(tmp_path / name, exif=exif)
    write_database(tmp_path / "photos.db", [("a.png", "b.png")], verifier(tmp_path))
    with pycolmap.Database.open(tmp_path / "photos.db") as database:
        points = database.read_keypoints(1)[:, :2]
        camera = database.read_camera(1)
    assert (camera.width, camera.height) == (160, 120)
    assert len(points)
    assert np.abs(points - [38, 26]).max() < 14


def test_a_mapper_finds_the_cameras(tmp_path: Path) -> None:
    """From a database of a made-up cloud, as matching makes one."""
    database = tmp_path / "photos.db"
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig = 1, 1, 6
    options.num_points3D = 200
    with pycolmap.Database.open(database) as opened:
        pycolmap.synthesize_dataset(options, opened)
    found = reconstruct(database, None, tmp_path / "model")
    assert (found.images, found.of, found.models) == (6, 6, 1)
    assert found.points > 150
    assert found.error < 0.5
    read = pycolmap.Reconstruction(tmp_path / "model" / "sparse" / "0")
    assert read.num_reg_images() == 6
    with pytest.raises(SolarError, match="sparse"):
        reconstruct(database, None, tmp_path / "model")


def test_photos_that_do_not_match_have_no_reconstruction(
    folder: Path, verifier: Callable[..., Verifier], tmp_path: Path
) -> None:
    write_database(tmp_path / "photos.db", PAIRS[1:2], verifier())
    found = reconstruct(tmp_path / "photos.db", folder, tmp_path / "model")
    assert (found.images, found.of, found.points, found.models) == (0, 2, 0, 0)
    assert not list((tmp_path / "model").iterdir())


def test_what_is_missing_is_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SolarError, match="database"):
        check_database(tmp_path, None)
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    with pytest.raises(SolarError, match=r"\[sfm\]"):
        check_database(tmp_path / "photos.db", None)
