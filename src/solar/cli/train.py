"""`solar train`: train or fine-tune a network from a recipe."""

import os
from pathlib import Path
from typing import Annotated

import typer

from solar.cli.completion import recipes
from solar.cli.options import Device, Json, Resume, Run
from solar.cli.printing import print_json, say

EXAMPLE = (
    "Example: solar train few-places data.source=set.json network.start=solar-lite0 --run runs/mine"
)


def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", autocompletion=recipes)],
    settings: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE")] = None,
    run: Run = None,
    resume: Resume = False,
    device: Device = None,
    json: Json = False,
) -> None:
    """Train from a recipe; --resume continues an interrupted run.

    The default folder is runs/RECIPE. With several GPUs:
    torchrun --nproc-per-node 4 -m solar train …

    Options:
        recipe: A YAML file, or the name of a bundled recipe.
        settings: Overrides, such as loss.margin=0.9.
    """
    from solar.training import train as work

    changes = [*(settings or ()), *([f"compute.device={device}"] if device else ())]
    summary = work(recipe, changes, run=run, resume=resume, progress=True)
    if os.environ.get("RANK", "0") != "0":
        return  # one of several processes speaks
    if json:
        print_json(summary)
    else:
        score = summary.get("mAP")
        found = "" if score is None else f", mAP {score:.1f}"
        say(f"{summary['steps']} steps → {summary['model']}{found}")
        if not summary["finished"]:
            say("Stopped at the time limit: continue with the same command and --resume.")
