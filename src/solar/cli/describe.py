"""`solar describe`: photos to descriptors."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solar.cli.options import (
    Backend,
    Box,
    Device,
    Half,
    IgnoreOrientation,
    Model,
    Report,
    Scales,
    Size,
)
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.arrays import Floats, Pixels
    from solar.describe.settings import Settings
    from solar.models import RetrievalNet

EXAMPLE = "Example: solar describe a.jpg b.jpg -o ab.npy"


def describe(
    images: Annotated[
        list[Path], typer.Argument(help="Photos; the rows of the output have the same order.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="A .npy file of shape (n, dim).")],
    model: Model = DEFAULT,
    size: Size = None,
    scales: Scales = None,
    box: Box = None,
    ignore_orientation: IgnoreOrientation = False,
    half: Half = False,
    device: Device = None,
    backend: Backend = "torch",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip photos that cannot be read.")
    ] = False,
    report: Report = None,
) -> None:
    """Write the embedding of each photo to a .npy file.

    If a photo cannot be read, nothing is written; with --skip-bad or
    --report, it is skipped instead.
    """
    import numpy as np

    from solar.cli.printing import photo_progress, warnings_as_sentences
    from solar.cli.skip_report import print_summary, write_report
    from solar.describe.counting import counted
    from solar.describe.settings import Settings
    from solar.errors import SolarError
    from solar.files import replacing
    from solar.images import parse_box
    from solar.models import RetrievalNet, load

    if output.suffix != ".npy":
        raise SolarError(f"The output {output} must end in .npy.")
    wanted_scales = None if scales is None else parse_scales(scales)
    wanted_box = None if box is None else parse_box(box)
    skipped = {str(image): why for image in images if (why := _unusable(image))}
    skipping = skip_bad or report is not None
    if skipped and not skipping:  # told before any work
        raise SolarError(next(iter(skipped.values())))
    network = load(model, device=device if backend == "torch" else device or "cpu")
    if not isinstance(network, RetrievalNet):
        raise SolarError(f"{model} describes patches, not photos: choose a retrieval model.")
    usable = [image for image in images if str(image) not in skipped]
    settings = Settings.of(
        network, size=size, scales=wanted_scales, orient=not ignore_orientation, backend=backend
    )
    rows, done = [], []
    # Opened first: an output that cannot be written is told before the work, too.
    with replacing(output) as temporary:
        with photo_progress(resumable=False) as shown, warnings_as_sentences():
            run = _runner(network, settings, usable)
            advance = counted(shown, "Describing", len(usable))
            for image in usable:
                try:
                    pixels = settings.decode(image, wanted_box).pixels
                except SolarError as error:
                    if not skipping:
                        raise
                    skipped[str(image)] = str(error)
                    advance(1)
                    continue
                rows.append(run(pixels))
                done.append(str(image))
                advance(1)
        with temporary.open("wb") as file:
            table = np.stack(rows) if rows else np.empty((0, network.dim), np.float32)
            np.save(file, table.astype(np.float16) if half else table)
    if report is not None:
        write_report(report, len(done), skipped, "Described", photos=done)
    print_summary("Described", len(done), skipped, where=str(output))


def _unusable(photo: Path) -> str | None:
    """Why a photo cannot be opened, as far as that shows without opening it."""
    try:
        mode = photo.stat().st_mode
    except FileNotFoundError:
        return f"There is no photo {photo}: check the path."
    except (OSError, ValueError) as error:
        return f"{photo} cannot be opened: {getattr(error, 'strerror', None) or error}."
    if stat.S_ISDIR(mode):
        return f"{photo} is a folder: name a photo in it, or use `solar extract`."
    return None if stat.S_ISREG(mode) else f"{photo} is not a regular file."


def _runner(
    network: "RetrievalNet", settings: "Settings", photos: list[Path]
) -> "Callable[[Pixels], Floats]":
    """What gives the descriptor (dim,) of a decoded photo, on the backend that is asked for."""
    if settings.backend == "torch":
        size, scales = settings.size, settings.scales
        return lambda pixels: network.describe(pixels, size=size, scales=scales)[0]

    from solar.describe.pipeline import describer, stack
    from solar.images import Photos

    run = describer(network, settings, Photos(tuple(map(str, photos)), tuple(photos)))
    return lambda pixels: run(stack([pixels], run.device))[0].cpu().numpy()


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
