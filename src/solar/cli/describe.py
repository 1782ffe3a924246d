"""`solar describe`: photos to descriptors."""

from pathlib import Path
from typing import Annotated

import typer

from solar.cli.options import Box, Device, IgnoreOrientation, Model, Scales, Size
from solar.weights import DEFAULT

EXAMPLE = "Example: solar describe a.jpg b.jpg -o ab.npy"


def describe(
    images: Annotated[
        list[Path], typer.Argument(help="Photos, one descriptor each, in this order.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="A .npy file: float32 (n, dim).")],
    model: Model = DEFAULT,
    size: Size = None,
    scales: Scales = None,
    box: Box = None,
    ignore_orientation: IgnoreOrientation = False,
    device: Device = None,
) -> None:
    """Write a vector for each photo to a .npy file."""
    import numpy as np

    from solar.cli.printing import errors, progress
    from solar.errors import SolarError
    from solar.files import replacing
    from solar.images import parse_box
    from solar.models import RetrievalNet, load

    if output.suffix != ".npy":
        raise SolarError(f"The output {output} must end in .npy.")
    wanted_scales = None if scales is None else parse_scales(scales)
    wanted_box = None if box is None else parse_box(box)
    network = load(model, device=device)
    if not isinstance(network, RetrievalNet):
        raise SolarError(f"{model} describes patches, not photos: choose a retrieval model.")
    upright = not ignore_orientation
    rows = [
        network.describe(image, size=size, scales=wanted_scales, box=wanted_box, orient=upright)
        for image in progress(images, len(images), "Describing")
    ]
    with replacing(output) as temporary, temporary.open("wb") as file:
        np.save(file, np.concatenate(rows))
    errors().print(f"{len(rows)} × {network.dim} → {output}")


def parse_scales(text: str, option: str = "--scales") -> tuple[float, ...]:
    """Read "1,1.41,0.7"; raise a SolarError for anything but positive numbers."""
    from math import isfinite

    from solar.errors import SolarError

    try:
        scales = tuple(float(part) for part in text.split(","))
    except ValueError:
        scales = ()
    if not scales or any(not isfinite(s) or s <= 0 for s in scales):
        raise SolarError(f"{option} takes positive numbers such as 1,1.41,0.71, not {text!r}.")
    return scales
