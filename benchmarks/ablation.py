"""Table 2 of the paper in miniature, on real photos: what second order adds to a GeM network.

    python benchmarks/ablation.py --data DATA --work WORK

All networks start from the same ImageNet ResNet-50 and learn what the published code lets them
learn: p and the whitening layer, the attention blocks if there are any, and conv5_x in "GeM + SOS".
conv1 to conv4 never learn, so their maps are computed once, for a random square of every training
photo and for whole test photos, and kept in WORK; where conv5 does not learn either and nothing
before it does, its maps are, too. Everything else is the package's: tuples mined in every epoch,
the losses, the parameter groups, the networks. There are 40 times fewer steps than in the paper,
at ten times its learning rate. Size, steps, rate and whitening were chosen with `--held-out`,
which trains without some landmarks and measures on these.

WORK also gets the ResNet-50 (88 MB, from npm) and a file per run, and the same command continues
after an interruption. DATA is a folder with landmarks/{train,val}-*.tar and buildings/val-*.tar.
"""

import argparse
import json
import time
from collections import defaultdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from lib.imagenet import INPUT, on_backbone, resnet50
from lib.machine import machine
from lib.seeds import summary
from lib.timed_lines import say
from torch import Tensor, nn

from solar.datasets.labelled.photo_labels import labelled_photos
from solar.datasets.labelled.sources import read_training_set
from solar.datasets.labelled.training_set import TrainingSet
from solar.evaluation import evaluate_labels
from solar.evaluation.result import Evaluation
from solar.files import replacing
from solar.images import Photos, load, read_image
from solar.models import REDUCTIONS, RetrievalConfig, RetrievalNet, attention_at
from solar.nn import pca_whitening
from solar.training.objective import RetrievalLoss, objective
from solar.training.retrieval.hard_negatives import draw_epoch, mine
from solar.training.retrieval.loader import random_square
from solar.training.retrieval.parameter_groups import parameter_groups
from solar.training.retrieval.recipe import RetrievalOptimiser
from solar.training.schedule import Schedule

NETWORKS: dict[str, tuple[str, float, dict[str, float]]] = {
    # attention, lambda of the second-order loss, rates of the backbone's stages
    "GeM": ("", 0, {}),
    "GeM + SOS": ("", 10, {"layer4": 1}),
    "SOA4": ("4", 0, {}),
    "SOA5": ("5", 0, {}),
    "SOA45": ("45", 0, {}),
    "SOA45 + SOS": ("45", 10, {}),
}
SETS = {
    "landmarks": ("landmarks", "val"),
    "buildings": ("buildings", "val"),
}
AT_ONCE = 32  # photos


class Maps:
    """Feature maps of a set of photos, in parts of one shape each.

    Args:
        parts: The photos' numbers, and their maps (n, h, w, c) in half precision.
    """

    def __init__(self, parts: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]) -> None:
        self.parts = parts
        self.count = sum(len(numbers) for numbers, _ in parts)
        self.places = {
            number: (part, row)
            for part, (numbers, _) in enumerate(parts)
            for row, number in enumerate(numbers.tolist())
        }

    def batches(self) -> Any:
        """Photos' numbers and their maps (b, c, h, w)."""
        for numbers, maps in self.parts:
            for first in range(0, len(numbers), AT_ONCE):
                some = slice(first, first + AT_ONCE)
                yield numbers[some], as_input(maps[some])

    def of(self, numbers: Tensor, crop: int, chance: torch.Generator) -> Tensor:
        """Random squares (b, c, crop, crop) of the maps of some photos."""
        free = self.parts[0][1].shape[1] - crop + 1
        corners = torch.randint(free, (len(numbers), 2), generator=chance).tolist()
        squares = []
        for number, (y, x) in zip(numbers.tolist(), corners, strict=True):
            part, row = self.places[number]
            squares.append(self.parts[part][1][row, y : y + crop, x : x + crop])
        return as_input(np.stack(squares))

    def some(self, numbers: np.ndarray[Any, Any]) -> "Maps":
        """The maps of some photos, numbered anew."""
        parts, new = [], {number: n for n, number in enumerate(numbers.tolist())}
        for of, maps in self.parts:
            rows = [row for row, number in enumerate(of.tolist()) if number in new]
            parts.append((np.array([new[n] for n in of[rows].tolist()], int), maps[rows]))
        return Maps([(of, maps) for of, maps in parts if len(of)])

    def through(self, module: nn.Module, folder: Path) -> "Maps":
        """What a module makes of all maps, kept in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        after = []
        for n, (numbers, maps) in enumerate(self.parts):
            path = folder / f"{n}.npy"
            if not path.exists():
                with torch.no_grad(), half():
                    batches = Maps([(numbers, maps)]).batches()
                    made = [module(x).movedim(1, -1).half().numpy() for _, x in batches]
                with replacing(path) as part, part.open("wb") as file:
                    np.save(file, np.concatenate(made))
            after.append((numbers, np.load(path, mmap_mode="r")))
        return Maps(after)


def as_input(maps: np.ndarray[Any, Any]) -> Tensor:
    """Maps (n, h, w, c) as a network takes them, (n, c, h, w)."""
    return torch.from_numpy(np.array(maps)).to(torch.bfloat16).movedim(-1, 1)


def half() -> torch.autocast:
    """Convolutions in bfloat16; weights and losses stay in float32."""
    return torch.autocast("cpu", torch.bfloat16)


def network(attention: str, start: dict[str, Tensor], dim: int) -> RetrievalNet:
    """A network on the backbone of `start`; its attention is the identity."""
    layers = attention_at(attention, REDUCTIONS)
    net = on_backbone(RetrievalConfig("resnet50", layers, dim=dim, **INPUT), start)
    return net.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload, no-any-return]


def front(net: RetrievalNet, pixels: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """conv4's maps (n, h, w, c) of photos of one shape."""
    with torch.no_grad(), half():
        x = net.normalise(torch.from_numpy(np.stack(pixels)))
        for name, part in net.backbone.stages():
            x = part(x)
            if name == "layer3":
                break
    maps: np.ndarray[Any, Any] = x.movedim(1, -1).half().numpy()
    return maps


def cached(folder: Path, photos: Photos, read: Any, net: RetrievalNet) -> Maps:
    """conv4's maps of photos, from a folder or computed: a file per thousand of them and shape."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for first in range(0, len(photos), 1000):
        done = folder / f"{first}.json"
        if not done.exists():
            found = shaped(range(first, min(first + 1000, len(photos))), photos, read, net)
            for n, (_, maps) in enumerate(found):
                np.save(folder / f"{first}-{n}.npy", maps)
            with replacing(done) as part:
                part.write_text(json.dumps([numbers for numbers, _ in found]))
            say(f"conv4's maps of {folder.name} from {first} on")
        for n, numbers in enumerate(json.loads(done.read_text())):
            parts.append((np.array(numbers), np.load(folder / f"{first}-{n}.npy", mmap_mode="r")))
    return Maps(parts)


def shaped(
    numbers: range, photos: Photos, read: Any, net: RetrievalNet
) -> list[tuple[list[int], np.ndarray[Any, Any]]]:
    """conv4's maps of some photos, those of one shape together."""
    pixels: dict[tuple[int, ...], list[tuple[int, Any]]] = defaultdict(list)
    for number in numbers:
        one = read(photos.read(number), number)
        pixels[one.shape].append((number, one))
    found = []
    for some in pixels.values():
        batches = [some[n : n + AT_ONCE] for n in range(0, len(some), AT_ONCE)]
        maps = np.concatenate([front(net, [one for _, one in batch]) for batch in batches])
        found.append(([number for number, _ in some], maps))
    return found


class Bench:
    """What all networks share: photos, maps, initial whitening.

    Attributes:
        data: The photos to train on.
        numbers: Of these, among all training photos.
        shown: Names and labels of the photos of each test set.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.start = resnet50(arguments.work)
        net = network("", self.start, arguments.dim)
        every = read_training_set(sorted((arguments.data / "landmarks").glob("train-*.tar")))
        size, maps = arguments.size, arguments.work / f"maps-{arguments.size}"

        def square(photo: Any, number: int) -> Any:
            return random_square(read_image(photo), size, (0, number))

        self.train4 = cached(maps / "train", every.photos, square, net)
        last: Any = net.backbone.layer4
        self.train5 = self.train4.through(last, maps / "train-conv5")
        out = np.zeros(len(every), bool)
        self.data: TrainingSet = every
        if arguments.held_out:
            held = set(every.held_out(arguments.held_out))
            out = np.array([every.labels[label] in held for label in every.landmarks])
            self.data, _ = every.split(arguments.held_out)
        self.numbers = torch.from_numpy(np.flatnonzero(~out))
        self.shown: dict[str, tuple[tuple[str, ...], list[str]]] = {}
        self.test4: dict[str, Maps] = {}
        self.test5: dict[str, Maps] = {}
        if arguments.held_out:
            shown = np.flatnonzero(out)
            labels = [every.labels[label] for label in every.landmarks[shown]]
            self.shown["held out"] = tuple(every.photos.names[n] for n in shown.tolist()), labels
            self.test4["held out"] = self.train4.some(shown)
            self.test5["held out"] = self.train5.some(shown)
        else:
            self._read_tests(net, maps)
        say("conv5's maps")
        pooled = torch.zeros(self.train5.count, net.backbone.channels)
        with torch.no_grad():
            for numbers, some in self.train5.batches():
                pooled[numbers] = F.normalize(net.pool(some.float()))
        whitening = pca_whitening(pooled[self.numbers], arguments.power)
        self.whitening = whitening.linear(arguments.dim).state_dict()

    def _read_tests(self, net: RetrievalNet, maps: Path) -> None:
        last: Any = net.backbone.layer4
        long = self.arguments.size
        for name, (folder, prefix) in SETS.items():
            files = sorted((self.arguments.data / folder).glob(f"{prefix}-*.tar"))
            photos, labels = labelled_photos(files)
            self.shown[name] = photos.names, labels
            self.test4[name] = cached(
                maps / name, photos, lambda photo, _: load(photo, long).pixels, net
            )
            self.test5[name] = self.test4[name].through(last, maps / f"{name}-conv5")

    def built(self, name: str) -> RetrievalNet:
        """A network at its start; torch's seed decides the attention's."""
        net = network(NETWORKS[name][0], self.start, self.arguments.dim)
        assert net.whiten is not None
        net.whiten.load_state_dict(self.whitening)
        return net

    def maps(self, name: str) -> tuple[Maps, dict[str, Maps], list[str]]:
        """The maps that a network goes on from, and its stages from there on."""
        attention, _, learns = NETWORKS[name]
        after = ["soa4"] * ("4" in attention) + ["layer4"] + ["soa5"] * ("5" in attention)
        if after[0] == "layer4" and not learns:
            return self.train5, self.test5, after[1:]
        return self.train4, self.test4, after


def rows_of(net: RetrievalNet, stages: list[str], maps: Tensor) -> Tensor:
    """Unit descriptors."""
    with half():
        for stage in stages:
            maps = net.backbone.get_submodule(stage)(maps)
    return net.head(maps)


@torch.no_grad()
def described(net: RetrievalNet, stages: list[str], maps: Maps) -> np.ndarray[Any, Any]:
    """Unit rows of all photos."""
    rows = np.zeros((maps.count, net.dim), np.float32)
    for numbers, some in maps.batches():
        rows[numbers] = rows_of(net, stages, some).numpy()
    return rows


def train(bench: Bench, name: str, seed: int, net: RetrievalNet) -> list[dict[str, float]]:
    """Train a network; returns the mean figures of every epoch."""
    arguments, data = bench.arguments, bench.data
    train_maps, _, stages = bench.maps(name)
    crop = arguments.crop if train_maps is bench.train4 else arguments.crop // 2
    steps, batch = arguments.steps, arguments.batch
    what = RetrievalOptimiser(lr=arguments.rate, backbone=NETWORKS[name][2])
    groups = parameter_groups(net, what)
    optimiser = torch.optim.Adam(groups)
    schedule = Schedule(decay=0.5 / arguments.epochs)  # the paper's: exp(-0.01 * 50) at the end
    loss = RetrievalLoss(second_order=NETWORKS[name][1], reduction="per_query")
    landmarks = torch.from_numpy(data.landmarks)
    log = []
    for epoch in range(arguments.epochs):
        chance = torch.Generator().manual_seed(1000 * seed + epoch)
        drawn = draw_epoch(
            data.queries, data.positives, len(data),
            query_count=steps * batch, pool_size=arguments.pool, generator=chance,
        )  # fmt: skip
        net.eval()
        with torch.no_grad():
            queries, pool = (
                torch.cat(
                    [
                        rows_of(net, stages, train_maps.of(bench.numbers[some], crop, chance))
                        for some in torch.split(wanted, 64)
                    ]
                )
                for wanted in (drawn.queries, drawn.pool)
            )
        chosen = mine(queries, landmarks[drawn.queries], pool, landmarks[drawn.pool])
        tuples = drawn.tuples(chosen)
        net.train()
        figures = []
        for step in range(steps):
            some = tuples[step * batch : (step + 1) * batch]
            schedule.apply(
                optimiser, epoch * steps + step,
                steps=arguments.epochs * steps, steps_per_epoch=steps,
            )  # fmt: skip
            rows = rows_of(net, stages, train_maps.of(bench.numbers[some.flatten()], crop, chance))
            terms = objective(rows, landmarks[some], loss)
            optimiser.zero_grad(set_to_none=True)
            terms["loss"].backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            figures.append({key: float(value.detach()) for key, value in terms.items()})
        log.append({key: float(np.mean([one[key] for one in figures])) for key in figures[0]})
        log[-1]["p"] = float(net.pool.p.detach())  # type: ignore[operator]
    net.eval()
    return log


def measured(bench: Bench, name: str, net: RetrievalNet) -> dict[str, Evaluation]:
    """Every test set."""
    _, tests, stages = bench.maps(name)
    found = {}
    for what, maps in tests.items():
        photos, labels = bench.shown[what]
        found[what] = evaluate_labels(described(net, stages, maps), labels, photos=photos)
    return found


def over_places(one: Evaluation, labels: list[str]) -> Evaluation:
    """Means over the queries of each place, which are not independent of each other."""
    values, places = one.protocols["all"]["AP"], np.array(labels)
    names = tuple(sorted(set(labels)))
    means = np.array([np.nanmean(values[places == name]) for name in names])
    return Evaluation(names, {"all": {"AP": means}})


def report(bench: Bench, files: list[Path], path: Path, settings: dict[str, Any]) -> None:
    """Write the tables of some runs."""
    runs: dict[str, list[dict[str, Evaluation]]] = {}
    figures: dict[str, Any] = {}
    for file in files:
        run = json.loads(file.read_text())
        found = {}
        for what, values in run["AP"].items():
            names, labels = bench.shown[what]
            found[what] = Evaluation(names, {"all": {"AP": np.array(values)}})
            found[f"{what}, by place"] = over_places(found[what], labels)
        runs.setdefault(run["network"], []).append(found)
        kept = {key: run[key] for key in ("seed", "seconds", "log")}
        figures.setdefault(run["network"], []).append(kept)
    bases = ["GeM", "GeM + SOS", "SOA45"]
    text = {
        "machine": machine(),
        "settings": settings,
        "rows": list(summary(runs, bases)),
        "runs": figures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(text, indent=1) + "\n")


def slug(name: str) -> str:
    """A file's name for a network."""
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


def main() -> None:
    """Train and measure all networks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="ResNet-50, maps and runs")
    parser.add_argument("--out", type=Path, help="where to write ablation.json; default: WORK")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--held-out",
        type=float,
        default=0,
        metavar="SHARE",
        help="measure on this share of the landmarks of training alone, to choose settings",
    )
    parser.add_argument(
        "--size",
        type=int,
        default=160,
        help="side of a training square, longest side of a test photo",
    )
    parser.add_argument("--crop", type=int, default=8, help="side of the part of conv4's map")
    parser.add_argument("--dim", type=int, default=2048, help="length of a descriptor")
    parser.add_argument("--power", type=float, default=0, help="of the initial PCA whitening")
    parser.add_argument("--pool", type=int, default=400, help="photos to mine negatives from")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=50, help="of an epoch")
    parser.add_argument("--batch", type=int, default=4, help="tuples of 7 photos")
    parser.add_argument("--rate", type=float, default=1e-5, help="the paper's is 1e-6")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    paths = ("data", "work", "out", "networks", "seeds")
    settings = {name: value for name, value in vars(arguments).items() if name not in paths}
    bench = Bench(arguments)
    same = sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
    runs = arguments.work / "runs" / same
    runs.mkdir(parents=True, exist_ok=True)
    out = (arguments.out or arguments.work) / "ablation.json"
    wanted = [(name, seed) for seed in range(arguments.seeds) for name in arguments.networks]
    files = []
    for name, seed in [("start", 0), *wanted]:
        files.append(runs / f"{slug(name)}.{seed}.json")
        if files[-1].exists():
            continue
        before = time.process_time()
        torch.manual_seed(seed)
        which = "GeM" if name == "start" else name
        net = bench.built(which)
        log = [] if name == "start" else train(bench, name, seed, net)
        trained = time.process_time() - before
        found = measured(bench, which, net)
        run = {
            "network": name,
            "seed": seed,
            "seconds": [round(trained, 1), round(time.process_time() - before - trained, 1)],
            "log": log,
            "AP": {what: one.protocols["all"]["AP"].tolist() for what, one in found.items()},
        }
        with replacing(files[-1]) as part:
            part.write_text(json.dumps(run))
        scores = {what: round(100 * one.mean("AP", "all"), 2) for what, one in found.items()}
        say(f"{name}, seed {seed}, {run['seconds']} s: {scores}; {log[-1] if log else ''}")
        report(bench, files, out, settings)
    report(bench, files, out, settings)


if __name__ == "__main__":
    main()
