"""Time on a GPU, by its own clock."""

from collections.abc import Callable
from typing import Any

import torch


def gpu_milliseconds(run: Callable[[], Any]) -> float:
    """How long a call keeps the GPU busy."""
    start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))
