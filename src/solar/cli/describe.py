"""`solar describe`: photos to embeddings."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solar.cli import options
from solar.errors import SolarError
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.arrays import Floats, Pixels
    from solar.describe.network import Network
    from solar.describe.settings import Settings

EXAMPLE = "Example: solar describe a.jpg b.jpg -o ab.npy"


def describe(
    images: Annotated[list[Path], typer.Argument(metavar="PHOTO")],
    output: options.Output,
    model: options.Model = None,
    size: options.Size = None,
    scales: options.Scales = None,
    box: options.Boxes = None,
    ignore_orientation: options.IgnoreOrientation = False,
    compress: options.Compress = None,
    device: options.Device = None,
    backend: options.Backend = None,
    skip_bad: options.SkipBad = False,
    report: options.Report = None,
) -> None:
    """Write the embeddings of photos to a .npy file (n, dim).

    A single --box is used in every photo. If a photo cannot be read, nothing is
    written; with --skip-bad or --report, it is skipped instead.

    Options:
        images: Photos; the rows of the output have the same order.
    """
    import numpy as np

    from solar.cli import printing
    from solar.cli.progress import steps
    from solar.describe.network import network_of
    from solar.describe.progress import counted
    from solar.describe.settings import Settings
    from solar.files import replacing
    from solar.images import image_size

    printing.check_suffix(output, [".npy"])
    half, backend = options.is_half(compress), backend or "auto"
    box_of = dict(zip(images, options.boxes(box, len(images), shared=True), strict=True))
    skipping, skipped = skip_bad or report is not None, dict[str, str]()
    for image in images:  # before any work
        try:
            image_size(image)
        except SolarError as error:
            if not skipping:
                raise
            skipped[str(image)] = str(error)
    place = device if backend in ("auto", "torch") else device or "cpu"
    network = network_of(model or DEFAULT, device=place)
    usable = [image for image in images if str(image) not in skipped]
    settings = Settings.of(
        network,
        size=size,
        scales=options.parse_scales(scales),
        orient=not ignore_orientation,
        backend=backend,
    )
    rows, done = [], []
    # Opened first: an output that cannot be written fails before the work.
    with replacing(output) as temporary:
        with steps() as shown, printing.warnings_as_sentences():
            run = _runner(network, settings, usable)
            advance = counted(shown, "Describing", len(usable))
            for image in usable:
                try:
                    pixels = settings.decode(image, box_of[image]).pixels
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
            table = np.stack(rows) if rows else np.empty((0, network.facts.dim), np.float32)
            np.save(file, table.astype(np.float16) if half else table)
    printing.write_report(report, len(done), skipped, "described", photos=done)
    printing.print_summary("Described", len(done), skipped, where=str(output))


def _runner(
    network: "Network", settings: "Settings", photos: list[Path]
) -> "Callable[[Pixels], Floats]":
    """The function from a decoded photo to its embedding (dim,) on the chosen backend."""
    from solar.describe.pipeline import as_input, as_rows
    from solar.describe.runtime import describer
    from solar.images import Photos

    if settings.backend != "torch":
        many = Photos(tuple(map(str, photos)), tuple(photos))
        run = describer(network, settings, many, singly=True)
        if run.backend != "torch":
            return lambda pixels: as_rows(run(as_input([pixels], run)))[0]
    size, scales = settings.size, settings.scales
    return lambda pixels: network.net.describe(pixels, size=size, scales=scales)[0]
