"""`solar convert`: weights from one format to another."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from solar.cli.completion import any_models
from solar.cli.printing import say, warnings_as_sentences

EXAMPLE = "Example: solar convert resnet101-solar-best.pth solar-r101.safetensors"


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help="A .pth, a .safetensors or a model's name.",
            autocompletion=any_models,
        ),
    ],
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="A .safetensors (solar's format), a .pth (the published format), or with "
            "--format hf a folder.",
        ),
    ],
    half: Annotated[
        bool,
        typer.Option("--half", help="Write float16, half the size; not for a .pth."),
    ] = False,
    format: Annotated[
        Literal["hf"] | None,
        typer.Option(help="hf: write a folder for the Hugging Face Hub, with a model card."),
    ] = None,
) -> None:
    """Convert a weights file to another format."""
    from solar import models

    with warnings_as_sentences():
        path = models.convert(source, destination, half=half, format=format)
    say(f"{source} → {path}")
