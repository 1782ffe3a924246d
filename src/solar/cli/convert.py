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
) -> None:
    """Convert a weights file to another format.

    -o takes a .safetensors (solar's format) or a .pth (the published format).
    --compress fp16 halves the size, but not of a .pth.

    Options:
        source: A .pth, a .safetensors or a model's name.
    """
    from solar import models

    with warnings_as_sentences():
        path = models.convert(source, output, half=is_half(compress))
    say(f"{source} → {path}")
