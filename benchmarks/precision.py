"""What bfloat16 in the backbone, as on a GPU, changes in mAP against float32.

    python benchmarks/precision.py --data DIR [--model solar-r18] [--size 384] [--json FILE]

One scale; pooling, whitening and norms are float32 in both. A processor needs bfloat16
instructions.
"""

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from lib.machine import machine
from lib.options import command, parsed, photo_options

import solar
from solar.evaluation import compare, interval

SETS = ("landmarks/val-0.tar", "buildings/val-0.tar")


def compared(indexes: list[solar.Index]) -> dict[str, Any]:
    """Figures of one set, described in float32 and in bf16."""
    one, two = (solar.evaluate(index.place) for index in indexes)
    first, second = (np.asarray(index.vectors) for index in indexes)
    change = asdict(compare(one, two))
    low, high = interval(one.protocols["all"]["AP"])
    return {
        "queries": len(one.queries),
        **{"float32": 100 * one.mean(), "interval": [100 * low, 100 * high]},
        "bf16": 100 * two.mean(),
        **{name: 100 * change[name] for name in ("difference", "low", "high")},
        **{"p": change["p"], "lowest cosine": float((first * second).sum(1).min())},
    }


def main() -> None:
    """Describe every set in both precisions, and compare."""
    parser = photo_options(__doc__)
    parser.add_argument("--model", default="solar-r18")
    parser.add_argument("--size", type=int, default=384)
    arguments = parsed(parser)
    net = solar.load(arguments.model, device="cpu")
    rows: dict[str, Any] = {}
    with TemporaryDirectory() as folder:

        def indexes(photos: str) -> list[solar.Index]:
            found = []
            for precision in ("float32", "bf16"):
                place = Path(folder, f"{photos.replace('/', '-')}-{precision}.solar")
                how = {"model": net, "size": arguments.size, "precision": precision, "scales": [1]}
                found.append(solar.build(Path(arguments.data, photos), place, **how))
            return found

        for photos in SETS:
            rows[photos] = compared(indexes(photos))
            print(photos, json.dumps(rows[photos], indent=1), flush=True)
    if arguments.json:
        about = {"command": command(), "machine": machine()}
        arguments.json.write_text(json.dumps({**about, "results": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
