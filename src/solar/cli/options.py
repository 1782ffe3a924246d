"""Options that several commands take, each with one help text."""

import os
from pathlib import Path
from typing import Annotated

import typer

from solar.cli.completion import keypoint_models, photo_models


def known_device(device: str | None) -> str | None:
    """A device as it was given; a SolarError if this machine has none of that name."""
    if device not in (None, "cpu"):
        from solar.models.inference import checked_device

        checked_device(device)
    return device


def existing_folder(photos: Path | None) -> Path | None:
    """The folder that --photos names; a SolarError if there is no such thing."""
    from solar.errors import SolarError
    from solar.images.roots import expanded

    # A name may be too long for a file, and Path.exists() fails for that.
    if photos is not None and not os.path.exists(expanded(photos)):  # noqa: PTH110
        raise SolarError(f"There is no folder {photos}: check --photos.")
    return photos


Model = Annotated[
    str,
    typer.Option(
        help="A name from `solar models`, a .safetensors or a published .pth.",
        autocompletion=photo_models,
    ),
]
IndexModel = Annotated[
    str | None,
    typer.Option(
        help="Model to use if the index's own model is unavailable.", autocompletion=photo_models
    ),
]
KeypointModel = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="Keypoint descriptor: rootsift, sift, orb, akaze or a patch model.",
        autocompletion=keypoint_models,
    ),
]
Size = Annotated[
    int | None, typer.Option(min=1, help="Longest side in pixels; default: the model's own.")
]
Scales = Annotated[
    str | None, typer.Option(help="Comma-separated scales to average; default: the model's own.")
]
Box = Annotated[
    str | None, typer.Option(help="x1,y1,x2,y2: the part of the photo to use, in pixels.")
]
IgnoreOrientation = Annotated[
    bool, typer.Option(help="Ignore the EXIF orientation, as the published code does.")
]
Device = Annotated[
    str | None,
    typer.Option(callback=known_device, help="cpu or cuda; auto-detected by default."),
]
SearchDevice = Annotated[
    str | None,
    typer.Option(
        callback=known_device,
        help="cpu or cuda; auto-detected by default. With --device cuda, the search also runs "
        "there.",
    ),
]
BACKENDS = "CPU backend: torch, onnxruntime, openvino, onnxruntime-int8 or openvino-int8."
Backend = Annotated[str, typer.Option(help=BACKENDS)]
KeypointBackend = Annotated[str, typer.Option(help=f"For a patch model. {BACKENDS}")]
DescribingModel = Annotated[
    str | None,
    typer.Option(help="Model for the embeddings; default: solar-r18.", autocompletion=photo_models),
]
DescribingBackend = Annotated[str | None, typer.Option(help=BACKENDS)]
CollectionSource = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="An index, a store, or a folder, list or tar shard of photos."
    ),
]
Table = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write a CSV table with one row per photo.")
]
Half = Annotated[bool, typer.Option("--half", help="Store float16, half the size.")]
MaxPixels = Annotated[
    int | None,
    typer.Option(min=1, help="Skip photos with more pixels; default: 178,956,970."),
]
Follow = Annotated[
    bool,
    typer.Option("--follow/--no-follow", help="Follow symbolic links to folders, each once."),
]
Report = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write skipped files and the reasons as JSON."),
]
IndexAddress = Annotated[
    str, typer.Argument(metavar="INDEX", help="A folder, or milvus://host:port/collection.")
]
_MOVED = "Folder of the indexed photos, if they have moved."
MovedPhotos = Annotated[Path | None, typer.Option(callback=existing_folder, help=_MOVED)]
# Whoever serves photos may connect their disk later.
ServedPhotos = Annotated[Path | None, typer.Option(help=_MOVED)]
ShownRoots = Annotated[
    list[Path] | None,
    typer.Option(
        "--root",
        metavar="FOLDER",
        help="For an index made elsewhere: confirm, once, that photos of this folder may be shown.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
