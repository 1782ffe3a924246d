"""Train patch networks with and without attention on photos, and match an HPatches-style set.

    PYTHONPATH=src python benchmarks/patch_training.py --photos train-0.tar train-1.tar \
        --sequences affine --out results

One table and `results.json`: SIFT, RootSIFT, and each network for each seed, by sequence and noise.
Both networks see the same patches in the same order. Nothing of the sequences is trained on, and
every run reports its last state. Results are written after every run, weights beside them. Any
setting of the recipe can be changed: `--set optimiser.lr=0.003` for all runs, or for some of them
`--variant slow optimiser.lr=0.003 --variant fast optimiser.lr=0.01`. Without data, `--smoke`
draws a little of its own. `--join a.json b.json` makes one table of several calls' results.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib.drawn_sequences import draw_sequence
from lib.machine import machine
from lib.timed_lines import say

from solar.arrays import Floats
from solar.datasets.patches.hpatches import STRIPS, HPatches
from solar.datasets.patches.hpatches_cut import make_hpatches
from solar.datasets.patches.photo_points import PhotoPoints, collect_points
from solar.evaluation.protocols.hpatches import HPatchesResult, evaluate_hpatches
from solar.evaluation.protocols.patch_describers import METHODS, describe_sift, shrunk
from solar.images import find_photos
from solar.models import PatchNet, save
from solar.training.patches.recipe import PatchRecipe
from solar.training.patches.sources import PointPatches
from solar.training.patches.task import PatchTrainer
from solar.training.recipe import read_recipe

RECIPE = Path(__file__).parent.parent / "recipes" / "solar-local-345-photos.yaml"
SMOKE = ("batch=8", "steps=2", "log_every=1", "data.per_photo=4", "data.points.size=160")


class Benchmark:
    """The set to match, shrunk once, and how well something describes it."""

    def __init__(self, data: HPatches) -> None:
        self.data = data
        self.keys = [(name, kind) for name in data.names for kind in STRIPS]
        # In one piece: batches of one size are what a GPU's convolutions are tuned for.
        self.small = np.concatenate([shrunk(data.strip(*key), 32) for key in self.keys])

    def network(self, net: PatchNet) -> HPatchesResult:
        """Matching of a network's descriptors."""
        ends = np.cumsum([self.data.counts[name] for name, _ in self.keys])
        return self._measure(np.split(net.describe(self.small), ends[:-1]))

    def sift(self, method: str) -> HPatchesResult:
        """Matching of SIFT or RootSIFT, described on all cores."""

        def describe(key: tuple[str, str]) -> Floats:
            return describe_sift(self.data.strip(*key), root=method == "rootsift")

        with ThreadPoolExecutor() as pool:
            return self._measure(list(pool.map(describe, self.keys)))

    def _measure(self, rows: Sequence[Floats]) -> HPatchesResult:
        by_name: dict[str, dict[str, Floats]] = {name: {} for name in self.data.names}
        for (name, kind), own in zip(self.keys, rows, strict=True):
            by_name[name][kind] = own
        return evaluate_hpatches(by_name, tasks=("matching",))


def _trainer(recipe: PatchRecipe, source: PointPatches) -> PatchTrainer:
    """A trainer that takes steps; its run is never opened, so nothing is written."""

    class WithSource(PatchTrainer):
        def open_source(self) -> PointPatches:
            return source

    device: Any = source.photos.device.type
    chosen = replace(recipe, compute=replace(recipe.compute, device=device))
    return WithSource(chosen, os.devnull)


def stages(training: PatchTrainer, rounds: int) -> dict[str, float]:
    """Milliseconds of each part of a step, each waited for; medians after warming up."""
    found: dict[str, list[float]] = {"cut": [], "forward": [], "backward": [], "update": []}
    clock = _clock(training.device)
    for number in range(rounds + 3):
        times = [clock()]
        pairs = training.source.batch(number)
        times.append(clock())
        terms = training.terms(pairs)
        times.append(clock())
        training.optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(terms["loss"])
        times.append(clock())
        training.optimiser.step()
        times.append(clock())
        if number >= 3:
            for name, start, end in zip(found, times[:-1], times[1:], strict=True):
                found[name].append(1000 * (end - start))
    return {name: statistics.median(values) for name, values in found.items()}


def _clock(device: torch.device) -> Callable[[], float]:
    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    return now


def run(
    name: str, recipe: PatchRecipe, source: PointPatches, benchmark: Benchmark, curve: int
) -> tuple[PatchTrainer, dict[str, Any]]:
    """Train one network; what came out, with the way there."""
    training = _trainer(recipe, source)
    figures: list[dict[str, float]] = []
    start, paused, late = time.perf_counter(), 0.0, False
    for batch in training.batches():
        training.take(batch)
        step = training.step
        spent = time.perf_counter() - start - paused
        late = recipe.seconds is not None and spent > recipe.seconds
        if step % recipe.log_every == 0 or step == training.steps or late:
            figures.append({"step": step, **training.meter.read()})
            figures[-1]["steps_a_second"] = training.meter.speed
            shown = ", ".join(f"{k} {v:.3f}" for k, v in figures[-1].items() if k != "step")
            say(f"{name} seed {recipe.seed} step {step}: {shown}")
        if curve and step % curve == 0 and step < training.steps:
            pause = time.perf_counter()
            with training.used():
                figures[-1]["matching"] = 100 * benchmark.network(training.net).mean()
            say(f"{name} seed {recipe.seed} step {step}: matching {figures[-1]['matching']:.2f}")
            paused += time.perf_counter() - pause
        if late:
            break
    seconds = time.perf_counter() - start - paused
    with training.used():
        result = benchmark.network(training.net)
    say(f"{name} seed {recipe.seed}: matching {100 * result.mean():.2f} after {seconds:.0f} s")
    return training, {
        "network": name,
        "seed": recipe.seed,
        "steps": training.step,
        "stopped_early": late,
        "seconds": seconds,
        **result.to_dict()["matching"],
        "way": figures,
    }


def summary(results: dict[str, Any]) -> dict[str, Any]:
    """Means over the seeds, and what attention and learning gain."""
    scores: dict[str, dict[int, float]] = {}
    for one in results["runs"]:
        scores.setdefault(one["network"], {})[one["seed"]] = one["mAP"]
    found: dict[str, Any] = {}
    for network, by_seed in scores.items():
        mean = statistics.mean(by_seed.values())
        found[network] = {
            "mean": mean,
            "std": statistics.stdev(by_seed.values()) if len(by_seed) > 1 else 0.0,
            "over_rootsift": mean - results["baselines"]["rootsift"]["mAP"],
            "seeds": sorted(by_seed),
        }
        variant = network.partition(":")[0] + ":" if ":" in network else ""
        twin = scores.get(f"{variant}none", {})
        gains = {seed: score - twin[seed] for seed, score in by_seed.items() if seed in twin}
        if gains and twin is not by_seed:
            found[network]["attention_gain"] = statistics.mean(gains.values())
            found[network]["attention_gain_by_seed"] = gains
    return found


def table(results: dict[str, Any]) -> str:
    """Everything as text: a line a descriptor and seed, a column a noise and a sequence."""
    rows = [(name, own) for name, own in results["baselines"].items()]
    rows += [(f"{one['network']} seed {one['seed']}", one) for one in results["runs"]]
    names = list(rows[0][1]["sequences"])
    head = ["", "mean", "easy", "hard", "tough", *names]
    lines = [
        [title, *(f"{own[key]:.1f}" for key in ("mAP", "easy", "hard", "tough"))]
        + [f"{own['sequences'][name]['mean']:.1f}" for name in names]
        for title, own in rows
    ]
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in [head, *lines]
    )


def draw_data(folder: Path) -> tuple[list[str], str]:
    """A few toy photos, and a sequence of one seen through homographies."""
    from solar.demo import toy

    toy.write(folder / "photos", landmarks=2, views=2, size=(160, 120))
    draw_sequence(folder / "sequences" / "toy", 7)
    return [str(folder / "photos")], str(folder / "sequences")


def prepare(
    arguments: argparse.Namespace, recipe: PatchRecipe
) -> tuple[PhotoPoints, Benchmark, dict[str, Any]]:
    """Keypoints of the photos, the set to match and its baselines."""
    photos = find_photos(recipe.data.source)
    found = collect_points(photos, recipe.data.points)
    counts = [len(points) for points in found.points]
    say(f"{len(found.photos)} of {len(photos)} photos, {sum(counts)} keypoints")
    points = 12 if arguments.smoke else 500
    cut = make_hpatches(arguments.sequences, seed=arguments.cut_seed, keypoints=points)
    benchmark = Benchmark(cut)
    say(f"{sum(benchmark.data.counts.values())} points of {len(benchmark.data.names)} sequences")
    results: dict[str, Any] = {
        "machine": machine(),
        "recipe": without_places(asdict(recipe)),
        "photos": len(found.photos),
        "keypoints": sum(counts),
        "points": dict(benchmark.data.counts),
        "baselines": {},
        "stages_ms": {},
        "runs": [],
    }
    for method in METHODS:
        result = benchmark.sift(method)
        results["baselines"][method] = result.to_dict()["matching"]
        say(f"{method}: matching {100 * result.mean():.2f}")
    return found, benchmark, results


def without_places(recipe: dict[str, Any]) -> dict[str, Any]:
    """A recipe that names its photos' files, but not where they were."""
    names = [Path(source).name for source in recipe["data"]["source"]]
    return {**recipe, "data": {**recipe["data"], "source": names}}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything, in turn; results are written whenever there are new ones."""
    source = json.dumps([str(path) for path in arguments.photos])
    changes = [*(SMOKE if arguments.smoke else ()), *arguments.set, f"data.source={source}"]
    recipe = read_recipe(PatchRecipe, arguments.recipe, changes)
    device = torch.device(recipe.compute.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    found, benchmark, results = prepare(arguments, recipe)
    for variant, *own in arguments.variant or [[""]]:
        varied = read_recipe(PatchRecipe, arguments.recipe, [*changes, *own])
        how: Any = {"points": varied.batch, "seed": varied.seed, "device": device}
        per_photo = varied.data.per_photo
        patches = PointPatches(found, varied.views, per_photo=per_photo, **how)
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            for network in arguments.networks:
                name = f"{variant}:{network}" if variant else network
                attention = "" if network == "none" else network
                chosen = replace(varied.network, attention=attention)
                patches.seed = seed
                one = replace(varied, seed=seed, network=chosen)
                if name not in results["stages_ms"]:
                    times = stages(_trainer(one, patches), 1 if arguments.smoke else 20)
                    results["stages_ms"][name] = times
                    say(f"{name}: " + ", ".join(f"{k} {v:.2f} ms" for k, v in times.items()))
                training, figures = run(name, one, patches, benchmark, arguments.curve)
                results["runs"].append(figures)
                with training.used():
                    file = f"{name.replace(':', '-')}-seed{seed}.safetensors"
                    save(training.net, arguments.out / file)
                write(results, arguments.out)
    return results


def write(results: dict[str, Any], folder: Path) -> None:
    """Write what there is so far."""
    results["summary"] = summary(results)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")


def join(files: list[Path]) -> dict[str, Any]:
    """The results of several calls, such as one for each seed, as one."""
    first, *others = [json.loads(path.read_text()) for path in files]
    for one in (first, *others):
        one["recipe"] = without_places(one["recipe"])
        if not any(run["stopped_early"] for run in one["runs"]):
            one["recipe"]["seconds"] = None  # a limit that nobody met
    for other in others:
        if (other["recipe"], other["baselines"]) != (first["recipe"], first["baselines"]):
            raise SystemExit("These results come from different recipes or sequences.")
        first["runs"] += other["runs"]
    return dict(first)


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", nargs="+", type=Path, default=[], help="to train on")
    parser.add_argument("--sequences", type=Path, help="to match: folders with H_1_2, …")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and weights")
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--networks", nargs="+", default=["345", "none"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--cut-seed", type=int, default=0, help="of the set's detector noise")
    parser.add_argument("--steps", type=int, help="of each run")
    parser.add_argument("--seconds", type=float, help="of each run at most")
    parser.add_argument("--curve", type=int, default=0, help="also match every so many steps")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE")
    parser.add_argument("--variant", nargs="+", action="append", metavar="NAME KEY=VALUE")
    parser.add_argument("--smoke", action="store_true", help="two steps on drawn data")
    parser.add_argument("--join", nargs="+", type=Path, metavar="RESULTS", help="train nothing")
    arguments = parser.parse_args()
    for name in ("steps", "seconds"):
        if getattr(arguments, name) is not None:
            arguments.set.append(f"{name}={getattr(arguments, name)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        if arguments.smoke and not arguments.photos:
            arguments.photos, arguments.sequences = draw_data(Path(temporary))
        if not arguments.join and (not arguments.photos or arguments.sequences is None):
            parser.error("name photos and sequences, or ask for --smoke")
        results = join(arguments.join) if arguments.join else measure(arguments)
    write(results, arguments.out)
    print(table(results))
    print(json.dumps(results["summary"], indent=1))


if __name__ == "__main__":
    main()
