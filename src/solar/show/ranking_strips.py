"""Ranking strips: a query with its box, and what each model lists, right or wrong."""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from solar.evaluation.paper.rankings import Listed, Picture, RankedPhoto, Ranking
from solar.images import Box, load
from solar.show.colours import INK, PAPER, SOFT, short, wide, write

# Bluish green and vermilion stay apart for every kind of colour vision; the marks do without any.
RIGHT, WRONG = (0, 148, 108), (208, 68, 0)
_BOX = (255, 213, 0)
_EMPTY = (226, 226, 230)


class _Sizes:
    """Lengths in pixels, all from the width of a photo's cell."""

    def __init__(self, cell: int) -> None:
        self.cell, self.high, self.query = cell, cell * 3 // 4, 2 * cell
        self.border = max(2, cell // 34)
        self.gap = max(4, cell // 16)
        self.text = max(10, cell // 11)
        self.line = self.text * 3 // 2


def draw_rankings(found: Sequence[Ranking], *, cell: int = 220) -> Image.Image:
    """Draw queries, each beside the results of the models, which are `cell` pixels wide."""
    sizes = _Sizes(cell)
    blocks = [_block(one, sizes) for one in found]
    margin, apart = 2 * sizes.gap, 3 * sizes.gap
    width = max(block.width for block in blocks) + 2 * margin
    legend = _legend(found[0].protocol, sizes)
    height = sum(block.height + apart for block in blocks) + legend.height + 2 * margin
    picture = Image.new("RGB", (max(width, legend.width + 2 * margin), height), PAPER)
    top = margin
    for number, block in enumerate(blocks):
        if number:
            y = top - apart // 2
            line = (margin, y, picture.width - margin, y)
            ImageDraw.Draw(picture).line(line, _EMPTY, max(1, sizes.border // 3))
        picture.paste(block, (margin, top))
        top += block.height + apart
    picture.paste(legend, (margin, top))
    return picture


def _block(one: Ranking, sizes: _Sizes) -> Image.Image:
    longest = max(len(listed.hits) for listed in one.lists)
    left = sizes.query + 2 * sizes.gap
    step = sizes.line + sizes.high + sizes.gap
    height = max(len(one.lists) * step - sizes.gap, sizes.line + sizes.query * 3 // 4)
    width = left + longest * (sizes.cell + sizes.gap) - sizes.gap
    block = Image.new("RGB", (width, height), PAPER)
    room = height - sizes.line
    photo = _query(one.picture, one.box, (sizes.query, min(room, sizes.query)), sizes)
    write(block, (0, 0), short(one.query, sizes.query, sizes.text), sizes.text)
    block.paste(photo, (0, sizes.line))
    for number, listed in enumerate(one.lists):
        _list(block, listed, (left, number * step), sizes)
    return block


def _list(block: Image.Image, listed: Listed, at: tuple[int, int], sizes: _Sizes) -> None:
    x, y = at
    room = block.width - x
    score = f"AP {100 * listed.average_precision:.1f}"
    beside = wide(score, sizes.text) + 2 * sizes.gap
    name = short(listed.model, room - beside, sizes.text)
    write(block, at, name, sizes.text)
    write(block, (x + wide(name, sizes.text) + sizes.gap, y), score, sizes.text, SOFT)
    for place, hit in enumerate(listed.hits):
        photo = _hit(hit, sizes)
        corner = x + place * (sizes.cell + sizes.gap) + (sizes.cell - photo.width) // 2
        block.paste(photo, (corner, y + sizes.line + (sizes.high - photo.height) // 2))


def _hit(hit: RankedPhoto, sizes: _Sizes) -> Image.Image:
    border, colour = sizes.border, RIGHT if hit.right else WRONG
    inside = (sizes.cell - 2 * border, sizes.high - 2 * border)
    if hit.picture is None:
        photo = _placeholder(hit.name, inside, sizes)
    else:
        photo, _ = _fitted(hit.picture, inside)
    framed = Image.new("RGB", (photo.width + 2 * border, photo.height + 2 * border), colour)
    framed.paste(photo, (border, border))
    framed.paste(_mark(hit.right, sizes), (0, 0))
    return framed


def _mark(right: bool, sizes: _Sizes) -> Image.Image:
    """A white tick on green or a white cross on red, drawn large and reduced to smooth it."""
    side, fine = sizes.cell // 8, 4
    mark = Image.new("RGB", (side * fine, side * fine), RIGHT if right else WRONG)
    tick = [[(0.24, 0.54), (0.42, 0.72), (0.76, 0.3)]]
    cross = [[(0.28, 0.28), (0.72, 0.72)], [(0.72, 0.28), (0.28, 0.72)]]
    for stroke in tick if right else cross:
        points = [(x * mark.width, y * mark.width) for x, y in stroke]
        ImageDraw.Draw(mark).line(points, PAPER, mark.width // 7, "curve")
    return mark.resize((side, side), Image.Resampling.LANCZOS)


def _query(picture: Picture, box: Box | None, room: tuple[int, int], sizes: _Sizes) -> Image.Image:
    if picture is None:
        return _placeholder("query", room, sizes)
    photo, scale = _fitted(picture, room)
    if box is None:
        return photo
    pen, wide = ImageDraw.Draw(photo), sizes.border
    edges = [round(edge * scale) for edge in box]
    x1, y1 = max(edges[0], 0), max(edges[1], 0)
    x2, y2 = min(edges[2], photo.width) - 1, min(edges[3], photo.height) - 1
    # A dark line around the yellow one keeps it visible on a bright sky.
    pen.rectangle((x1, y1, max(x2, x1), max(y2, y1)), outline=INK, width=wide + 2)
    if x2 - x1 > 2 and y2 - y1 > 2:
        pen.rectangle((x1 + 1, y1 + 1, x2 - 1, y2 - 1), outline=_BOX, width=wide)
    return photo


def _fitted(picture: Path | bytes, room: tuple[int, int]) -> tuple[Image.Image, float]:
    loaded = load(picture, max(room) * 2)
    scale = min(room[0] / loaded.width, room[1] / loaded.height)
    size = max(1, round(loaded.width * scale)), max(1, round(loaded.height * scale))
    return Image.fromarray(loaded.pixels).resize(size, Image.Resampling.LANCZOS), scale


def _placeholder(name: str, room: tuple[int, int], sizes: _Sizes) -> Image.Image:
    empty = Image.new("RGB", room, _EMPTY)
    text = short(name, room[0] - 2 * sizes.gap, sizes.text)
    at = ((room[0] - wide(text, sizes.text)) // 2, (room[1] - sizes.text) // 2)
    write(empty, at, text, sizes.text, SOFT)
    return empty


def _legend(protocol: str, sizes: _Sizes) -> Image.Image:
    level = "" if protocol == "all" else f"{protocol.capitalize()} protocol. "
    side = sizes.cell // 8
    legend = Image.new("RGB", (sizes.cell * 6, max(side, sizes.line)), PAPER)
    x, y = 0, (legend.height - sizes.text) // 2 - sizes.text // 8
    for mark, text in ((True, "right"), (False, "wrong")):
        legend.paste(_mark(mark, sizes), (x, (legend.height - side) // 2))
        x += side + sizes.gap // 2
        write(legend, (x, y), text, sizes.text, SOFT)
        x += wide(text, sizes.text) + 2 * sizes.gap
    text = f"{level}Best first; junk is left out."
    write(legend, (x, y), text, sizes.text, SOFT)
    return legend.crop((0, 0, x + wide(text, sizes.text), legend.height))
