"""`solar export`: networks for programs that do not have solar."""

from typing import Annotated

import typer

from solar.cli.completion import any_models
from solar.cli.help import Commands
from solar.cli.options import Output, Scales, parse_scales
from solar.cli.printing import check_suffix, say
from solar.errors import SolarError

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
    scales: Scales = None,
) -> None:
    """Write ONNX: normalised photos of any size in, the embeddings of an index out."""
    from solar.models import RetrievalNet, load
    from solar.models.export import export_onnx

    check_suffix(output, [".onnx"])
    net, chosen = load(model, device="cpu"), parse_scales(scales)
    if isinstance(net, RetrievalNet):
        chosen = chosen or net.config.scales
    elif chosen:
        raise SolarError(f"{model} describes patches at one scale: leave out --scales.")
    export_onnx(net, output, scales=chosen)
    averaged = ", ".join(f"{scale:.4g}" for scale in chosen or ())
    say(f"{model} → {output}" + (f" (scales averaged: {averaged})" if averaged else ""))


@app.command("torch", epilog="Example: solar export torch solar-r101 -o solar-r101.pt2")
def torch(model: _Model, output: Output) -> None:
    """Write a torch.export program that loads without solar."""
    from solar.models import load
    from solar.models.export import export_torch

    check_suffix(output, [".pt2"])
    export_torch(load(model, device="cpu"), output)
    say(f"{model} → {output}")
