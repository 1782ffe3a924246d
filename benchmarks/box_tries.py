"""Try settings for the bundled networks one after the other, on photos that are read once.

    python benchmarks/box_tries.py benchmarks/box_tries.txt --photos FOLDER --data DIR --out OUT

A line of the plan is a try: its name, a recipe of `solar distill` and settings, as on the command
line. `@NAME` in a setting is the student of an earlier try, `@NAME.teacher` the teacher it tuned,
`@data` is DIR, and `mean=A+B+C` takes the mean of their weights in place of training. Photos are
all *.tar in FOLDER (benchmarks/box_photos.py makes them) and landmarks/train-*.tar in DIR (or
SOLAR_DATA), which also holds what tries are judged by: landmarks val without and with the
distractors, and buildings val; up to 384 px, three scales, every photo a query.

Students go to OUT/NAME.safetensors, figures to OUT/tries.json after every try; what is already
there is not repeated. --until leaves out tries that would end too late (one takes as long as
`seconds` in its line says), --vectors NAME keeps descriptors of all labelled photos as well, for
experiments with the last layer.
"""

import argparse
import json
import os
import shlex
import time
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib.machine import machine
from lib.options import parsed
from lib.taught import SIZE
from lib.timed_lines import elapsed, say
from safetensors.torch import load_file

from solar.datasets.labelled.photo_labels import labelled_photos
from solar.evaluation import evaluate_labels
from solar.images import find_photos
from solar.models import SCALES, RetrievalNet, retrieval_model, save
from solar.models.inference import best_device
from solar.training.distill.image_cache import ImageCache, cache_images
from solar.training.distill.recipe import command_recipe
from solar.training.distill.task import Batch, DistillTrainer
from solar.training.retrieval.validate import described_at


@cache
def _read(source: tuple[str, ...], size: int, where: Any, device: str) -> Sequence[ImageCache]:
    return cache_images(source, size, cache=where, device=torch.device(device))


class Try(DistillTrainer):
    """A distillation whose photos stay in memory for the next."""

    def read_photos(self) -> Sequence[ImageCache]:
        """As they were read before, if they were."""
        data = self.recipe.data
        return _read(tuple(map(str, data.source)), data.size, data.cache, str(self.device))


class Finish(Try):
    """Only whitens what it starts from."""

    def batches(self) -> Iterator[Batch]:
        """None."""
        return iter(())


class Tries:
    """A plan that is being carried out."""

    def __init__(self, out: Path, photos: Path, data: Path, kept: Collection[str] = ()) -> None:
        self.out, self.data, self.kept = out, data, kept
        out.mkdir(parents=True, exist_ok=True)
        self.photos = sorted(map(str, (*photos.glob("*.tar"), *data.glob("landmarks/train-*.tar"))))
        self.record = out / "tries.json"
        self.done: dict[str, Any] = {}
        if self.record.exists():
            self.done = json.loads(self.record.read_text())["tries"]

    def run(self, name: str, recipe: str, settings: list[str]) -> None:
        """Train, judge and write down."""
        began = time.monotonic()
        means = [one.removeprefix("mean=") for one in settings if one.startswith("mean=")]
        given = [self._resolved(one) for one in settings if not one.startswith("mean=")]
        if means:
            given.append(f"student.start={self._mean(name, means[0].split('+'))}")
        wanted = command_recipe([recipe, *self.photos, *given])
        folder = self.out / "runs" / name
        summary = (Finish if means else Try)(wanted, folder).fit()
        net = retrieval_model(summary["model"], device=best_device())
        save(net, self.out / f"{name}.safetensors")
        self._keep_teacher(name, folder / "teacher.safetensors", wanted.teacher[0])
        trained = time.monotonic()
        found = self._described(net)
        figures = judge(found)
        self.done[name] = {
            "recipe": recipe,
            "settings": settings,
            **figures,
            **{key: summary[key] for key in ("steps", "places", "pooled")},
            "seconds": round(trained - began, 1),
        }
        told = {"machine": machine(), "tries": self.done}
        self.record.write_text(json.dumps(told, indent=1) + "\n")
        say(f"{name}: {figures}, {trained - began:.0f} s and {time.monotonic() - trained:.0f} s")
        if name in self.kept:
            self._keep_vectors(name, net, found)
            say(f"{name}: vectors")

    def _resolved(self, setting: str) -> str:
        for name in sorted(self.done, key=len, reverse=True):
            setting = setting.replace(f"@{name}.teacher", str(self.out / f"{name}-teacher.ts"))
            setting = setting.replace(f"@{name}", str(self.out / f"{name}.safetensors"))
        return setting.replace("@data", str(self.data))

    def _mean(self, name: str, others: Sequence[str]) -> Path:
        """Average networks that began at the same weights; their whitenings are no use any more."""
        nets = [retrieval_model(self.out / f"{one}.safetensors", device="cpu") for one in others]
        states = [net.backbone.state_dict() for net in nets]
        for key, value in states[0].items():
            if value.is_floating_point():
                value.copy_(torch.stack([state[key] for state in states]).mean(0))
        return Path(save(nets[0], self.out / f"{name}-start.safetensors"))

    def _keep_teacher(self, name: str, weights: Path, teacher: str) -> None:
        """Write a teacher that learned as the program that it was."""
        if weights.exists():
            program: Any = torch.jit.load(teacher, map_location="cpu")  # type: ignore[no-untyped-call]
            program.load_state_dict(load_file(weights))
            torch.jit.save(program, self.out / f"{name}-teacher.ts")

    def _described(self, net: RetrievalNet) -> dict[str, Any]:
        """Descriptors of what tries are judged by, and labels."""
        distractors = find_photos(self.data / "landmarks/distractors-0.tar")
        found: dict[str, Any] = {"distractors": described_at(net, distractors, SIZE, SCALES)[1]}
        for part in ("landmarks", "buildings"):
            found |= self._labelled(net, part, [self.data / part / "val-0.tar"])
        return found

    def _labelled(self, net: RetrievalNet, part: str, source: Sequence[Path]) -> dict[str, Any]:
        photos, labels = labelled_photos(source)
        known = dict(zip(photos.names, labels, strict=True))
        names, vectors = described_at(net, photos, SIZE, SCALES)
        return {part: vectors, f"{part}_labels": [known[name] for name in names]}

    def _keep_vectors(self, name: str, net: RetrievalNet, found: dict[str, Any]) -> None:
        """Write descriptors, in half precision, with those of the labelled photos to learn from."""
        learnt = [path for path in map(Path, self.photos) if not path.name.startswith("coco")]
        kept: dict[str, Any] = {}
        for key, value in {**found, **self._labelled(net, "train", learnt)}.items():
            array = np.array(value)
            kept[key] = array.astype(np.float16) if array.dtype.kind == "f" else array
        np.savez(self.out / f"{name}.npz", **kept)


def judge(found: dict[str, Any]) -> dict[str, float]:
    """MAP in percent on landmarks val, with distractors, and on buildings val."""
    measured = {
        "landmarks": evaluate_labels(found["landmarks"], found["landmarks_labels"]),
        "with distractors": evaluate_labels(
            found["landmarks"], found["landmarks_labels"], distractors=found["distractors"]
        ),
        "buildings": evaluate_labels(found["buildings"], found["buildings_labels"]),
    }
    return {key: round(100 * one.mean("AP", "all"), 2) for key, one in measured.items()}


def main() -> None:
    """Carry out a plan."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("plan", type=Path)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=os.environ.get("SOLAR_DATA"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--until", type=float, default=1e12, help="seconds from now")
    parser.add_argument("--vectors", nargs="*", default=[])
    options = parsed(parser)
    tries = Tries(options.out, options.photos, options.data, options.vectors)
    for line in options.plan.read_text(encoding="utf-8").splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0] in tries.done:
            continue
        name, recipe, *settings = words
        needed = next((float(s[8:]) for s in settings if s.startswith("seconds=")), 0.0)
        if elapsed() + needed + 30 > options.until:
            say(f"no time for {name}")
            continue
        tries.run(name, recipe, settings)


if __name__ == "__main__":
    main()
