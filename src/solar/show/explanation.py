"""Why two photos are similar: heat maps and pairs of regions.

An embedding is a sum over the regions of its photo (`models.contributions`), and the similarity of
two is their inner product. So it is a sum over pairs of regions, exactly. The table of all pairs is
never held: a heat map is its sums along one side, and any row of it is one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from solar.arrays import Floats
from solar.errors import SolarError
from solar.images import Box, Source, load, read_image
from solar.show.attention_source import Location, check_locations
from solar.show.colours import AGAINST, FOR, INK, PAPER, SOFT, short, signed, wide, write
from solar.show.matches import draw_lines, pale, stack_rows
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.models import RetrievalNet
    from solar.models.contributions import LocatedDescriptor

Side = Literal["a", "b"]

PAIRS = 10
"""How many of the strongest pairs of regions pictures show."""

NOTHING = "no regions in common"
"""What is said where there are no such pairs."""

_SHOWN = 1024  # pixels of the longer side of a photo in a picture
_ALIKE = 0.5  # minimum cosine of a pair: a large product may also come from two long vectors
_FAINT = 0.1  # minimum of what a pair adds, relative to the strongest
# And relative to an average pair of a photo and itself: two empty skies reach 10.
_CLEAR = 15.0
_BRIGHT = 0.99  # colours are full from this quantile on: a few pixels add far more than all others
_BLOCK = 1 << 22  # pairs of regions compared together: 16 MB


class RegionPair(NamedTuple):
    """A region of each photo, by its middle in pixels, and what the two add to the similarity."""

    a: Location
    b: Location
    value: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """The similarity of two photos, A and B, as a sum over their regions.

    A notebook shows it as a picture.
    """

    a: LocatedDescriptor  # what the regions of A add to its embedding
    b: LocatedDescriptor
    photos: tuple[Image.Image, Image.Image] | None = None  # upright and reduced, for pictures
    plain: Explanation | None = None  # without second-order attention, if requested

    @property
    def score(self) -> float:
        """The similarity: the sum of either heat map."""
        return float(self.a.descriptor @ self.b.descriptor)

    @property
    def shift(self) -> float:
        """The part of the similarity due to the whitening's shift, spread over both heat maps."""
        without_a, without_b = (one.descriptor - one.shift for one in (self.a, self.b))
        return self.score - float(without_a @ without_b)

    @property
    def heat_a(self) -> Floats:
        """(h, w) what each region of A adds to the similarity; may be negative."""
        return self.a.vectors @ self.b.descriptor

    @property
    def heat_b(self) -> Floats:
        """(h, w) the same for the regions of B."""
        return self.b.vectors @ self.a.descriptor

    def answers(self, at: Location, side: Side = "a") -> Floats:
        """(h, w) what each region of the other photo adds with the one at a location of this."""
        own, other = (self.a, self.b) if side == "a" else (self.b, self.a)
        check_locations([at], own.size)
        heat: Floats = other.vectors @ own.vectors[region_at(own, at)]
        return heat

    def pairs(self, count: int = PAIRS) -> list[RegionPair]:
        """Mutually best pairs of regions, strongest first.

        Only those with a cosine of at least 0.5 that add at least a tenth of what the first does,
        and 15 times what a pair adds on average where both photos are the same one.
        """
        dim = self.a.vectors.shape[-1]
        first, second = (one.vectors.reshape(-1, dim) for one in (self.a, self.b))
        best_a, best_b, value_a = best_pairs(first, second)
        own = np.arange(len(first))
        lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)[best_a]
        clear = min(_CLEAR, min(len(first), len(second)) / 4)  # of few regions none could reach it
        least = max(_FAINT * float(value_a.max()), clear / (len(first) * len(second)))
        enough = np.maximum(_ALIKE * lengths, least)
        mutual = own[(best_b[best_a] == own) & (value_a > enough)]
        strongest = mutual[np.argsort(-value_a[mutual], kind="stable")][:count]
        middles_a, middles_b = (middles(one) for one in (self.a, self.b))
        return [
            RegionPair(middles_a[i], middles_b[int(best_a[i])], float(value_a[i]))
            for i in strongest.tolist()
        ]

    def to_dict(self) -> dict[str, Any]:
        """What `solar why --json` prints."""
        heats = {"a": self.heat_a.tolist(), "b": self.heat_b.tolist()}
        facts = {"score": self.score, "sum": float(self.heat_a.sum(dtype=np.float64)), **heats}
        facts |= {"shift": self.shift, "pairs": [pair._asdict() for pair in self.pairs()]}
        return facts | ({"score_without_attention": self.plain.score} if self.plain else {})

    def figure(self, *, height: int = 480, opacity: float = 0.75) -> Image.Image:
        """Draw both photos `height` pixels high, their heat maps and strongest pairs.

        Evidence for the match is orange, evidence against it blue. An explanation without
        second-order attention, if there is one, is drawn below.
        """
        text = max(14, height // 30)
        rows = [_row(self, "similarity", height, opacity, text)]
        if self.plain is not None:
            rows.append(_row(self.plain, "without second-order attention", height, opacity, text))
        return stack_rows(rows, text)

    def _repr_png_(self) -> bytes | None:
        return self.figure()._repr_png_()


def explain(
    a: Source,
    b: Source,
    *,
    model: RetrievalNet | str | Path | None = None,
    size: int | None = None,
    scales: Sequence[float] | None = None,
    box: Box | None = None,
    compare_attention: bool = False,
    device: str | None = None,
) -> Explanation:
    """Find the regions that make two photos similar.

    Example:
        >>> why = explain("a.jpg", "b.jpg")  # doctest: +SKIP
        >>> why.score, why.heat_a.sum()  # doctest: +SKIP
        (0.8234, 0.8234)
        >>> why.figure().save("why.png")  # doctest: +SKIP

    Args:
        a: A photo: whatever `RetrievalNet.describe` takes.
        b: The other one.
        model: A network that pools by GeM, SPoC or MAC, its name or file.
        size: Longest side that photos are reduced to. Default: the model's.
        scales: Default: the model's.
        box: x1, y1, x2, y2: the part of A to use.
        compare_attention: Also explain what the similarity would be without the attention blocks.
        device: Where to compute, for a model given by its name.

    Raises:
        SolarError: A photo cannot be read, the box is outside of it, or the network describes
            patches, pools in another way, or has no attention to compare.
    """
    from solar.models.checkpoint import retrieval_model
    from solar.models.contributions import check_splits, locate

    net = retrieval_model(model or DEFAULT, device=device)
    check_splits(net)
    if compare_attention and not net.config.attention:
        raise SolarError("This network has no attention: leave out `compare_attention=True`.")
    first, second = read_image(a), read_image(b)
    small_a, small_b = (Image.fromarray(load(photo, _SHOWN).pixels) for photo in (first, second))

    def parts(*, attention: bool) -> Explanation:
        how: dict[str, Any] = {"size": size, "scales": scales, "attention": attention}
        located = locate(net, first, box=box, **how), locate(net, second, **how)
        return Explanation(*located, (small_a, small_b))

    plain = parts(attention=False) if compare_attention else None
    return replace(parts(attention=True), plain=plain)


def _row(why: Explanation, title: str, height: int, opacity: float, text: int) -> Image.Image:
    if why.photos is None:
        raise SolarError("This explanation has no photos to draw: use solar.explain.")
    heats = [why.heat_a, why.heat_b]
    sides = [
        density(one, heat, (max(1, round(height * photo.width / photo.height)), height))
        for one, heat, photo in zip((why.a, why.b), heats, why.photos, strict=True)
    ]
    most = float(np.quantile(np.abs(np.concatenate([side.ravel() for side in sides])), _BRIGHT))
    drawn = []
    for side, photo in zip(sides, why.photos, strict=True):
        under = pale(photo.resize(side.shape[::-1], Image.Resampling.LANCZOS))
        over = signed(side, most)
        over[..., 3] = (over[..., 3] * opacity).round()
        under.paste(Image.fromarray(over[..., :3]), mask=Image.fromarray(over[..., 3]))
        drawn.append(under)
    gap, top = text // 2, 2 * text
    row = Image.new("RGB", (drawn[0].width + gap + drawn[1].width, top + height), PAPER)
    row.paste(drawn[0], (0, top))
    row.paste(drawn[1], (drawn[0].width + gap, top))
    pairs = why.pairs()
    _caption(row, f"{title} {why.score:.3f}" + ("" if pairs else f", {NOTHING}"), text)
    if not pairs:
        return row
    scales = [height / one.size[1] for one in (why.a, why.b)]
    starts = np.array([pair.a for pair in pairs]) * scales[0] + (0, top)
    ends = np.array([pair.b for pair in pairs]) * scales[1] + (drawn[0].width + gap, top)
    return draw_lines(row, starts, ends, max(2, height // 120))


def _caption(row: Image.Image, score: str, text: int) -> None:
    write(row, (0, text // 4), score, text, INK)
    x = wide(score, text) + 2 * text
    for colour, meaning in ((FOR, "speaks for it"), (AGAINST, "speaks against it")):
        if x + wide(meaning, text) + 2 * text > row.width:
            return
        row.paste(colour, (x, text // 2, x + text, text // 2 + text * 3 // 4))
        write(row, (x + text * 3 // 2, text // 4), short(meaning, row.width, text), text, SOFT)
        x += wide(meaning, text) + 3 * text


def region_at(one: LocatedDescriptor, at: Location) -> tuple[int, int]:
    """Row and column of the region that a pixel is in, or of the nearest one."""
    x, y = at
    row = int(np.searchsorted(one.rows, y, side="right")) - 1
    column = int(np.searchsorted(one.columns, x, side="right")) - 1
    h, w = one.vectors.shape[:2]
    return min(max(row, 0), h - 1), min(max(column, 0), w - 1)


def middles(one: LocatedDescriptor) -> list[Location]:
    """The middles of all regions, row by row."""
    ys, xs = ((edges[1:] + edges[:-1]) / 2 for edges in (one.rows, one.columns))
    return [(float(x), float(y)) for y in ys for x in xs]


def density(one: LocatedDescriptor, heat: Floats, size: tuple[int, int]) -> Floats:
    """What each pixel of (width, height) adds, interpolated between regions; 0 outside the box."""
    area = np.diff(one.rows)[:, None] * np.diff(one.columns)
    per_pixel = (heat / area).astype(np.float32)
    (width, height), (whole_width, whole_height) = size, one.size
    ys = (np.arange(height) + 0.5) * (whole_height / height)
    xs = (np.arange(width) + 0.5) * (whole_width / width)
    down, across = _between(one.rows, ys), _between(one.columns, xs)
    return (down @ per_pixel @ across.T).astype(np.float32)


def _between(edges: NDArray[np.float64], places: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Weights (places, regions) that interpolate between the middles of regions."""
    middles = (edges[1:] + edges[:-1]) / 2
    weights = np.stack([np.interp(places, middles, row) for row in np.eye(len(middles))], axis=1)
    inside = (places >= edges[0]) & (places <= edges[-1])
    between: NDArray[np.float64] = weights * inside[:, None]
    return between


def best_pairs(a: Floats, b: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """The best row of b for each row of a, of a for each of b, and the products of the former."""
    best_a, value_a = np.zeros(len(a), np.int64), np.zeros(len(a), np.float32)
    best_b, value_b = np.zeros(len(b), np.int64), np.full(len(b), -np.inf, np.float32)
    step = max(1, _BLOCK // len(b))
    for start in range(0, len(a), step):
        products = a[start : start + step] @ b.T
        here = slice(start, start + len(products))
        best_a[here], value_a[here] = products.argmax(axis=1), products.max(axis=1)
        higher = products.max(axis=0) > value_b
        best_b[higher] = start + products.argmax(axis=0)[higher]
        value_b = np.maximum(value_b, products.max(axis=0))
    return best_a, best_b, value_a
