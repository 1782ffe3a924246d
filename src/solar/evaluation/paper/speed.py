"""Cost of describing a photo: time, peak memory, and the size of a million descriptors.

Each model is measured in its own process, because the peak of a process never goes down again.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from statistics import median
from time import perf_counter
from typing import Any

from solar.errors import SolarError
from solar.evaluation.paper.tables import COSTS, DISTRACTORS
from solar.evaluation.table_text import Table, number


@dataclass(frozen=True)
class Speed:
    """What one model costs here."""

    name: str
    where: str  # the device
    seconds: float  # median of `runs` for a photo of 4:3 in memory, at all scales
    peak: int  # bytes, at most: of the process, or of a GPU's memory
    parameters: int  # learnt numbers
    descriptors: int  # bytes of float32 descriptors of the paper's million distractors
    size: int  # longest side of the photo
    scales: tuple[float, ...]
    runs: int  # after a first that does not count


def measure_speed(
    model: str,
    *,
    name: str | None = None,
    size: int | None = None,
    scales: Sequence[float] | None = None,
    device: str | None = None,
    runs: int = 5,
) -> Speed:
    """Measure a model, as `solar.load` takes it, `runs` times in a fresh process.

    Size, scales and device are the model's own by default. A SolarError if the model cannot be
    loaded, or does not describe photos.
    """
    how = {"size": size, "scales": scales, "device": device}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        try:
            return fresh.submit(_measure_here, model, name or model, runs, how).result()
        except BrokenProcessPool as error:
            raise SolarError(f"Measuring {model} failed: is there enough memory?") from error


def _measure_here(model: str, name: str, runs: int, how: dict[str, Any]) -> Speed:
    import numpy as np
    import torch

    from solar.describe.runtime import describer
    from solar.describe.settings import Settings
    from solar.models import retrieval_model

    net = retrieval_model(model, device=how["device"])
    settings = Settings.of(net, **how)
    describe = describer(net, settings)
    shape = (1, settings.size * 3 // 4, settings.size, 3)
    photo = torch.from_numpy(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))
    times = []
    on_gpu = settings.device == "cuda"
    for _ in range(runs + (3 if on_gpu else 1)):  # a GPU records its third run
        start = perf_counter()
        describe(photo).cpu()
        times.append(perf_counter() - start)
    return Speed(
        name,
        torch.cuda.get_device_name() if on_gpu else "processor",
        median(times[-runs:]),
        torch.cuda.max_memory_allocated() if on_gpu else _peak(),
        sum(parameter.numel() for parameter in net.parameters()),
        DISTRACTORS * net.dim * 4,
        settings.size,
        settings.scales,
        runs,
    )


def _peak() -> int:
    """Peak bytes of this process; 0 on Windows."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def to_table(found: Sequence[Speed]) -> Table:
    """Render below the published rows."""
    head = [["Method"], ["device"], ["s per photo"], ["peak GiB"], ["M parameters"], ["GiB for 1M"]]
    published = [
        [one.name, one.where, one.seconds, "", "", number(one.descriptors)] for one in COSTS
    ]
    measured = [
        [
            f"→ {one.name}",
            one.where,
            number(one.seconds, 3),
            number(one.peak / 2**30, 2) if one.peak else "",
            number(one.parameters / 1e6),
            number(one.descriptors / 2**30),
        ]
        for one in found
    ]
    note = "Published rows first; → marks what was measured here, one photo at a time."
    return Table(head, [published, measured] if measured else [published], note)


def to_json(found: Sequence[Speed]) -> dict[str, Any]:
    """The same as JSON."""
    return {"published": [*map(asdict, COSTS)], "measured": [*map(asdict, found)]}
