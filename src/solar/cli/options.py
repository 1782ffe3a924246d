"""The options that several commands take: one name, one type, one help text each.

`tests/cli/test_one_meaning.py` fails where two commands give an option two meanings.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from copy import copy
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from solar.cli.completion import OPENCV, keypoint_models, photo_models
from solar.cli.help import documented
from solar.errors import SolarError
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.images import Box


def known_device(device: str | None) -> str | None:
    """Return a device; a SolarError if this machine does not have it."""
    if device not in (None, "cpu"):
        from importlib.metadata import version

        # Importing torch to ask it takes seconds.
        if "torch" not in sys.modules and "+cpu" in version("torch") and device[:4] == "cuda":
            raise SolarError(
                f"--device {device} needs a PyTorch with CUDA, and this one computes on the CPU "
                "only: choose cpu, or install another."
            )
        from solar.models.inference import checked_device

        checked_device(device)
    return device


def known_model(model: str | None) -> str | None:
    """Return a model; a SolarError if it is a name that no model has. Needs no torch."""
    if model is not None and re.fullmatch(r"[\w-]+", model) and not Path(model).exists():
        from solar.models import zoo

        zoo.find(model)
    return model


def known_local_features(name: str | None) -> str | None:
    """Return the name of local features; a SolarError if there are none of that name."""
    return name if name in OPENCV else known_model(name)


def existing_folder(photos: Path | None) -> Path | None:
    """Return the folder of --photos; a SolarError if there is none."""
    from solar.images.roots import expanded

    # A name may be too long for a file, and Path.exists() fails for that.
    if photos is not None and not os.path.exists(expanded(photos)):  # noqa: PTH110
        raise SolarError(f"There is no folder {photos}: check --photos.")
    return photos


# What a command reads and writes.
_OUTPUT = typer.Option("--output", "-o", metavar="OUT", help="The file or folder to write.")
Output = Annotated[Path, _OUTPUT]
OptionalOutput = Annotated[Path | None, _OUTPUT]
IndexOutput = Annotated[str, _OUTPUT]
IndexAddress = Annotated[
    str, typer.Argument(metavar="INDEX", help="A folder, or milvus://host:port/collection.")
]
CollectionSource = Annotated[
    str,
    typer.Argument(metavar="SOURCE", help="An index, or a folder, list or tar shard of photos."),
]
Root = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the data: the one that holds the datasets by name, or that the paths in a "
        "CSV or a ground truth start from.",
    ),
]
_MOVED = "Folder of the photos, if they have moved."
MovedPhotos = Annotated[
    Path | None, typer.Option(metavar="FOLDER", callback=existing_folder, help=_MOVED)
]
# A disk with photos to serve may be connected later.
ServedPhotos = Annotated[Path | None, typer.Option(metavar="FOLDER", help=_MOVED)]
AllowedRoots = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-root",
        metavar="FOLDER",
        help="For an index made elsewhere: confirm, once, that photos of this folder may be shown.",
    ),
]
Follow = Annotated[
    bool,
    typer.Option("--follow/--no-follow", help="Follow symbolic links to folders, each once."),
]
MaxPixels = Annotated[
    int | None,
    typer.Option(min=1, help="Skip photos with more pixels; default: 178,956,970."),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad/--strict",
        help="Skip photos that cannot be read, or fail because of them.",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write skipped files and the reasons as JSON."),
]
Csv = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write a CSV table with one row per photo.")
]
Html = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write an HTML page with the photos.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TableFormat = Annotated[
    Literal["text", "markdown", "latex"], typer.Option("--format", help="How to print tables.")
]

# How photos are described.
Model = Annotated[
    str | None,
    typer.Option(
        help="Model for the embeddings: a name from `solar models`, a .safetensors or a published "
        f".pth; default: {DEFAULT}, or for an index its own.",
        callback=known_model,
        autocompletion=photo_models,
    ),
]
Size = Annotated[
    int | None,
    typer.Option(min=1, help="Longest side of photos in pixels; default: the model's own."),
]
Scales = Annotated[
    str | None, typer.Option(help="Comma-separated scales to average; default: the model's own.")
]
_BOX = typer.Option(
    metavar="X1,Y1,X2,Y2",
    help="Part of the photo to use, in pixels. With several photos, give one --box per photo, in "
    "the same order; - means the whole photo.",
)
Boxes = Annotated[list[str] | None, _BOX]
IgnoreOrientation = Annotated[
    bool,
    typer.Option(
        "--ignore-orientation", help="Ignore the EXIF orientation, as the published code does."
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        callback=known_device,
        help="cpu or cuda; auto-detected by default. Searches and scores run on cuda only if you "
        "name it.",
    ),
]
Backend = Annotated[
    str | None,
    typer.Option(
        help="CPU backend: auto (default: the fastest that a test run proved equal), torch "
        "(float32), openvino-bf16, openvino, onnxruntime, onnxruntime-int8 or openvino-int8."
    ),
]
Embeddings = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--features",
        metavar="DB QUERIES",
        help="Embeddings (.npy, .pt, .mat or an index) instead of a model and photos.",
    ),
]
Compress = Annotated[
    str | None,
    typer.Option(
        help="none; fp16, half the size; or for an index pq (product quantization, small), ivf "
        "(faster) or web: approximate search whose candidates are then ranked exactly."
    ),
]
Average = Annotated[
    str,
    typer.Option(
        help="Average precision: trapezoid (as published) or finite; for HPatches also matlab."
    ),
]
LocalFeatures = Annotated[
    str | None,
    typer.Option(
        "--local-features",
        metavar="NAME",
        help="Local features: rootsift (default), sift, orb, akaze, or a patch, HOW or DELF model. "
        "ASMK takes all but orb and akaze.",
        autocompletion=keypoint_models,
        callback=known_local_features,
    ),
]
Keypoints = Annotated[int, typer.Option(min=1, help="Maximum keypoints per photo.")]
KeypointSize = Annotated[
    int,
    typer.Option(
        "--keypoint-size",
        min=1,
        help="Downscale photos to this longest side before finding keypoints.",
    ),
]
Method = Annotated[
    Literal["global", "asmk"],
    typer.Option(help="One embedding per photo, or local features (see docs/asmk.md)."),
]
Codebook = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="For ASMK: reuse the visual words of this index or file."),
]

# How photos are compared.
_K = "Number of nearest photos: results of a search, or neighbours of each photo."
Nearest = Annotated[int, typer.Option("-k", min=1, help=_K)]
NearestOrNone = Annotated[int, typer.Option("-k", min=0, help=_K)]
MinScore = Annotated[
    float | None, typer.Option(help="Minimum cosine similarity of two photos found by -k.")
]
Inliers = Annotated[
    int | None,
    typer.Option(
        "--min-inliers", min=1, help="Minimum number of agreeing keypoints for two photos to match."
    ),
]
Verify = Annotated[
    bool,
    typer.Option("--verify", help="Keep only pairs of photos that pass geometric verification."),
]
VerifyTop = Annotated[int, typer.Option(min=1, help="Number of best photos to verify.")]

# How networks are trained.
Run = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder for checkpoints and figures.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue from the newest checkpoint in the folder.")
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]

_SHARED: dict[str, Any] = {
    "average": Average,
    "backend": Backend,
    "codebook": Codebook,
    "compress": Compress,
    "device": Device,
    "features": Embeddings,
    "local_features": LocalFeatures,
    "method": Method,
    "root": Root,
    "scales": Scales,
    "size": Size,
}


def with_settings(
    settings: type, panels: Mapping[str, Sequence[str]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each of these fields of a settings dataclass.

    Its help is the field's in the docstring, unless several commands share the option, and its
    default is the field's. `panels` takes a heading in the help to names of fields. The command
    gets the values in `**given`.
    """
    known = {field.name: field for field in fields(settings)}
    texts = documented(settings.__doc__, "Attributes")

    def option(name: str, panel: str) -> inspect.Parameter:
        declared = _SHARED.get(name)
        if declared is None:
            declared = Annotated[_plain(str(known[name].type)), typer.Option(help=texts[name])]
        kind, info = get_args(declared)
        info = copy(info)
        info.rich_help_panel = panel
        return inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=known[name].default,
            annotation=Annotated[kind, info],
        )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command)
        *own, rest = signature.parameters.values()
        assert rest.kind is inspect.Parameter.VAR_KEYWORD
        keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
        command.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*keywords, *(option(n, panel) for panel in panels for n in panels[panel])]
        )
        return command

    return decorate


def _plain(kind: str) -> Any:
    known = {"bool": bool, "int": int, "float": float}
    of: Any = known.get(kind.removesuffix(" | None"), str)
    return of | None if kind.endswith("None") else of


def boxes(given: list[str] | None, photos: int, *, shared: bool = False) -> "list[Box | None]":
    """The box of each photo, None for all of it; a `shared` single box is that of every photo."""
    from solar.images import parse_box

    wanted = given or ["-"] * photos
    if shared and len(wanted) == 1:
        wanted *= photos
    if len(wanted) != photos:
        raise SolarError(
            f"{photos} photo{'s' * (photos != 1)} and {len(wanted)} box{'es' * (len(wanted) != 1)} "
            "do not match: give one --box per photo, in the same order, and --box - for a whole "
            "photo."
        )
    return [None if text == "-" else parse_box(text) for text in wanted]


def first_given(context: typer.Context, names: Container[str]) -> str | None:
    """The first option on the command line whose parameter is among the names, such as --model."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in names and source is not None and source.name == "COMMANDLINE":
            return option.opts[0]
    return None


def words(text: str) -> tuple[str, ...]:
    """The words of a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def parse_scales(text: str | None, option: str = "--scales") -> tuple[float, ...] | None:
    """Read "1,1.41,0.7"; raise a SolarError for anything but positive numbers."""
    from math import isfinite

    if text is None:
        return None
    try:
        scales = tuple(float(part) for part in text.split(","))
    except ValueError:
        scales = ()
    if not scales or any(not isfinite(s) or s <= 0 for s in scales):
        raise SolarError(f"{option} takes positive numbers such as 1,1.41,0.71, not {text!r}.")
    return scales


def is_half(compress: str | None) -> bool:
    """Whether embeddings or weights are stored as float16."""
    if compress not in (None, "none", "fp16"):
        raise SolarError(f"--compress {compress} is for an index: choose none or fp16 here.")
    return compress == "fp16"
