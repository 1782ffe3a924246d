"""Trying things out in another process: a broken package may print, hang or end its process."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from solar.errors import SolarError
from solar.weights import DEFAULT

SECONDS = 180.0
_LONGEST = 300  # letters of an error


@dataclass(frozen=True)
class Attempt:
    """The outcome of a task: whether it worked, otherwise the error; and what it returned."""

    works: bool
    text: str = ""
    value: Any = None


def attempt(tasks: Sequence[str], seconds: float = SECONDS) -> dict[str, Attempt]:
    """Import modules, or call each `module:function`, in processes of a limited time."""
    answers: dict[str, Attempt] = {}
    waiting = list(tasks)
    while waiting:
        done, end = _run(waiting, seconds)
        answers.update(zip(waiting, done, strict=False))
        waiting = waiting[len(done) :]
        if waiting:
            answers[waiting.pop(0)] = Attempt(False, end)
    return answers


def work(answers: Path, tasks: Sequence[str]) -> None:
    """Run tasks in this process; append one line of JSON per task to the file."""
    with answers.open("a", encoding="utf-8") as file:
        for task in tasks:
            works, text, value = True, "", None
            module, _, function = task.partition(":")
            try:
                found = import_module(module)
                value = getattr(found, function)() if function else None
            except BaseException as error:  # also SystemExit
                kind = "" if isinstance(error, SolarError) else f"{type(error).__name__}: "
                text = " ".join(f"{kind}{error}".split()).removesuffix(":")
                works, text = False, text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
            file.write(json.dumps([works, text, value]) + "\n")
            file.flush()


def _run(tasks: Sequence[str], seconds: float) -> tuple[list[Attempt], str]:
    program = "import sys, pathlib; from solar.doctor.probe import work; "
    program += "work(pathlib.Path(sys.argv[1]), sys.argv[2:])"
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers"
        answers.touch()
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-c", program, str(answers), *tasks],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=seconds,
            )
            code = done.returncode
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            end = f"it ended the process with {how}"
        except subprocess.TimeoutExpired:
            end = f"it did not finish within {seconds:.0f} s"
        # A killed process may leave half a line.
        whole = answers.read_text(encoding="utf-8").rpartition("\n")[0]
        return [Attempt(*json.loads(line)) for line in whole.splitlines()], end


def devices() -> dict[str, Any]:
    """The devices of torch."""
    import torch

    from solar.models.inference import best_device

    gpus = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return {
        "used": best_device(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
        "gpus": [
            {"name": g.name, "memory": g.total_memory, "capability": f"{g.major}.{g.minor}"}
            for g in gpus
        ],
    }


def photo_formats() -> list[str]:
    """Readable photo formats, among those that depend on how Pillow was built or extended."""
    from importlib.util import find_spec

    from PIL import features

    readers = {"JPEG": "libjpeg_turbo", "WebP": "webp", "AVIF": "avif"}
    found = [name for name, library in readers.items() if features.check(library)]
    return [*found, *(["HEIC"] if find_spec("pillow_heif") else [])]


def self_test() -> str:
    """Describe two generated photos, index them, and find one of them again."""
    from time import perf_counter

    from solar.demo.toy import landmark
    from solar.index import Index
    from solar.models import retrieval_model

    started = perf_counter()
    net = retrieval_model(DEFAULT)
    vectors = net.describe([landmark(0, 0), landmark(1, 0)], size=224, scales=(1.0,))
    with tempfile.TemporaryDirectory() as folder:
        index = Index.create(Path(folder) / "toy.solar", vectors, ["0.jpg", "1.jpg"])
        [[best]] = index.engine.search(vectors[1:], 1)
        index.close()
    if best.path != "1.jpg" or abs(best.score - 1) > 1e-3:
        raise SolarError(
            f"The search for 1.jpg found {best.path} with the score {best.score:.4f} instead of 1."
        )
    seconds = perf_counter() - started
    where = f"with {DEFAULT} on {net.device.type}"
    return f"Described two photos {where} and found one of them again, in {seconds:.1f} s."
