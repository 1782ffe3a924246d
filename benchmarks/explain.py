"""Whether an explanation of a similarity is right: it adds up, it matters, it points at the place.

    python benchmarks/explain.py --data DIR --json benchmarks/results/explain.json

DIR (or SOLAR_DATA) holds buildings/val-0.tar and affine/. A matching pair is one of --pairs photos
of buildings, spread evenly, and the most similar photo of the same building.

- Sums: heat maps and the similarity of descriptors, for three scales and one, with a box and
  without, by the model and by a drawn ResNet-101 with attention.
- Deletion: the tenth of A's area that adds most is blurred, and A is described again. As much is
  blurred where A's last attention block looks most, and at random. A share counts the pairs whose
  similarity falls more than that.
- Pairs: the strongest pairs of regions of the first photo of a sequence and each other one, at 1024
  pixels, against the true homography.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib.machine import machine
from lib.options import parsed, photo_options
from lib.places import SIZE, labels_of
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from solar.images import find_photos, read_image
from solar.models import RetrievalConfig, RetrievalNet, retrieval_model
from solar.models.contributions import LocatedDescriptor, locate
from solar.show.attention_source import AttentionSource
from solar.show.explanation import Explanation

Floats = NDArray[np.floating[Any]]
AREA = 0.1  # of a photo that is blurred
BLUR = 1 / 25  # of its longer side
NEAR = 32  # pixels from where the homography says


def main() -> None:
    """Measure all three, print them, and write them as JSON."""
    parser = photo_options(__doc__)
    parser.add_argument("--model", default="solar-r18")
    parser.add_argument("--pairs", type=int, default=200)
    options = parsed(parser)
    torch.backends.cudnn.allow_tf32 = False  # float32 as it is said, also on a GPU
    net = retrieval_model(options.model)
    pairs = matching_pairs(net, options.data / "buildings/val-0.tar", options.pairs)
    drawn = RetrievalNet(RetrievalConfig("resnet101", attention={4: 4, 5: 2})).to(net.device)
    found = {
        "machine": machine(),
        "model": options.model,
        "pairs": len(pairs),
        "largest error of a sum": {
            options.model: sums(net, pairs),
            "drawn resnet101": sums(drawn.eval(), pairs),
        },
        "deletion": deletion(net, pairs),
        "affine": affine(net, options.data / "affine"),
    }
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def matching_pairs(
    net: RetrievalNet, shard: Path, count: int
) -> list[tuple[Image.Image, Image.Image]]:
    """Photos spread evenly over a set, each with the most similar one of the same place."""
    photos = find_photos([shard])
    labels = np.array(labels_of(photos))
    images = [read_image(photos.read(i)) for i in range(len(photos))]
    rows = net.describe(images, size=SIZE)
    print(f"described {len(images)} photos", flush=True)
    pairs: list[tuple[Image.Image, Image.Image]] = []
    for i in range(0, len(images), len(images) // count):
        similar = np.where(labels == labels[i], rows @ rows[i], -np.inf)
        similar[i] = -np.inf
        if np.isfinite(similar).any() and len(pairs) < count:
            pairs.append((images[i], images[int(similar.argmax())]))
    return pairs


def sums(net: RetrievalNet, pairs: list[tuple[Image.Image, Image.Image]]) -> dict[str, float]:
    """The largest difference of a heat map's sum from the similarity that `describe` gives."""
    largest: dict[str, float] = {}
    for a, b in pairs:
        box = tuple(
            side * edge for edge, side in zip((0.2, 0.1, 0.9, 0.8), 2 * a.size, strict=True)
        )
        settings: dict[str, tuple[Any, Any]] = {  # for A and for B
            "three scales": ({}, {}),
            "three scales, box": ({"box": box}, {}),
            "one scale": ({"scales": (1.0,)}, {"scales": (1.0,)}),
        }
        for name, (given, other) in settings.items():
            why = Explanation(
                locate(net, a, size=SIZE, **given), locate(net, b, size=SIZE, **other)
            )
            [first] = net.describe(a, size=SIZE, **given)
            [second] = net.describe(b, size=SIZE, **other)
            totals = [heat.sum(dtype=np.float64) for heat in (why.heat_a, why.heat_b)]
            error = max(abs(total - float(first @ second)) for total in totals)
            largest[name] = max(largest.get(name, 0.0), error)
    print("sums", largest, flush=True)
    return largest


def deletion(net: RetrievalNet, pairs: list[tuple[Image.Image, Image.Image]]) -> dict[str, Any]:
    """By how much the similarity falls when a tenth of A is blurred, chosen in three ways."""
    random = np.random.default_rng(0)
    falls = []
    for a, b in pairs:
        first, second = locate(net, a, size=SIZE), locate(net, b, size=SIZE)
        why = Explanation(first, second)
        area = np.diff(first.rows)[:, None] * np.diff(first.columns)
        maps = [why.heat_a / area, received(net, a, first), random.random(area.shape)]
        blurred = [blur(a, first, one) for one in maps]
        after = net.describe(blurred, size=SIZE) @ second.descriptor
        falls.append(why.score - after)
    by_sum, by_attention, by_chance = np.array(falls).T
    return {
        "mean fall": {
            "contribution": float(by_sum.mean()),
            "attention": float(by_attention.mean()),
            "chance": float(by_chance.mean()),
        },
        "falls more than by attention": float((by_sum > by_attention).mean()),
        "falls more than by chance": float((by_sum > by_chance).mean()),
    }


def received(net: RetrievalNet, photo: Image.Image, one: LocatedDescriptor) -> Floats:
    """How much attention each region gets from all others, in the last block."""
    source = AttentionSource.of(net, photo, size=min(photo.size), picture_scale=False)
    layer = source.layer()
    h, w = layer.shape
    total = layer.rows(range(h * w)).mean(axis=0)
    # A location looks at the pixels around its stride's multiple, not behind it.
    ys, xs = ((edges[1:] + edges[:-1]) / 2 for edges in (one.rows, one.columns))
    rows = np.minimum((ys / layer.cell[1] + 0.5).astype(int), h - 1)
    columns = np.minimum((xs / layer.cell[0] + 0.5).astype(int), w - 1)
    return np.asarray(total[rows][:, columns])


def blur(photo: Image.Image, one: LocatedDescriptor, heat: Floats) -> Image.Image:
    """A photo with a tenth of its area blurred: the regions with the highest numbers."""
    area = np.diff(one.rows)[:, None] * np.diff(one.columns)
    order = np.argsort(-heat, axis=None)
    within = np.cumsum(area.ravel()[order]) <= AREA * area.sum()
    chosen = np.zeros((photo.height, photo.width), np.uint8)
    rows, columns = np.round(one.rows).astype(int), np.round(one.columns).astype(int)
    for number in order[within].tolist():
        row, column = divmod(number, area.shape[1])
        chosen[rows[row] : rows[row + 1], columns[column] : columns[column + 1]] = 255
    radius = BLUR * max(photo.size)
    soft = photo.filter(ImageFilter.GaussianBlur(radius))
    return Image.composite(soft, photo, Image.fromarray(chosen))


def affine(net: RetrievalNet, folder: Path) -> dict[str, Any]:
    """The share of strongest pairs that lie within 32 pixels of the truth, by sequence."""
    shares: dict[str, float] = {}
    right = total = 0
    for sequence in sorted(path for path in folder.iterdir() if path.is_dir()):
        first = locate(net, sequence / "1.jpg", size=1024)
        near: list[bool] = []
        for number in range(2, 7):
            second = locate(net, sequence / f"{number}.jpg", size=1024)
            matrix = np.loadtxt(sequence / f"H_1_{number}")
            for pair in Explanation(first, second).pairs():
                x, y, z = matrix @ (*pair.a, 1)
                near.append(bool(np.hypot(x / z - pair.b[0], y / z - pair.b[1]) <= NEAR))
        shares[sequence.name] = float(np.mean(near))
        right, total = right + sum(near), total + len(near)
    return {"pairs": total, "near": right / total, "by sequence": shares}


if __name__ == "__main__":
    main()
