"""What a table or figure needs: where it comes from, how large it is, how long it takes here.

Times are those of the arithmetic: the operations of a network, counted, by how many a ResNet-18
that describes a photo gets done per second here. Other programs that run meanwhile do not count.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import ceil
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from solar import models
from solar.datasets.patches.phototour import read_phototour
from solar.datasets.public import registry
from solar.datasets.public.gl18 import build_gl18, write_gl18
from solar.describe.fast_net import FusedNet
from solar.errors import SolarError
from solar.evaluation.table_text import Table
from solar.files import make_folder, replacing
from solar.models import zoo
from solar.models.inference import checked_device, one_thread
from solar.training import train
from solar.training.patches.recipe import PatchRecipe
from solar.training.recipe import build, read_settings
from solar.training.retrieval.recipe import RetrievalRecipe

_PHOTO, _TIMED = (768, 1024), (384, 512)
_LEARNING = 3  # passes per step: forward, and backward twice as long
_VALIDATION = 300_000  # patches of two PhotoTour subsets
_UNITS = (("days", 86_400), ("h", 3600), ("min", 60))


@dataclass(frozen=True)
class Step:
    """Something that is needed.

    Attributes:
        step: What, in a few words.
        done: Whether it is here.
        source: A command or an address to get it from, or the recipe that trains it.
        bytes: To download.
        operations: Of the networks that run for it.
    """

    step: str
    done: bool
    source: str = ""
    bytes: int = 0
    operations: float = 0.0


@dataclass(frozen=True)
class Training:
    """A network to train: a recipe with changes, and the folder of its run."""

    recipe: str
    folder: Path
    changes: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether it was trained to the end."""
        return (self.folder / "trained.json").is_file()

    @property
    def starts(self) -> list[str]:
        """Published weights that it starts from."""
        network = read_settings(self.recipe, self.changes)["network"]
        named = (network.get("features"), network.get("whitening_from"))
        return [entry.name for entry in zoo.models() if entry.name in named]

    def step(self) -> Step:
        """The work."""
        operations = self._operations()
        return Step(f"train {self.folder.name}", self.done, self.recipe, operations=operations)

    def __call__(self, *, progress: bool = False) -> dict[str, Any]:
        """Train to the end, from where an earlier run stopped; returns what `solar.train` does.

        A SolarError if it was trained with other changes.
        """

        def trained() -> dict[str, Any]:
            how: dict[str, Any] = {"run": self.folder, "resume": True, "progress": progress}
            result = train(self.recipe, self.changes, **how)
            if not result["finished"]:
                raise SolarError(f"{self.folder} is not finished: run the same command again.")
            return {"changes": self.changes, "result": result}

        found = kept(self.folder / "trained.json", trained)
        if found["changes"] != [*self.changes]:
            raise SolarError(
                f"{self.folder} was trained with other settings: give the same ones, or another "
                "folder with `run=`."
            )
        result: dict[str, Any] = found["result"]
        return result

    def _operations(self) -> float:
        settings = read_settings(self.recipe, self.changes)
        if settings["task"] == "patches":
            patches = build(PatchRecipe, settings, self.recipe)
            epoch = sum(_patches(patches.data.source[0], part) for part in patches.data.parts)
            steps = patches.steps or patches.epochs * max(1, epoch // (2 * patches.batch))
            done = _LEARNING * 2 * patches.batch * steps + patches.epochs * _VALIDATION
            return done * _of_patch(patches.network.attention)
        recipe = build(RetrievalRecipe, settings, self.recipe)
        mining, each = recipe.mining, ceil(recipe.mining.queries / recipe.batch)
        steps = recipe.steps or recipe.epochs * each
        learned = _LEARNING * steps * recipe.batch * (2 + mining.negatives)
        mined = (mining.queries + mining.pool) * steps / each
        return sum(
            count * _of_photo(recipe.network.backbone, recipe.network.attention, side, side)
            for count, side in ((learned, recipe.images.size), (mined, recipe.mining_size))
        )


def listed(path: Path) -> str:
    """A path as the only one of a list, in YAML."""
    return json.dumps([str(path)])


def prepare_gl18(root: Path) -> None:
    """Make the training database of the photos, unless it is there."""
    file = root / "gl18" / "db_gl18.pkl"
    if not file.is_file():
        write_gl18(file, build_gl18(file.parent))


def dataset_step(name: str, root: Path) -> Step:
    """A public dataset below the root."""
    here = (root / name).is_dir() and any((root / name).iterdir())
    command = f"solar data get {name} --root {root}"
    return Step(name, here, command, registry.find(name).download)


def model_step(name: str, photos: int = 0) -> Step:
    """Weights, and the description of photos at three scales."""
    entry = {entry.name: entry for entry in zoo.models()}.get(name)
    what = f"describe {photos:,} photos with {name}" if photos else f"weights of {name}"
    if entry is None:
        return Step(what, Path(name).exists())
    source = (*entry.urls, entry.by_hand, entry.recipe, "")[0]
    operations = 0.0
    if photos and entry.task == "retrieval":
        once = _of_photo(entry.architecture, entry.attention, *_PHOTO)
        operations = photos * once * sum(scale**2 for scale in models.SCALES)
    size = 0 if entry.bundled else 4 * entry.parameters
    return Step(what, zoo.is_here(entry), source, size, operations)


def to_table(steps: Sequence[Step], device: str | None) -> Table:
    """Render: what is here, what is missing, and how long the rest takes."""
    speed = operations_per_second(device)
    rows = [
        [
            step.step,
            "here" if step.done else "missing" if step.bytes else "to do",
            step.source,
            f"{step.bytes / 1e9:.3g} GB" if step.bytes and not step.done else "",
            _duration(step.operations / speed) if step.operations else "",
        ]
        for step in steps
    ]
    size = sum(step.bytes for step in steps if not step.done) / 1e9
    # Weights that are here have yet to describe.
    work = sum(step.operations for step in steps if not step.done or step.bytes)
    time = f"about {_duration(work / speed)} here, arithmetic alone"
    note = f"To download: {size:.1f} GB. To compute: {time}."
    return Table([["step"], ["state"], ["from"], ["download"], ["time here"]], [rows], note)


def to_json(steps: Sequence[Step], device: str | None) -> list[dict[str, Any]]:
    """The same as JSON."""
    speed = operations_per_second(device)
    return [{**asdict(step), "seconds": round(step.operations / speed, 1)} for step in steps]


def kept(file: Path, compute: Callable[[], Any]) -> Any:
    """Read a result, or compute and keep it."""
    if not file.is_file():
        found = compute()
        make_folder(file.parent)
        with replacing(file) as part:
            part.write_text(json.dumps(found))
    return json.loads(file.read_text())


@cache
def operations_per_second(device: str | None) -> float:
    """How fast a network describes photos here."""
    where = checked_device(device)
    net = models.RetrievalNet(models.RetrievalConfig("resnet18"))
    describe = FusedNet(net, device=where, scales=(1.0,))
    on_gpu, threads = where.type == "cuda", torch.get_num_threads()
    batch, clock = (32, perf_counter) if on_gpu else (1, thread_time)
    pixels = torch.zeros((batch, *_TIMED, 3), dtype=torch.uint8)
    times = []
    with one_thread():
        for _ in range(4):  # a GPU records its third run
            start = clock()
            describe(pixels).cpu()
            times.append(clock() - start)
    return batch * (1 if on_gpu else threads) * _of_photo("resnet18", "", *_TIMED) / min(times)


@cache
def _of_photo(backbone: str, attention: str, height: int, width: int) -> float:
    places = models.attention_at(attention, models.REDUCTIONS)
    with torch.device("meta"):
        net = models.RetrievalNet(models.RetrievalConfig(backbone, attention=places))
        return _counted(net.backbone, torch.empty(1, 3, height, width))


@cache
def _of_patch(attention: str) -> float:
    places = models.attention_at(attention, models.PATCH_REDUCTIONS)
    with torch.device("meta"):
        net = models.PatchNet(models.PatchConfig(places))
        return _counted(net, torch.empty(1, 1, 32, 32))


def _counted(net: torch.nn.Module, images: torch.Tensor) -> float:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        net.eval()(images)
    return float(counter.get_total_flops())


def _patches(folder: str, part: str) -> int:
    try:
        return len(read_phototour(folder, part).points)
    except SolarError:  # not here yet
        return registry.PHOTOTOUR_PATCHES[part]


def _duration(seconds: float) -> str:
    for unit, length in _UNITS:
        if seconds >= 1.5 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{max(1, seconds):.0f} s"
