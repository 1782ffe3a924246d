r"""Fit the last layer of bundled networks to labelled places; measure them with several seeds.

    python benchmarks/box_layer.py "first edition=FIRST.safetensors" GeM=GEM.safetensors \
        --photos photos/*.tar DIR/landmarks/train-*.tar --data DIR --out OUT \
        --json benchmarks/results/box_layer.json

A layer, folded into the whitening, learns to tell places apart: photos of a landmark, and
neighbouring frames of a sequence, become alike, beside photos of anything else (all of them shards
of benchmarks/box_photos.py, and landmarks/train-*.tar). It starts where photos of one place differ
equally much in all directions, and is held near that start. The rest of the network stays.

Photos are described once: those to learn from as squares of 288 and 192 pixels, those to judge by
at most 384 pixels at the network's scales; every photo is a query. Networks run in OpenVINO, in
bfloat16 where the processor has it. Descriptors are kept in OUT; OUT/NAME-SEED.safetensors are the
networks.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from lib.machine import machine
from lib.options import command, parsed, photo_options
from lib.places import SIZE
from lib.seeds import every_set, summary
from lib.timed_lines import say
from torch import Tensor, nn

from solar.datasets.labelled.photo_labels import labelled_photos
from solar.datasets.seeds import generator
from solar.evaluation.result import Evaluation
from solar.images import Photos, find_photos, load
from solar.losses import info_nce
from solar.models import RetrievalNet, retrieval_model, save
from solar.nn import l2_normalize, within_whitening
from solar.training.augment import Augmentation
from solar.training.distill.image_cache import batches, cache_images
from solar.training.distill.task import views

SIDES = (288, 192)  # of squares to learn from
STORED = 320
STEPS, RATE, PULL, TEMPERATURE = 400, 1e-3, 0.03, 0.05
LANDMARKS, EACH = 24, 8  # in a step
STRETCHES, FRAMES = 16, 4
OTHERS = 128

Pooled = Callable[[Tensor], Tensor]


# Describing.


def pooled_by(net: RetrievalNet) -> Pooled:
    """What gives a network's pooled unit rows (b, channels) of normalised images (b, 3, h, w)."""
    import openvino

    example = torch.rand(2, 3, 224, 288)
    program: Any = openvino.convert_model(net.backbone.eval(), example_input=example)
    program.reshape([-1, 3, -1, -1])
    has_half = "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    hint = {"INFERENCE_PRECISION_HINT": "bf16" if has_half else "f32"}
    run = openvino.compile_model(program, "CPU", hint)

    def pooled(images: Tensor) -> Tensor:
        return l2_normalize(net.pool(torch.from_numpy(run(images.numpy())[0].copy()).float()))

    return pooled


def to_learn_from(
    sources: Sequence[Path], nets: dict[str, RetrievalNet]
) -> tuple[list[str], dict[str, Tensor]]:
    """Names of photos, and by network the mean of their unit descriptors as squares."""
    caches = cache_images(sources, STORED, cache="host")
    names = [name for one in caches for name in one.photos.names]
    say(f"{len(names)} photos read")
    runs = {key: pooled_by(net) for key, net in nets.items()}
    found: dict[str, list[Tensor]] = {key: [] for key in nets}
    numbers = torch.arange(len(names)).split(32)  # type: ignore[no-untyped-call]
    for step, parts in enumerate(batches(caches, numbers.__getitem__, 0, len(numbers))):
        large = views(parts, Augmentation(), SIDES[:1], generator(0, step))
        small = F.interpolate(large, (SIDES[1],) * 2, mode="bilinear", antialias=True)
        for key, net in nets.items():
            with torch.inference_mode():
                rows = [
                    l2_normalize(whitening_of(net)(runs[key]((images - net.mean) / net.std)))
                    for images in (large, small)
                ]
                found[key].append(l2_normalize(torch.stack(rows).sum(0)))
        if step % 100 == 0:
            say(f"{step * 32} described")
    return names, {key: torch.cat(rows) for key, rows in found.items()}


def to_judge_by(photos: Photos, net: RetrievalNet, pooled: Pooled) -> Tensor:
    """Pooled unit rows (photos, scales, channels); photos of one shape go together."""
    scales = net.config.scales
    with ThreadPoolExecutor() as pool:
        pixels = list(pool.map(lambda row: load(photos.read(row), SIZE).pixels, range(len(photos))))
    shapes: dict[tuple[int, ...], list[int]] = {}
    for row, one in enumerate(pixels):
        shapes.setdefault(one.shape, []).append(row)
    found = torch.zeros(len(photos), len(scales), net.pooled_dim)
    for rows in shapes.values():
        for start in range(0, len(rows), 16):
            part = rows[start : start + 16]
            seen: list[Tensor] = []

            def keep(images: Tensor, seen: list[Tensor] = seen) -> Tensor:
                seen.append(pooled(images))
                return seen[-1]

            with torch.inference_mode():
                images = net.normalise(torch.from_numpy(np.stack([pixels[row] for row in part])))
                net.multiscale(images, scales, forward=keep)
            found[part] = torch.stack(seen, 1)
    return found


def whitening_of(net: RetrievalNet) -> nn.Linear:
    """The last layer, which the network has."""
    assert net.whiten is not None
    return net.whiten


# Learning.


def trained(rows: Tensor, labels: Sequence[str], seed: int) -> Tensor:
    """A matrix (d, d) for unit rows (n, d); a photo without a label is "", and like no other."""
    chance = np.random.default_rng(seed)
    places = np.array(labels)
    known = np.flatnonzero(places != "")
    others = np.flatnonzero(places == "")
    _, numbers = np.unique(places[known], return_inverse=True)
    groups = [known[numbers == number] for number in range(numbers.max() + 1)]
    groups = [group for group in groups if len(group) > 1]
    landmarks = [group for group in groups if places[group[0]].startswith("train/")]
    stretches = [group for group in groups if not places[group[0]].startswith("train/")]
    shown = torch.arange(len(rows)) + len(rows)
    for group in groups:
        shown[group] = int(group[0])

    start = within_whitening(rows[known], torch.from_numpy(numbers)).float()
    matrix = start.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([matrix], RATE)
    for step in range(STEPS):
        optimiser.param_groups[0]["lr"] = RATE * (1 + np.cos(np.pi * step / STEPS)) / 2
        drawn = np.concatenate(
            [
                *_drawn(landmarks, LANDMARKS, EACH, chance),
                *_drawn(stretches, STRETCHES, FRAMES, chance),
                chance.choice(others, min(OTHERS, len(others)), replace=False),
            ]
        )
        alike = shown[drawn][:, None] == shown[drawn]
        loss = info_nce(F.normalize(rows[drawn] @ matrix.T), alike, temperature=TEMPERATURE)
        loss = loss + PULL * (matrix - start).square().sum()
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    return matrix.detach()


def _drawn(
    groups: Sequence[Any], count: int, each: int, chance: np.random.Generator
) -> list[np.ndarray[Any, Any]]:
    chosen = chance.choice(len(groups), min(count, len(groups)), replace=False)
    return [chance.choice(groups[n], min(each, len(groups[n])), replace=False) for n in chosen]


def folded(net: RetrievalNet, matrix: Tensor) -> nn.Linear:
    """The network's whitening, followed by a matrix."""
    whitening = whitening_of(net)
    layer = nn.Linear(whitening.in_features, len(matrix))
    with torch.no_grad():
        layer.weight.copy_(matrix @ whitening.weight)
        layer.bias.copy_(matrix @ whitening.bias)
    return layer.requires_grad_(False)


# Judging.


class Tests:
    """The photos to judge by: landmarks, buildings and distractors of a folder of data."""

    def __init__(self, data: Path) -> None:
        self.labelled = {
            name: labelled_photos(data / name / "val-0.tar") for name in ("landmarks", "buildings")
        }
        self.photos = {name: photos for name, (photos, _) in self.labelled.items()}
        self.photos["distractors"] = find_photos(data / "landmarks/distractors-0.tar")

    def pooled(self, net: RetrievalNet, file: Path) -> dict[str, Tensor]:
        """What a network pools of them at its scales, kept in a file."""

        def look() -> dict[str, Any]:
            run = pooled_by(net)
            return {key: to_judge_by(one, net, run).numpy() for key, one in self.photos.items()}

        return {key: torch.from_numpy(one) for key, one in kept(file, look).items()}

    def judged(self, layer: nn.Linear, pooled: dict[str, Tensor]) -> dict[str, Evaluation]:
        """The evaluation of every set, without and with distractors."""
        with torch.no_grad():
            rows = {
                key: F.normalize(F.normalize(layer(one), dim=-1).mean(1)).numpy()
                for key, one in pooled.items()
            }
        shown = {key: (photos.names, labels) for key, (photos, labels) in self.labelled.items()}
        return every_set(rows, shown)


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is in a file, or is made and put there."""
    if not path.exists():
        np.savez(path, **make())
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def told(
    found: dict[str, list[dict[str, Evaluation]]], bases: Sequence[str], file: Path | None
) -> None:
    """Print the figures of all networks, and write them with their distances from some."""
    rows = list(summary(found, bases))
    for row in rows:
        scores = {key: one["each"] for key, one in row.items() if isinstance(one, dict)}
        print(row["network"], scores)
    if file:
        report = {"machine": machine(), "command": command(), "rows": rows}
        file.write_text(json.dumps(report, indent=1) + "\n")


def main() -> None:
    """Describe, train and measure."""
    parser: argparse.ArgumentParser = photo_options(__doc__)
    parser.add_argument("networks", nargs="+", metavar="NAME=FILE", help="each with all others")
    parser.add_argument("--photos", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parsed(parser)
    options.out.mkdir(parents=True, exist_ok=True)
    files = dict(one.split("=", 1) for one in options.networks)
    nets = {name: retrieval_model(file, device="cpu").eval() for name, file in files.items()}

    def describe() -> dict[str, Any]:
        names, rows = to_learn_from(sorted(options.photos), nets)
        return {"names": np.array(names), **{key: one.half().numpy() for key, one in rows.items()}}

    learnt = kept(options.out / "train.npz", describe)
    labels = ["" if n.startswith("coco/") else n.rpartition("/")[0] for n in learnt["names"]]
    tests = Tests(options.data)
    found: dict[str, list[dict[str, Evaluation]]] = {}
    for name, net in nets.items():
        pooled = tests.pooled(net, options.out / f"test-{name}.npz")
        found[name] = [tests.judged(whitening_of(net), pooled)]
        learning = torch.from_numpy(learnt[name].astype(np.float32))
        for seed in range(options.seeds):
            layer = folded(net, trained(learning, labels, seed))
            found.setdefault(f"{name}, new layer", []).append(tests.judged(layer, pooled))
            new = retrieval_model(files[name], device="cpu")
            whitening_of(new).load_state_dict(layer.state_dict())
            save(new, options.out / f"{name}-{seed}.safetensors", half=True)
        say(name)
    told(found, list(found), options.json)


if __name__ == "__main__":
    main()
