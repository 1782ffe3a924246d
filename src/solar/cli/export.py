"""`solar export`: networks for programs that do not have solar."""

from typing import Annotated

import typer

from solar.cli.completion import any_models
from solar.cli.help import Commands
from solar.cli.options import Output
from solar.cli.printing import check_suffix, say

app = Commands(help="Export a network to ONNX or torch.export.")

EXAMPLE = "Example: solar export onnx solar-r101 -o solar-r101.onnx"

_Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A name from `solar models`, a .safetensors or a published .pth.",
        autocompletion=any_models,
    ),
]


@app.command("onnx", epilog=EXAMPLE)
def onnx(
    model: _Model,
    output: Output,
    multiscale: bool = False,
) -> None:
    """Write ONNX: normalised photos of any size in, unit vectors output.

    Options:
        multiscale: Include the model's scales and their average.
    """
    from solar.models import load
    from solar.models.export import export_onnx

    check_suffix(output, [".onnx"])
    export_onnx(load(model, device="cpu"), output, multiscale=multiscale)
    say(f"{model} → {output}")


@app.command("torch", epilog="Example: solar export torch solar-r101 -o solar-r101.pt2")
def torch(model: _Model, output: Output) -> None:
    """Write a torch.export program that loads without solar."""
    from solar.models import load
    from solar.models.export import export_torch

    check_suffix(output, [".pt2"])
    export_torch(load(model, device="cpu"), output)
    say(f"{model} → {output}")
