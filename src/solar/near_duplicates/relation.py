"""How two photos are related: copies and crops by their pixels, moments and places by geometry.

Where the small pictures of two photos agree in one of eight orientations, the photos are laid over
each other as a whole. Otherwise keypoints say how one lies in the other, and the pixels are
compared there. Photos whose keypoints agree and whose pixels do not are two photos of one moment or
one place. Where only the descriptors suggest a place, corners are matched before keypoints are
detected (`solar.near_duplicates.orb_prefilter`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from PIL import Image

from solar.arrays import Doubles, Floats, Pixels
from solar.errors import SolarError
from solar.files import reading
from solar.images import load
from solar.images.exif import exif_facts, orientation_of, turned
from solar.images.readable import Source, opened
from solar.local.features import LocalFeatures
from solar.matching.match import estimate, mutual_matches, scene_threshold
from solar.near_duplicates.axis_mapping import fit_axes
from solar.near_duplicates.evidence import FileTraces, Verdict, detail_verdict, whole_verdict
from solar.near_duplicates.exposure import fit
from solar.near_duplicates.orb_prefilter import VOTES, Corners, corners, votes
from solar.near_duplicates.orientations import WAYS, WORDS, laid_photo, way_matrix
from solar.near_duplicates.pixel_compare import Agreement, Region, agreement, surroundings
from solar.near_duplicates.report import COPIES, WHOLE, Mapping3x3, Relation
from solar.ranking.verify import Verifier, VerifySettings

SETTINGS = VerifySettings(keypoints=500, size=512)
"""Copies need fewer keypoints than buildings do."""

MOMENT = 10.0
"""Maximum seconds between photos of a burst."""

_SIDE = 384  # of pictures that are compared
_KEPT = 128  # pictures in memory: some tens of MB
_COPY_ERROR, _PLACE_ERROR = 2.0, 4.0  # pixels
_COPY_POINTS = 8  # of two axes, which chance fits less often than a homography
_WRONG = 1e-6  # of pairs of different places: a collection has many pairs
_STILL = 0.25  # how far a corner moves at most between them, as a share of the side
_OVERLAP = 0.6


class ComparedPhoto:
    """A photo that is being compared; everything is read once, when first needed.

    A SolarError from any attribute if the photo cannot be read.
    """

    def __init__(self, source: Source, features: Callable[[], LocalFeatures]) -> None:
        self.source = source
        self._features = features

    @cached_property
    def _decoded(self) -> tuple[Image.Image, tuple[int, int]]:
        image = load(self.source, _SIDE, mode="fast")
        return Image.fromarray(image.pixels), (image.width, image.height)

    @property
    def picture(self) -> Image.Image:
        """The photo, shrunk."""
        return self._decoded[0]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the whole photo."""
        return self._decoded[1]

    @cached_property
    def taken(self) -> datetime | None:
        """When it was taken, if it says so."""
        time = exif_facts(self.source).taken
        return None if time is None else datetime.fromisoformat(time)

    @cached_property
    def corners(self) -> Corners:
        """ORB corners."""
        return corners(self.picture)

    @cached_property
    def features(self) -> LocalFeatures:
        """Keypoints with their descriptors."""
        return self._features()


class PhotoComparer:
    """Compares photos of a collection; the latest stay in memory."""

    def __init__(self, verifier: Verifier, *, places: bool = True) -> None:
        self._verifier, self.places = verifier, places
        self.photo = lru_cache(_KEPT)(self._photo)
        """A photo of the collection by name; a SolarError if it is not there."""

    def _photo(self, name: str) -> ComparedPhoto:
        source = self._verifier.photo(name)
        if source is None:
            raise SolarError(f"There is no photo {name}.")
        return ComparedPhoto(source, lambda: self._verifier.features(name))

    def given(self, source: Source) -> ComparedPhoto:
        """A photo outside the collection."""
        return ComparedPhoto(source, lambda: self._verifier.query(source))

    def relation(
        self,
        a: ComparedPhoto,
        b: ComparedPhoto,
        way: int,
        *,
        part: bool = True,
        place: bool = False,
    ) -> Relation | None:
        """How b is related to a; None if it is not, or is a link to the same file.

        `way` says how to lay b on a if they may be one picture, otherwise it is -1; `part` whether
        one may be part of the other; `place` whether they may show one place: corners are matched
        first then.
        """
        if _one_file(a.source, b.source):
            return None
        if way >= 0 and (whole := _laid_over(a, b, way)) is not None:
            return whole
        if not part and not (place and votes(a.corners, b.corners) >= VOTES):
            return None
        return _edited(a, b) or (_same_place(a, b) if self.places else None)


def _laid_over(a: ComparedPhoto, b: ComparedPhoto, way: int) -> Relation | None:
    picture = laid_photo(b.picture, way)
    whole = [Region(0, 0, *map(float, one.size)) for one in (a.picture, picture)]
    found = agreement(a.picture, picture, *whole)
    lies = fit(a.picture, picture, *whole)
    if not found.same or not lies.laid_over:
        return None
    mapping = _stored(np.linalg.inv(way_matrix(way)).astype(np.float64))
    first, second = (FileTraces.of(one.source) for one in (a, b))
    exact = way == 0 and a.size == b.size and found.difference < 0.01 and _equal(first, second)
    better, because = whole_verdict(first, second, way, exact=exact)
    links = [isinstance(one.source, Path) and one.source.is_symlink() for one in (a, b)]
    if exact and links[0] != links[1]:
        better, because = "b" if links[0] else "a", "the other is a link"
    kind = "exact" if exact else "copy"
    relation = Relation(0, 1, kind, mapping=mapping, difference=found.difference)
    relation = replace(relation, better=better, because=because)
    return _told(a, b, relation, way, found, covered=lies.changed)


def _equal(a: FileTraces, b: FileTraces) -> bool:
    """Whether two files show exactly the same: colours, alpha, and every frame."""
    if _is_sequence(a.source) or _is_sequence(b.source):
        data = _file_bytes(a.source)
        return data is not None and data == _file_bytes(b.source)
    x, y = (np.asarray(one.upright) for one in (a, b))
    return np.array_equal(x, y) and np.array_equal(_alpha(a.source), _alpha(b.source))


def _is_sequence(source: Source) -> bool:
    """Whether a file has several frames, of which only one is compared."""
    with opened(source) as image:
        # The further images of an MPO are previews, or what the second lens saw.
        return image.format != "MPO" and getattr(image, "n_frames", 1) > 1


def _file_bytes(source: Source) -> bytes | None:
    if not isinstance(source, str | os.PathLike):
        return source if isinstance(source, bytes) else None
    with reading(Path(source)):
        return Path(source).read_bytes()


def _alpha(source: Source) -> Pixels:
    """Opacity of the upright photo; empty if all pixels are opaque."""
    with opened(source) as image:
        if not image.has_transparency_data:
            return np.empty((0, 0), np.uint8)
        orientation = orientation_of(image)
        alpha = np.asarray(turned(image.convert("RGBA").getchannel("A"), orientation))
        return alpha if alpha.min() < 255 else alpha[:0, :0]


def _edited(a: ComparedPhoto, b: ComparedPhoto) -> Relation | None:
    for mirrored in (False, True):
        x, y = _matched(a.features, b.features, mirrored)
        found = fit_axes(x, y, _COPY_ERROR, mirrored=mirrored)
        if found is None or (points := int(found[1].sum())) < _COPY_POINTS:
            continue
        mapping = _relative(found[0], a.features, b.features)
        if (relation := _cut_out(a, b, mapping, points)) is not None:
            return relation
    return None


def _cut_out(a: ComparedPhoto, b: ComparedPhoto, mapping: Doubles, points: int) -> Relation | None:
    way, upright = _way_of(mapping)
    picture = laid_photo(b.picture, way)
    overlap = _overlap(upright)
    if overlap is None:
        return None
    sides = zip(overlap, (a.picture, picture), strict=True)
    in_a, in_b = (
        Region(*(edge * one.size[n % 2] for n, edge in enumerate(part))) for part, one in sides
    )
    lies = fit(a.picture, picture, in_a, in_b)
    if not lies.cut_out:
        return None
    in_b = lies.region
    found = agreement(a.picture, picture, in_a, in_b, strict=True)
    if not found.same:
        return None
    first, second = (round((right - left) * (low - top), 4) for left, top, right, low in overlap)
    covers = (first, second)
    frames = zip(covers, (a.picture, picture), (in_a, in_b), strict=True)
    around = [share < WHOLE and surroundings(one, part) for share, one, part in frames]
    framed = [one == "frame" for one in around]
    whole = [share >= WHOLE for share in covers]
    kind = "copy" if all(one or two for one, two in zip(whole, framed, strict=True)) else "crop"
    relation = Relation(0, 1, kind, "", None, _stored(mapping), covers, found.difference, points)
    better, because = "", ""
    if "plain" not in around:
        better, because = _larger(a, b, relation, way, overlap)
    relation = replace(relation, better=better, because=because)
    return _told(a, b, relation, way, found, framed=any(framed))


def _larger(
    a: ComparedPhoto,
    b: ComparedPhoto,
    relation: Relation,
    way: int,
    overlap: tuple[tuple[float, ...], tuple[float, ...]],
) -> Verdict:
    """Which one to keep of a photo and its part or its frame; none if the other shows finer."""
    first, second = relation.covers
    if relation.kind == "copy":
        better, why = "a" if first > second else "b", "without a frame"
    elif relation.within[0] != relation.within[1]:
        better, why = "b" if relation.within[0] else "a", "the whole photo"
    else:
        return "", ""
    sizes = a.size, b.size[::-1] if way % 2 else b.size
    in_a, in_b = (
        Region(*(edge * size[n % 2] for n, edge in enumerate(part)))
        for part, size in zip(overlap, sizes, strict=True)
    )
    first_file, second_file = (FileTraces.of(one.source) for one in (a, b))
    finer, _ = detail_verdict(first_file, second_file, way, in_a, in_b)
    return (better, why) if finer in ("", better) else ("", "")


def _one_file(a: Source, b: Source) -> bool:
    """Whether two names are of one file: without it, the other would name nothing."""
    if not (isinstance(a, str | Path) and isinstance(b, str | Path)):
        return False
    try:
        return Path(a).samefile(b)
    except OSError:
        return False


def _same_place(a: ComparedPhoto, b: ComparedPhoto) -> Relation | None:
    x, y = _matched(a.features, b.features, False)
    matrix, inliers = estimate(x, y, "homography", _PLACE_ERROR, iterations=1000)
    count = int(inliers.sum())
    if matrix is None or count < scene_threshold(a.features, "homography", _WRONG):
        return None
    mapping = _relative(matrix, a.features, b.features)
    back = np.linalg.pinv(mapping).astype(np.float64)
    covers = (_seen(mapping), _seen(back))
    apart = _seconds(a, b)
    still = _corners_move(mapping) < _STILL and min(covers) > _OVERLAP
    moment = still if apart is None else apart <= MOMENT
    kind = "burst" if moment else "place"
    relation = Relation(0, 1, kind, mapping=_stored(mapping), covers=covers, inliers=count)
    return _told(a, b, relation, 0, None)


def _told(
    a: ComparedPhoto,
    b: ComparedPhoto,
    relation: Relation,
    way: int,
    found: Agreement | None,
    *,
    framed: bool = False,
    covered: bool = False,
) -> Relation:
    apart = _seconds(a, b)
    if relation.kind in COPIES[1:] and apart:  # copies keep the time at which they were taken
        relation = replace(relation, kind="burst" if apart <= MOMENT else "place")
    done = [WORDS[way]] if WORDS[way] else []
    if relation.kind == "exact":
        done.append("the same pixels")
    elif relation.kind == "crop":
        done.append(f"cut to {100 * min(relation.covers):.0f} %")
    elif relation.kind == "copy":
        sizes = (a.size, b.size[::-1] if way % 2 else b.size)
        done += ["resized"] if sizes[0] != sizes[1] and not framed else []
        done += ["with a frame"] if framed else []
    if found is not None and relation.kind in COPIES[1:]:
        done += ["recoloured"] if found.recoloured else []
        done += ["something lies over it"] if covered else []
        done = done or ["re-encoded"]
    if relation.kind in ("burst", "place"):
        near = "a near-identical view" if apart is None else "the same moment"
        done = [near if relation.kind == "burst" else "the same place"]
        done += [] if apart is None else [f"taken {_span(apart)} apart"]
    how = ", ".join(done)
    why = "; ".join([how, *_reasons(relation)])
    difference = None if relation.difference is None else round(relation.difference, 4)
    return replace(relation, how=how, difference=difference, why=why)


def _span(seconds: float) -> str:
    """A time in the largest unit that it has two of."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s"


def _reasons(relation: Relation) -> list[str]:
    reasons = [] if relation.inliers is None else [f"{relation.inliers} points agree"]
    if min(relation.covers) >= WHOLE:
        reasons.append("the whole of both photos")
    else:
        first, second = (f"{100 * share:.0f} %" for share in relation.covers)
        reasons.append(f"{first} of one photo and {second} of the other")
    if relation.difference is not None and relation.kind != "exact":
        reasons.append(f"pixels differ by {100 * relation.difference:.1f} %")
    return reasons


def _matched(a: LocalFeatures, b: LocalFeatures, mirrored: bool) -> tuple[Floats, Floats]:
    rows = mirrored_histograms(a.descriptors) if mirrored else a.descriptors
    first, second = mutual_matches(rows, b.descriptors).T
    return a.points[first] / np.float32(a.scale), b.points[second] / np.float32(b.scale)


def mirrored_histograms(rows: Floats) -> Floats:
    """What SIFT would compute (n, 128) for the mirrored photo.

    A histogram has 4×4 cells, across and along the keypoint's angle, of 8 directions. In a mirror
    the cells beside the angle change sides, and directions turn the other way.
    """
    cells = rows.reshape(-1, 4, 4, 8)[:, ::-1]
    return np.ascontiguousarray(cells[..., -np.arange(8) % 8]).reshape(rows.shape)


def _seconds(a: ComparedPhoto, b: ComparedPhoto) -> float | None:
    if a.taken is None or b.taken is None:
        return None
    return abs((a.taken - b.taken).total_seconds())


def _relative(matrix: Doubles, a: LocalFeatures, b: LocalFeatures) -> Doubles:
    """A mapping in relative coordinates, from one in shrunk pixels."""
    mapping = np.linalg.inv(_from_unit_square(b)) @ matrix @ _from_unit_square(a)
    return mapping / mapping[2, 2] if abs(mapping[2, 2]) > 1e-12 else mapping


def _from_unit_square(features: LocalFeatures) -> Doubles:
    """From relative coordinates to shrunk pixels, whose centres are whole numbers."""
    (height, width), scale = features.shape, features.scale
    return np.array(
        [[width / scale, 0, -0.5 / scale], [0, height / scale, -0.5 / scale], [0, 0, 1]]
    )


def _way_of(mapping: Doubles) -> tuple[int, Doubles]:
    """How to lay b on a, and the mapping from a to b once it lies so."""
    for way in range(WAYS):
        upright = way_matrix(way) @ mapping
        if upright[0, 0] > 0 and upright[1, 1] > 0 and abs(upright[0, 1]) < 1e-9:
            return way, upright
    raise AssertionError("a mapping along the axes is one of eight")


def _overlap(upright: Doubles) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """What both photos show: left, top, right, bottom in a and in b; None for too little."""
    scale, shift = np.diag(upright)[:2], upright[:2, 2]
    low, high = np.maximum(0, -shift / scale), np.minimum(1, (1 - shift) / scale)
    if (high - low < 0.05).any():
        return None
    there = np.concatenate([low * scale + shift, high * scale + shift])
    return (*low.tolist(), *high.tolist()), tuple(np.clip(there, 0, 1).tolist())


def _seen(mapping: Doubles) -> float:
    """The share of a photo that a homography takes into the other."""
    steps = (np.arange(16) + 0.5) / 16
    x, y = np.meshgrid(steps, steps)
    points = np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    u, v, w = mapping @ points
    inside = (w > 1e-9) & (u >= 0) & (u <= w) & (v >= 0) & (v <= w)
    return round(float(inside.mean()), 4)


def _corners_move(mapping: Doubles) -> float:
    corners = np.array([[0, 1, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1]], np.float64)
    u, v, w = mapping @ corners
    if (w <= 1e-9).any():
        return np.inf
    return float(np.hypot(u / w - corners[0], v / w - corners[1]).max())


def _stored(mapping: Doubles) -> Mapping3x3:
    return tuple(map(tuple, np.round(mapping, 6).tolist()))
