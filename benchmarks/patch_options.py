"""What two options of patches change: how they are shrunk, and how sides were trained.

    python benchmarks/patch_options.py --data DIR [--json FILE] MODEL [NAME=FILE …]

Patches are cut from the photo sequences in `affine`, as HPatches are. For every network and both
ways to shrink 65 × 65 pixels to 32 × 32: matching as in HPatches, and FPR95 of 100,000 pairs of
hard patches, half of them of one point. Networks of both settings of `sides` are trained by

    python benchmarks/patch_training.py --photos train-2.tar --sequences affine --out OUT \
        --networks 345 --seeds 1 --steps 300 --set batch=256 \
        'network.layers=[[16,1],[16,2],[32,1],[64,2],[64,1],[64,1]]' \
        --variant together sides=together --variant apart sides=apart
"""

import json
from typing import Any

import numpy as np
from lib.machine import machine
from lib.options import command, parsed, photo_options

from solar.datasets.patches.hpatches import STRIPS, HPatches
from solar.datasets.patches.hpatches_cut import make_hpatches
from solar.evaluation.metrics import fpr95
from solar.evaluation.protocols.hpatches import evaluate_hpatches
from solar.evaluation.protocols.patch_describers import Describe, Shrink, patch_describer
from solar.evaluation.protocols.patch_tasks import pair_distances

PAIRS = 100_000
SHRINKS: tuple[Shrink, ...] = ("area", "bilinear")


def measured(data: HPatches, describe: Describe) -> dict[str, float]:
    """Matching, and FPR95 of pairs of a reference and a hard patch, in percent."""
    rows = {
        name: {kind: describe(data.strip(name, kind)) for kind in STRIPS} for name in data.names
    }
    found = evaluate_hpatches(rows, tasks=("matching",))
    first = np.concatenate([rows[name]["ref"] for name in data.names])
    second = np.concatenate([rows[name][f"h{n}"] for n in range(1, 6) for name in data.names])
    rng, count = np.random.default_rng(0), len(first)
    left = rng.integers(0, count, PAIRS)
    same = np.arange(PAIRS) % 2 == 0
    right = np.where(same, left, (left + rng.integers(1, count, PAIRS)) % count)
    right += count * rng.integers(0, 5, PAIRS)
    distances = pair_distances(np.concatenate([first, second]), left, count + right)
    return {"matching": 100 * found.mean(), "FPR95": 100 * fpr95(distances, same)}


def main() -> None:
    """Measure every network with both options."""
    parser = photo_options(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    arguments = parsed(parser)
    data = make_hpatches(arguments.data / "affine")
    results: dict[str, Any] = {}
    for given in arguments.models:
        name, _, model = given.rpartition("=")
        for shrink in SHRINKS:
            found = measured(data, patch_describer(model, shrink=shrink))
            results.setdefault(name or model, {})[shrink] = found
            print(name or model, shrink, found, flush=True)
    if arguments.json:
        about = {"command": command(), "machine": machine()}
        arguments.json.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
