"""COLMAP: a database of our local features and their matches, and a first reconstruction from it.

Keypoints are written in pixels of the files as they are stored, as COLMAP reads them without
turning them upright, and with (0.5, 0.5) at the centre of the first pixel.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.arrays import Floats, Ints
from solar.describe.progress import Progress, counted
from solar.errors import SolarError, optional
from solar.files import make_folder, refuse_folder, replacing
from solar.images.exif import orientation_of, stored_points
from solar.images.readable import opened
from solar.local.features import LocalFeatures
from solar.matching.match import DENSE_RATIO, RATIO, mutual_matches
from solar.ranking.verify import Verifier
from solar.sfm.pairs import Pair, with_features

if TYPE_CHECKING:
    from solar.images import Source

_CAMERA = "SIMPLE_RADIAL"
_FOCAL = 1.2  # times the longer side, where a photo does not tell: COLMAP's own guess
SEED = 0
# Least angle between the rays of the first pair, in degrees, and how far it may lie straight ahead:
# COLMAP's own, then what photos need that were taken along a street.
_BEGINNINGS = ((16.0, 0.95), (4.0, 1.0))
MODELS = "sparse"
"""The folder of COLMAP's models, in that of a reconstruction."""


@dataclass(frozen=True)
class DatabaseCounts:
    """What a database holds: photos, pairs with matches, and those with a two-view geometry."""

    images: int
    matched: int
    verified: int


@dataclass(frozen=True)
class Reconstruction:
    """The largest model that a mapper found, and how many models there are."""

    images: int  # photos whose cameras were found
    of: int  # photos in the database
    points: int  # in space
    error: float  # mean reprojection error in pixels; 0 without a model
    models: int  # separate ones


def check_database(database: Path, folder: Path | None) -> None:
    """Check before hours of matching.

    A SolarError if pycolmap is not installed, a folder is in the way of the database, or there is
    a reconstruction in `folder` already.
    """
    optional("pycolmap", "sfm")
    refuse_folder(database, "the database")
    if folder is not None and (folder / MODELS).exists():
        raise SolarError(
            f"{folder / MODELS} is there already: choose another folder for the reconstruction."
        )


def write_database(
    path: str | Path,
    pairs: Iterable[Pair],
    verifier: Verifier,
    *,
    progress: Progress | None = None,
    total: int = 0,
) -> DatabaseCounts:
    """Match pairs of photos by their local features and write all that a mapper needs.

    Cameras (focal lengths by EXIF, where photos have them; photos of one camera share it), images,
    keypoints, matches, and the two-view geometries that COLMAP's own estimator finds in them.

    The database is written whole or not at all, in place of one that is there. `total` is the
    number of pairs, for `progress`. A SolarError if pycolmap is not installed, or the disk is full
    or read-only.
    """
    colmap = optional("pycolmap", "sfm")
    images: dict[str, _Image] = {}
    matched = verified = 0
    advance = counted(progress, "Matching", total)
    options = colmap.TwoViewGeometryOptions()
    options.ransac.random_seed = SEED
    with (
        replacing(path) as temporary,
        colmap.Database.open(temporary) as database,
        ThreadPoolExecutor(os.cpu_count() or 1) as threads,
    ):
        cameras: dict[tuple[Any, ...], Any] = {}
        for some, features in with_features(pairs, verifier, threads):
            with colmap.DatabaseTransaction(database):
                for name in features:
                    if name not in images:
                        given = verifier.photo(name), features[name]
                        images[name] = _written(colmap, database, name, *given, cameras)
            known = [pair for pair in some if all(name in features for name in pair)]
            compare = partial(_compared, colmap, options, images, features)
            results = list(threads.map(compare, known))
            with colmap.DatabaseTransaction(database):
                for (a, b), (matches, geometry) in zip(known, results, strict=True):
                    ids = images[a].number, images[b].number
                    database.write_matches(*ids, matches)
                    matched += bool(len(matches))
                    if len(geometry.inlier_matches):
                        database.write_two_view_geometry(*ids, geometry)
                        verified += 1
            advance(len(some))
    return DatabaseCounts(len(images), matched, verified)


@dataclass(frozen=True, eq=False)
class _Image:
    camera: Any
    points: Floats  # (n, 2)
    number: int


def _written(
    colmap: Any,
    database: Any,
    name: str,
    photo: Source | None,
    features: LocalFeatures,
    cameras: dict[tuple[Any, ...], Any],
) -> _Image:
    """Write a photo and its keypoints; `cameras` are those in the database."""
    orientation, (height, width) = 1, features.shape
    if photo is not None:
        with suppress(SolarError), opened(photo) as image:
            orientation = orientation_of(image)
    if orientation >= 5:
        width, height = height, width
    points = stored_points(features.points + 0.5, orientation, (width, height)).astype(np.float32)
    camera = _camera(colmap, photo, width, height)
    # Without EXIF, two photos of one size may well come from two cameras.
    own = () if camera.has_prior_focal_length else (name,)
    key = (camera.width, camera.height, camera.focal_length, *own)
    if key not in cameras:
        camera.camera_id = database.write_camera(camera)
        cameras[key] = camera
    number = database.write_image(colmap.Image(name=name, camera_id=cameras[key].camera_id))
    database.write_keypoints(number, points)
    return _Image(cameras[key], points, number)


def _camera(colmap: Any, photo: Source | None, width: int, height: int) -> Any:
    if isinstance(photo, Path):
        with suppress(Exception):  # a format that COLMAP does not read
            camera = colmap.infer_camera_from_image(photo)
            if (camera.width, camera.height) == (width, height):
                return camera
    focal = _FOCAL * max(width, height)
    return colmap.Camera.create_from_model_name(0, _CAMERA, focal, width, height)


def _compared(
    colmap: Any,
    options: Any,
    images: Mapping[str, _Image],
    features: Mapping[str, LocalFeatures],
    pair: Pair,
) -> tuple[Ints, Any]:
    a, b = (features[name] for name in pair)
    ratio = DENSE_RATIO if a.dense or b.dense else RATIO
    matches = mutual_matches(a.directions, b.directions, ratio=ratio)
    seen = [side for name in pair for side in (images[name].camera, images[name].points)]
    return matches, colmap.estimate_two_view_geometry(*seen, matches, options)


def reconstruct(
    database: str | Path, photos: str | Path | None, folder: str | Path
) -> Reconstruction:
    """Run COLMAP's incremental mapper for a first look.

    Where it does not register all photos it runs once more, with less asked of the first pair, and
    the run that registers more counts. Models are written to `sparse/0`, `sparse/1`, … in `folder`,
    the largest first; `photos`, the image folder, gives points their colours.

    A SolarError if pycolmap is not installed, or the folder holds a reconstruction already or
    cannot be written.
    """
    colmap = optional("pycolmap", "sfm")
    database, folder = Path(database), Path(folder)
    check_database(database, folder)
    make_folder(folder)
    with colmap.Database.open(database) as known:
        total = known.num_images()
    models: list[Any] = []
    with _quiet(colmap), tempfile.TemporaryDirectory(dir=folder, prefix=".solar-") as place:
        for number, (angle, forward) in enumerate(_BEGINNINGS):
            if models and models[0].num_reg_images() == total:
                break
            options = colmap.IncrementalPipelineOptions()
            options.random_seed = SEED
            options.min_model_size = 3  # small collections are worth a look as well
            options.extract_colors = photos is not None
            options.mapper.init_min_tri_angle = angle
            options.mapper.init_max_forward_motion = forward
            scratch = Path(place, str(number))
            scratch.mkdir()
            found = colmap.incremental_mapping(database, photos or place, scratch, options)
            ordered = sorted(found.values(), key=lambda model: -model.num_reg_images())
            models = max(models, ordered, key=lambda some: [m.num_reg_images() for m in some[:1]])
        for number, model in enumerate(models):
            make_folder(target := Path(place, MODELS, str(number)))
            model.write(target)
        if models:
            Path(place, MODELS).rename(folder / MODELS)
    if not models:
        return Reconstruction(0, total, 0, 0.0, 0)
    best = models[0]
    error = float(best.compute_mean_reprojection_error())
    return Reconstruction(best.num_reg_images(), total, best.num_points3D(), error, len(models))


@contextmanager
def _quiet(colmap: Any) -> Iterator[None]:
    """Silence COLMAP but for errors: it logs a page per photo."""
    before = colmap.logging.minloglevel
    colmap.logging.minloglevel = int(colmap.logging.Level.FATAL)
    try:
        yield
    finally:
        colmap.logging.minloglevel = before
