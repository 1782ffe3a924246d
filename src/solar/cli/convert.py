"""`solar convert`: weights from one format to another."""

from typing import Annotated

import typer

from solar.cli.completion import any_models
from solar.cli.options import Compress, Output, is_half
from solar.cli.printing import say, warnings_as_sentences

EXAMPLE = "Example: solar convert resnet101-solar-best.pth -o solar-r101.safetensors"


def convert(
    source: Annotated[str, typer.Argument(metavar="MODEL", autocompletion=any_models)],
    output: Output,
    compress: Compress = None,
    hub: bool = False,
) -> None:
    """Convert a weights file to another format.

    -o takes a .safetensors (solar's format), a .pth (the published format), or with
    --hub a folder. --compress fp16 halves the size, but not of a .pth.

    Options:
        source: A .pth, a .safetensors or a model's name.
        hub: Write a folder for the Hugging Face Hub, with a model card.
    """
    from solar import models

    with warnings_as_sentences():
        path = models.convert(source, output, half=is_half(compress), hub=hub)
    say(f"{source} → {path}")
