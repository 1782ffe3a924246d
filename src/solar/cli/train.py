"""`solar train`: a recipe and photos to a network."""

import os
from pathlib import Path
from typing import Annotated

import typer

from solar.cli.options import Device, Json
from solar.cli.printing import print_json, say

EXAMPLE = (
    "Example: solar train recipes/solar-r18-small.yaml data.source=set.json "
    "network.start=solar-r18 --run runs/mine"
)


def train(
    recipe: Annotated[Path, typer.Argument(help="A YAML file, such as those in recipes/.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="Changes to it: key=value, as in loss.margin=0.9.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="Folder for checkpoints and figures; default: runs/ and the recipe."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the folder's newest checkpoint.")
    ] = False,
    device: Device = None,
    json: Json = False,
) -> None:
    """Train a network as a recipe says; --resume goes on after a stop.

    With several GPUs: torchrun --nproc-per-node 4 -m solar train …
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
            say("The time is up: the same command with --resume goes on.")
