r"""Measure networks of several seeds beside each other: with and without attention, for example.

    python benchmarks/twins.py GeM=gem-0.safetensors GeM=gem-1.safetensors \
        SOLAR=solar-0.safetensors SOLAR=solar-1.safetensors … --data DIR --out OUT --json FILE

Networks of one name differ in their seeds: the mean and deviation of mAP over them, and a paired
interval of the difference from the first name's. Photos are those of the model cards, at most 384
pixels, at each network's scales, described as in benchmarks/box_layer.py; what the networks pool is
kept in OUT.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from box_layer import judged, kept, pooled_by, to_judge_by, whitening_of
from lib.machine import machine
from lib.options import command, parsed, photo_options
from lib.seeds import summary
from lib.timed_lines import say

from solar.datasets.labelled.photo_labels import labelled_photos
from solar.evaluation.result import Evaluation
from solar.images import find_photos
from solar.models import retrieval_model


def main() -> None:
    """Describe, judge, compare."""
    parser: argparse.ArgumentParser = photo_options(__doc__)
    parser.add_argument("networks", nargs="+", metavar="NAME=FILE", help="the first is the base")
    parser.add_argument("--out", type=Path, required=True)
    options = parsed(parser)
    options.out.mkdir(parents=True, exist_ok=True)
    tests = {
        name: labelled_photos(options.data / name / "val-0.tar")
        for name in ("landmarks", "buildings")
    }
    photos = {name: test[0] for name, test in tests.items()}
    photos["distractors"] = find_photos(options.data / "landmarks/distractors-0.tar")
    found: dict[str, list[dict[str, Evaluation]]] = {}
    for name, file in (one.split("=", 1) for one in options.networks):
        net = retrieval_model(file, device="cpu").eval()

        def look(net: Any = net) -> dict[str, Any]:
            run = pooled_by(net)
            return {key: to_judge_by(one, net, run).numpy() for key, one in photos.items()}

        shown = kept(options.out / f"{Path(file).stem}.npz", look)
        pooled = {key: torch.from_numpy(one) for key, one in shown.items()}
        found.setdefault(name, []).append(judged(whitening_of(net), pooled, tests))
        say(f"{name} {file}")
    rows = list(summary(found, [next(iter(found))]))
    for row in rows:
        print(row["network"], {key: one["each"] for key, one in row.items() if "each" in str(one)})
    if options.json:
        told = {"machine": machine(), "command": command(), "rows": rows}
        options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
