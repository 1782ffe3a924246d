"""What a run of training logged."""

import json
from pathlib import Path
from typing import Any


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`, without a last one that was cut short."""
    lines = (Path(folder) / "metrics.jsonl").read_text().split("\n")
    return [json.loads(line) for line in lines[:-1]]
