"""`solar match`: matching keypoints of two photos."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from solar.cli import options
from solar.cli.completion import keypoint_models
from solar.cli.printing import check_suffix, print_json, save_image, show
from solar.defaults import KEYPOINTS, SIZE

if TYPE_CHECKING:
    from solar.models import PatchNet

EXAMPLE = "Example: solar match a.jpg b.jpg -o matches.png --compare sift"


def match(
    a: Annotated[Path, typer.Argument(metavar="A")],
    b: Annotated[Path, typer.Argument(metavar="B")],
    model: options.LocalFeatures = None,
    geometry: str = "homography",
    output: options.OptionalOutput = None,
    compare: Annotated[
        list[str] | None, typer.Option(metavar="NAME", autocompletion=keypoint_models)
    ] = None,
    keypoints: options.Keypoints = KEYPOINTS,
    size: options.KeypointSize = SIZE,
    ratio: float = 0.9,
    frames: Annotated[str, typer.Option("--patch-frames")] = "wide",
    device: options.Device = None,
    backend: options.Backend = None,
    json: options.Json = False,
) -> None:
    """Match the keypoints of two photos.

    -o draws those that agree.

    Options:
        a: A photo.
        b: Another photo.
        geometry: homography (flat scene or rotated camera) or fundamental (any rigid scene).
        compare: Also match with these local features, and draw them below; repeatable.
        ratio: Lowe ratio-test threshold.
        frames: How patches are cut: wide, or demo (as in the published demo).
    """
    from solar.local.features import Frames
    from solar.matching.match import Geometry
    from solar.matching.match import match as matched
    from solar.show.matches import caption, draw_matches

    check_suffix(output)
    models = [model, *(compare or [])]
    networks = [one for one in models if not _needs_no_network(one)] or models  # else refused
    found = [
        matched(
            a,
            b,
            model=_on(device, one),
            backend=backend or "torch" if one in networks else "torch",
            geometry=cast("Geometry", geometry),
            keypoints=keypoints,
            size=size,
            ratio=ratio,
            frames=cast("Frames", frames),
        )
        for one in models
    ]
    if output is not None:
        save_image(draw_matches(a, b, found), output)
    if json:
        named = [{"descriptor": one.descriptor, **one.to_dict()} for one in found[1:]]
        others = {"compare": named} if compare else {}
        print_json(found[0].to_dict() | others)
        return
    for name, result in map(caption, found):
        show(f"{name}: {result}")
    if output is None and found[0].same_scene and found[0].matrix is not None:
        kind = "Fundamental matrix" if found[0].geometry == "fundamental" else "Homography"
        show(f"{kind} from {a} to {b}, in pixels:")
        for row in found[0].matrix:
            show("  ".join(f"{value:12.6g}" for value in row))


def _on(device: str | None, model: str | None) -> "PatchNet | str | None":
    """A patch network on the given device; features without a network stay a name."""
    if device is None or _needs_no_network(model):
        return model
    from solar.models import load

    return cast("PatchNet", load(str(model), device=device))  # `match` refuses other networks


def _needs_no_network(model: str | None) -> bool:
    from solar.local.features import NAMED

    return model is None or model in NAMED
