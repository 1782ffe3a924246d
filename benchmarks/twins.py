r"""Measure networks of several seeds beside each other: with and without attention, for example.

    python benchmarks/twins.py GeM=gem-0.safetensors GeM=gem-1.safetensors \
        SOLAR=solar-0.safetensors SOLAR=solar-1.safetensors … --data DIR --out OUT --json FILE

Networks of one name differ in their seeds: the mean and deviation of mAP over them, and a paired
interval of the difference from the first name's. Photos are those of the model cards, at most 384
pixels, at each network's scales, described as in benchmarks/box_layer.py; what the networks pool is
kept in OUT.
"""

import argparse
from pathlib import Path

from box_layer import Tests, told, whitening_of
from lib.options import parsed, photo_options
from lib.timed_lines import say

from solar.evaluation.result import Evaluation
from solar.models import retrieval_model


def main() -> None:
    """Describe, judge, compare."""
    parser: argparse.ArgumentParser = photo_options(__doc__)
    parser.add_argument("networks", nargs="+", metavar="NAME=FILE", help="the first is the base")
    parser.add_argument("--out", type=Path, required=True)
    options = parsed(parser)
    options.out.mkdir(parents=True, exist_ok=True)
    tests = Tests(options.data)
    found: dict[str, list[dict[str, Evaluation]]] = {}
    for name, file in (one.split("=", 1) for one in options.networks):
        net = retrieval_model(file, device="cpu").eval()
        pooled = tests.pooled(net, options.out / f"{Path(file).stem}.npz")
        found.setdefault(name, []).append(tests.judged(whitening_of(net), pooled))
        say(f"{name} {file}")
    told(found, [next(iter(found))], options.json)


if __name__ == "__main__":
    main()
