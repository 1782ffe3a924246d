"""`solar match`: what two photos have in common."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from solar.cli import printing
from solar.cli.completion import keypoint_models
from solar.cli.options import Device, Json
from solar.cli.pictures import check_suffix, save_image
from solar.defaults import KEYPOINTS, SIZE

if TYPE_CHECKING:
    from solar.models import PatchNet

EXAMPLE = "Example: solar match a.jpg b.jpg -o matches.png --compare sift"


def match(
    a: Annotated[Path, typer.Argument(metavar="A", help="A photo.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "--features",
            help="What describes keypoints: rootsift (default), sift, orb, akaze or a patch model.",
            autocompletion=keypoint_models,
        ),
    ] = None,
    geometry: Annotated[
        str, typer.Option(help="homography (flat scene, turned camera) or fundamental (any).")
    ] = "homography",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw the inliers into this picture.")
    ] = None,
    compare: Annotated[
        list[str] | None, typer.Option(help="Match with this model too, and draw it below.")
    ] = None,
    keypoints: Annotated[int, typer.Option(min=1, help="At most so many per photo.")] = KEYPOINTS,
    size: Annotated[int, typer.Option(min=1, help="Shrink longer sides to this first.")] = SIZE,
    ratio: Annotated[
        float, typer.Option(help="How much closer than the second best a match must be.")
    ] = 0.9,
    frames: Annotated[
        str, typer.Option(help="How patches are cut: wide, or as in the published demo.")
    ] = "wide",
    device: Device = None,
    json: Json = False,
) -> None:
    """Show what two photos have in common, point by point."""
    from solar.describe.local import Frames
    from solar.search.matching import Geometry
    from solar.search.matching import match as matched
    from solar.show.matches import caption, draw_matches

    check_suffix(output)
    found = [
        matched(
            a,
            b,
            model=_on(device, one),
            geometry=cast("Geometry", geometry),
            keypoints=keypoints,
            size=size,
            ratio=ratio,
            frames=cast("Frames", frames),
        )
        for one in (model, *(compare or []))
    ]
    if output is not None:
        save_image(draw_matches(a, b, found), output)
    if json:
        named = [{"descriptor": one.descriptor, **one.to_dict()} for one in found[1:]]
        others = {"compare": named} if compare else {}
        printing.print_json(found[0].to_dict() | others)
        return
    for name, result in map(caption, found):
        printing.say(f"{name}: {result}", to=printing.output())
    if output is None and found[0].matrix is not None:
        for row in found[0].matrix:
            printing.output().print("  ".join(f"{value:12.6g}" for value in row))


def _on(device: str | None, model: str | None) -> "PatchNet | str | None":
    """A patch network on the device that is asked for; what needs none stays a name."""
    from solar.describe.local import NAMED

    if device is None or model is None or model in NAMED:
        return model
    from solar.models import load

    return cast("PatchNet", load(model, device=device))  # `match` complains of other networks
