"""What attention and the second-order loss add to a distilled ResNet-18: Table 2 on real photos.

    python benchmarks/ablation_student.py --start STUDENT.safetensors --data DATA --out OUT

Six networks (GeM; GeM + SOS; attention after conv4, conv5, both; both + SOS), each from the same
backbone and three seeds. What lies below conv4's output is frozen, as the paper freezes the
backbone, so it is computed once for a few changed views of every training photo and for every test
photo at three scales; attention, the last stage and the whitening learn. Results are written after
every run. DATA is a folder with `landmarks/{train,val,distractors}-*.tar` and
`buildings/val-*.tar`; `--unlabelled` adds shards of other photos, each its own landmark. Test
photos are drawn into the nearest of five shapes, so that a GPU sees few: `solar evaluate` shows
them as they are, and its figures differ a little.
"""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from lib.machine import machine
from lib.seeds import every_set, summary
from lib.timed_lines import say
from PIL import Image
from torch import Tensor, nn

from solar.datasets.labelled.photo_labels import folder_labels, labelled_photos
from solar.datasets.seeds import generator
from solar.evaluation.result import Evaluation
from solar.images import Photos, find_photos, load
from solar.losses import info_nce, second_order, triplet
from solar.models import REDUCTIONS, SCALES, RetrievalNet, attention_at, retrieval_model, save
from solar.models.inference import best_device
from solar.nn import pca_whitening
from solar.training.augment import Augmentation, augment
from solar.training.distill.image_cache import ImageCache, cache_images

NETWORKS = {  # attention, and whether the second-order loss is on
    "GeM": ("", False),
    "GeM + SOS": ("", True),
    "SOA4": ("4", False),
    "SOA5": ("5", False),
    "SOA45": ("45", False),
    "SOLAR": ("45", True),
}
VIEWS = Augmentation(
    crop=0.6, stretch=0.3, flip=0.5, rotate=8, homography=0.15, colour=0.3, hue=10, gamma=0.3,
    grey=0.05, blur=0.1, noise=0.02, blocks=0.1, erase=0.1,
)  # fmt: skip
SHAPES = ((288, 384), (384, 288), (256, 384), (384, 256), (384, 384))
SECOND_ORDER = 10.0  # the paper's lambda
FLOOR = 0.3  # squared distance below which a negative is probably a wrong label


@dataclass(frozen=True)
class Views:
    """Maps of training photos below the first attention.

    Attributes:
        maps: (photos, views, c, h, w) half precision.
        labels: (photos,) landmark, or a number that no other photo has.
        groups: Rows of each landmark.
        others: Rows of photos that nobody labelled.
    """

    maps: Tensor
    labels: Tensor
    groups: list[Tensor]
    others: Tensor


@dataclass(frozen=True)
class Shown:
    """Test photos, drawn.

    Attributes:
        shapes: Of each shape, its photos' numbers and pixels, (photos, h, w, 3).
        names: Of all photos.
        labels: What they show.
    """

    shapes: dict[tuple[int, int], tuple[Tensor, Tensor]]
    names: tuple[str, ...]
    labels: list[str]


@dataclass(frozen=True)
class Test:
    """Maps of test photos.

    Attributes:
        parts: Photos of one shape: their rows, and their maps at each scale.
        names: Of all photos.
        labels: What they show.
    """

    parts: list[tuple[Tensor, list[Tensor]]]
    names: tuple[str, ...]
    labels: list[str]


class Bench:
    """One start, and everything that all networks share.

    Args:
        start: The network to start from; what starts from it leaves out its attention, if any.
        device: Where to compute.
    """

    def __init__(self, start: str, device: torch.device) -> None:
        self.device = device
        self.start = retrieval_model(start, device=device)
        self.config = replace(self.start.config, attention={}, whitening=True, dim=None)
        self.backbone = {
            name: value
            for name, value in self.start.backbone.state_dict().items()
            if not name.startswith("soa")
        }
        self.below = self.network("").to(device).eval()

    def network(self, attention: str) -> RetrievalNet:
        """A network with the shared backbone; attention starts as the identity."""
        layers = attention_at(attention, REDUCTIONS)
        net = RetrievalNet(replace(self.config, attention=layers))
        net.backbone.load_state_dict({**net.backbone.state_dict(), **self.backbone})
        return net

    @torch.no_grad()
    def front(self, images: Tensor) -> Tensor:
        """What conv4 gives for images in 0..1."""
        net = self.below
        with half(self.device):
            x = (images - net.mean) / net.std
            backbone = net.backbone
            x = backbone.maxpool(backbone.relu(backbone.bn1(backbone.conv1(x))))  # type: ignore[operator]
            for stage in (backbone.layer1, backbone.layer2, backbone.layer3):
                x = stage(x)  # type: ignore[operator]
        found: Tensor = x.half()
        return found

    def views(
        self, landmarks: ImageCache, others: ImageCache | None, count: int, size: int
    ) -> Views:
        """Look at every training photo several times."""
        maps = []
        caches = [landmarks] if others is None else [landmarks, others]
        for part in caches:
            for first in range(0, len(part), 128):
                squares = part.select(torch.arange(first, min(first + 128, len(part))))
                seen = [
                    self.front(
                        augment(
                            squares.pixels,
                            VIEWS,
                            generator(view, first),
                            size=size,
                            aspects=squares.aspects,
                        )
                    )
                    for view in range(count)
                ]
                maps.append(torch.stack(seen, 1))
        folders = folder_labels(landmarks.photos.names, "the landmarks")
        known = {name: number for number, name in enumerate(sorted(set(folders)))}
        labels = torch.tensor([known[name] for name in folders])
        more = 0 if others is None else len(others)
        groups = [torch.nonzero(labels == n)[:, 0] for n in range(len(known))]
        alone = torch.arange(more) + len(labels)
        return Views(torch.cat(maps), torch.cat([labels, alone + len(known)]), groups, alone)

    def test(self, shown: Shown) -> Test:
        """Look at test photos at every scale."""
        parts = []
        for shape, (numbers, pixels) in shown.shapes.items():
            for some, batch in zip(numbers.split(64), pixels.split(64), strict=True):  # type: ignore[no-untyped-call]
                images = batch.to(self.device).movedim(-1, 1).float() / 255
                seen = []
                for scale in SCALES:
                    side = [round(length * scale / 32) * 32 for length in shape]
                    scaled = F.interpolate(images, side, mode="bilinear", align_corners=False)
                    seen.append(self.front(scaled))
                parts.append((some, seen))
        return Test(parts, shown.names, shown.labels)


def drawn(photos: Photos, labels: list[str]) -> Shown:
    """Read test photos, each into the nearest shape."""
    shapes: dict[tuple[int, int], list[tuple[int, Tensor]]] = {}
    for number in range(len(photos)):
        pixels = load(photos.read(number), 384).pixels
        aspect = pixels.shape[1] / pixels.shape[0]
        shape = min(SHAPES, key=lambda s: abs(math.log(s[1] / s[0] / aspect)))
        fitted = Image.fromarray(pixels).resize(shape[::-1], Image.Resampling.BICUBIC)
        shapes.setdefault(shape, []).append((number, torch.from_numpy(np.array(fitted))))
    stacked = {
        shape: (torch.tensor([n for n, _ in members]), torch.stack([one for _, one in members]))
        for shape, members in shapes.items()
    }
    return Shown(stacked, photos.names, labels)


def half(device: torch.device) -> Any:
    """Half precision on a GPU alone."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def above(net: RetrievalNet, maps: Tensor) -> Tensor:
    """The rest of a network: maps of conv4 to unit descriptors."""
    return net.head(last_maps(net, maps))


def last_maps(net: RetrievalNet, maps: Tensor) -> Tensor:
    """Maps of conv4 to maps of conv5, through attention where there is some."""
    backbone, device = net.backbone, maps.device
    with half(device):
        x = maps if device.type == "cuda" else maps.float()
        for name in ("soa4", "layer4", "soa5"):
            if name in backbone._modules:
                x = backbone.get_submodule(name)(x)
    return x


@torch.no_grad()
def describe(net: RetrievalNet, test: Test) -> np.ndarray[Any, Any]:
    """Unit rows of test photos, averaged over the scales."""
    rows = np.zeros((len(test.names), net.dim), np.float32)
    for numbers, scales in test.parts:
        rows[numbers.numpy()] = net.average([above(net, maps) for maps in scales]).cpu().numpy()
    return rows


def draw(data: Views, chance: torch.Generator, labelled: int, each: int, other: int) -> Tensor:
    """Rows of a step: some photos of some landmarks, and some of no landmark."""
    chosen = torch.randperm(len(data.groups), generator=chance)[: labelled // each]
    rows = [
        group[torch.randint(len(group), (each,), generator=chance)]
        for group in (data.groups[n] for n in chosen)
    ]
    if len(data.others):
        rows.append(data.others[torch.randint(len(data.others), (other,), generator=chance)])
    return torch.cat(rows)


def objective(rows: Tensor, shown: Tensor, loss: str, sos: bool) -> Tensor:
    """The loss of a batch whose second half are other views of its first half."""
    numbers = torch.arange(len(rows), device=rows.device)
    kin = shown[:, None] == shown
    itself = numbers[:, None] == numbers
    with torch.no_grad():
        apart = 2 - 2 * rows @ rows.T
        wrong = kin | (apart < FLOOR)
        nearest = apart.masked_fill(wrong, torch.inf).topk(5, dim=1, largest=False).indices
        # A photo of the same landmark for half of the anchors, the same photo for the others.
        partner = torch.multinomial((kin & ~itself).float(), 1)[:, 0]
        partner = torch.where(numbers % 2 == 0, partner, numbers.roll(len(rows) // 2))
    if loss == "alike":
        total = info_nce(rows, kin)
    else:
        total = triplet(rows, rows[partner], rows[nearest], margin=0.5)
    if sos:
        total = total + SECOND_ORDER * second_order(rows, rows[partner], rows[nearest])
    return total


def train(
    bench: Bench, data: Views, name: str, seed: int, arguments: argparse.Namespace
) -> tuple[RetrievalNet, list[float]]:
    """Train one network; returns it and its losses."""
    attention, sos = NETWORKS[name]
    torch.manual_seed(seed)
    net = bench.network(attention).to(bench.device)
    assert net.whiten is not None
    with torch.no_grad():
        firsts = data.maps[torch.randperm(len(data.maps))[:6000], 0].split(256)  # type: ignore[no-untyped-call]
        plain = [net.pool(last_maps(net, part.to(bench.device)).float()) for part in firsts]
        pooled = F.normalize(torch.cat(plain), dim=1)
        net.whiten.load_state_dict(pca_whitening(pooled).linear().state_dict())
    for parameter_name, parameter in net.backbone.named_parameters():
        parameter.requires_grad_(parameter_name.startswith(("soa", "layer4")))
    net.train()
    rate = arguments.rate
    named = list(net.backbone.named_parameters())
    groups: list[dict[str, Any]] = [
        {"params": [p for n, p in named if n.startswith("soa")], "f": 2.0},
        {"params": [p for n, p in named if n.startswith("layer4")], "f": arguments.last_stage},
        {"params": list(net.whiten.parameters()), "f": 1.0},
    ]
    optimiser = torch.optim.AdamW([g for g in groups if g["params"]], rate, weight_decay=0.01)
    average = {key: value.detach().clone() for key, value in net.state_dict().items()}
    losses = []
    for step in range(arguments.steps):
        factor = min(1, (step + 1) / 40) * (1 + math.cos(math.pi * step / arguments.steps)) / 2
        for group in optimiser.param_groups:
            group["lr"] = rate * factor * group["f"]
        chance = generator(seed, step)
        rows = draw(data, chance, arguments.labelled, 8, arguments.other)
        pick = torch.rand(len(rows), data.maps.shape[1], generator=chance).argsort(1)[:, :2]
        maps = torch.cat([data.maps[rows, pick[:, 0]], data.maps[rows, pick[:, 1]]])
        shown = data.labels[rows].repeat(2).to(bench.device)
        loss = objective(above(net, maps.to(bench.device)), shown, arguments.loss, sos)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_([p for g in optimiser.param_groups for p in g["params"]], 1.0)
        optimiser.step()
        with torch.no_grad():
            for key, value in net.state_dict().items():
                if value.is_floating_point():
                    average[key].lerp_(value, max(0.02, 1 / (step + 2)))
        if step % 50 == 0 or step == arguments.steps - 1:
            losses.append(round(float(loss.detach()), 4))
    net.load_state_dict(average)
    return net.eval(), losses


def measure(net: RetrievalNet, tests: dict[str, Test]) -> dict[str, Evaluation]:
    """Every set, landmarks also among the distractors."""
    rows = {name: describe(net, test) for name, test in tests.items()}
    return every_set(rows, {name: (test.names, test.labels) for name, test in tests.items()})


def shards(folder: Path, name: str) -> list[Path]:
    """The tar shards of a part, in order."""
    found = sorted(folder.glob(f"{name}-*.tar"))
    if not found:
        raise SystemExit(f"There is no {name}-*.tar in {folder}.")
    return found


def read_tests(data: Path, most: int | None) -> dict[str, Shown]:
    """The photos of every test set; `most` of each, for a try."""
    tests = {}
    for name, folder, part in (
        ("landmarks", "landmarks", "val"),
        ("buildings", "buildings", "val"),
        ("distractors", "landmarks", "distractors"),
    ):
        files = shards(data / folder, part)
        if part == "val":
            photos, labels = labelled_photos(files)
        else:
            photos = find_photos(files)
            labels = [""] * len(photos)
        if most:
            photos = photos.select(range(min(most, len(photos))))
        tests[name] = drawn(photos, labels[: len(photos)])
        say(f"{len(photos)} photos of {name} read")
    return tests


class Report:
    """What came out so far, written after every network.

    Args:
        path: The file to write.
        settings: Of the whole run.
        bases: Names of the networks that others are compared with.
    """

    def __init__(self, path: Path, settings: dict[str, str], bases: Sequence[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.settings, self.bases = path, settings, bases
        self.found: dict[str, list[dict[str, Evaluation]]] = {}
        self.losses: dict[str, list[list[float]]] = {}

    def add(self, name: str, measured: dict[str, Evaluation], curve: list[float]) -> None:
        """Keep, print and write one more network."""
        self.found.setdefault(name, []).append(measured)
        scores = {what: round(100 * one.mean("AP", "all"), 2) for what, one in measured.items()}
        report = {
            "machine": machine(),
            "settings": self.settings,
            "rows": list(summary(self.found, self.bases)),
        }
        end = ""
        if curve:
            self.losses.setdefault(name, []).append(curve)
            report["losses"] = self.losses
            end = f"; loss {curve[0]} to {curve[-1]}"
        say(f"{name}, number {len(self.found[name])}: {scores}{end}")
        self.path.write_text(json.dumps(report, indent=1) + "\n")


def main() -> None:
    """Train and measure all networks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--start", required=True, help="the network that all start from")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--unlabelled", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--loss", choices=["alike", "triplet"], default="alike")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--last-stage", type=float, default=1.0, help="0 freezes layer4")
    parser.add_argument("--labelled", type=int, default=96)
    parser.add_argument("--other", type=int, default=64)
    parser.add_argument("--views", type=int, default=6)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--most", type=int, help="photos of each set, for a try")
    parser.add_argument("--name", default="ablation")
    parser.add_argument("--against", nargs="+", default=["GeM"], help="names to compare with")
    arguments = parser.parse_args()
    paths = ("data", "out", "start", "unlabelled", "against")
    settings = {name: str(value) for name, value in vars(arguments).items() if name not in paths}
    device = torch.device(best_device())
    shown = read_tests(arguments.data, arguments.most)
    path = arguments.out / f"{arguments.name}.json"
    bench = Bench(arguments.start, device)
    tests = {what: bench.test(photos) for what, photos in shown.items()}
    landmarks = cache_images(shards(arguments.data / "landmarks", "train"), 352, device=device)[0]
    others = None
    if arguments.unlabelled:
        others = cache_images(arguments.unlabelled, 352, device=device)[0]
    data = bench.views(landmarks, others, arguments.views, arguments.size)
    say(f"{len(data.maps)} training photos looked at {arguments.views} times")
    report = Report(path, settings, arguments.against)
    for seed in range(arguments.seeds):
        for name in arguments.networks:
            net, curve = train(bench, data, name, seed, arguments)
            report.add(name, measure(net, tests), curve)
            if seed == 0 and name in ("GeM", "SOLAR"):
                save(net.cpu(), arguments.out / f"{arguments.name}-{name.lower()}.safetensors")


if __name__ == "__main__":
    main()
