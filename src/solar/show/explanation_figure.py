"""Why two photos are similar, as a picture: heat maps over both, lines between what agrees."""

from __future__ import annotations

import numpy as np
from PIL import Image

from solar.errors import SolarError
from solar.show.colours import AGAINST, FOR, signed
from solar.show.explanation import Explanation, density
from solar.show.lettering import INK, PAPER, SOFT, short, wide, write
from solar.show.matches import draw_lines, pale

# A few pixels add far more than all others; from this quantile on they look alike.
_BRIGHT = 0.99


def draw_explanation(why: Explanation, *, height: int = 480, opacity: float = 0.75) -> Image.Image:
    """Draw both photos of an explanation `height` pixels high, their heat maps and strongest pairs.

    What speaks for the match is orange, what speaks against it blue. Where the explanation knows
    what the similarity would be without second-order attention, that is drawn below.
    """
    text = max(14, height // 30)
    rows = [_row(why, "similarity", height, opacity, text)]
    if why.plain is not None:
        rows.append(_row(why.plain, "without second-order attention", height, opacity, text))
    step = rows[0].height + text
    picture = Image.new("RGB", (rows[0].width + 2 * text, len(rows) * step + text), PAPER)
    for number, row in enumerate(rows):
        picture.paste(row, (text, text + number * step))
    return picture


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
    _caption(row, f"{title} {why.score:.3f}", text)
    pairs = why.pairs()
    if not pairs:
        return row
    scales = [height / one.size[1] for one in (why.a, why.b)]
    starts = np.array([pair.a for pair in pairs]) * scales[0] + (0, top)
    ends = np.array([pair.b for pair in pairs]) * scales[1] + (drawn[0].width + gap, top)
    return draw_lines(row, starts, ends, max(2, height // 120))


def _caption(row: Image.Image, score: str, text: int) -> None:
    """The similarity, and what the colours mean, as far as there is room."""
    write(row, (0, text // 4), score, text, INK)
    x = wide(score, text) + 2 * text
    for colour, meaning in ((FOR, "speaks for it"), (AGAINST, "speaks against it")):
        if x + wide(meaning, text) + 2 * text > row.width:
            return
        row.paste(colour, (x, text // 2, x + text, text // 2 + text * 3 // 4))
        write(row, (x + text * 3 // 2, text // 4), short(meaning, row.width, text), text, SOFT)
        x += wide(meaning, text) + 3 * text
