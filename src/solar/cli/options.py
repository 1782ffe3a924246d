"""Options that several commands take, each with one help text."""

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
        help="What describes keypoints: rootsift, sift, orb, akaze or a patch model.",
        autocompletion=keypoint_models,
    ),
]
Size = Annotated[
    int | None, typer.Option(min=1, help="Longest side in pixels; the model's own if not given.")
]
Scales = Annotated[
    str | None, typer.Option(help="Comma-separated scales to average; the model's if not given.")
]
Box = Annotated[
    str | None, typer.Option(help="x1,y1,x2,y2 of what to look for, in pixels of the photo.")
]
IgnoreOrientation = Annotated[
    bool, typer.Option(help="Leave photos as stored, as the published code does.")
]
Device = Annotated[
    str | None,
    typer.Option(callback=known_device, help="cpu or cuda; auto-detected by default."),
]
SearchDevice = Annotated[
    str | None,
    typer.Option(
        callback=known_device,
        help="cpu or cuda; auto-detected by default. With cuda, vectors are compared there.",
    ),
]
BACKENDS = "On a CPU: torch, onnxruntime or openvino, these two also with -int8."
Backend = Annotated[str, typer.Option(help=BACKENDS)]
Half = Annotated[bool, typer.Option("--half", help="Store float16, half the size.")]
MaxPixels = Annotated[
    int | None,
    typer.Option(min=1, help="Skip photos with more pixels; 178,956,970 if not given."),
]
Follow = Annotated[
    bool,
    typer.Option("--follow/--no-follow", help="Enter folders that are links, each once."),
]
Report = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write what was skipped, and why, as JSON."),
]
IndexAddress = Annotated[
    str, typer.Argument(metavar="INDEX", help="A folder, or milvus://host:port/collection.")
]
MovedPhotos = Annotated[
    Path | None, typer.Option(help="Where the indexed photos are, if they have moved.")
]
ShownRoots = Annotated[
    list[Path] | None,
    typer.Option(
        "--root",
        metavar="FOLDER",
        help="A folder that the index names and may show, for one made elsewhere; remembered.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
