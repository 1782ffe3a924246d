"""`solar why`: which regions make two photos similar."""

from pathlib import Path
from typing import Annotated

import typer

from solar.cli.options import (
    Boxes,
    Device,
    Json,
    Model,
    OptionalOutput,
    Scales,
    Size,
    boxes,
    parse_scales,
)
from solar.cli.printing import check_suffix, print_json, save_image, show
from solar.weights import DEFAULT

EXAMPLE = "Example: solar why a.jpg b.jpg -o why.png"


def why(
    a: Annotated[Path, typer.Argument(metavar="A", help="A photo, such as a query.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another photo, such as a search result.")],
    output: OptionalOutput = None,
    model: Model = None,
    box: Boxes = None,
    size: Size = None,
    scales: Scales = None,
    compare_attention: Annotated[
        bool,
        typer.Option(
            "--compare-attention", help="Add a second row without second-order attention."
        ),
    ] = False,
    device: Device = None,
    json: Json = False,
) -> None:
    """Show which regions of two photos make them similar; -o draws them, --box is in A."""
    from solar.show.explanation import explain

    check_suffix(output)
    found = explain(
        a,
        b,
        model=model or DEFAULT,
        size=size,
        scales=parse_scales(scales),
        box=boxes(box, 1)[0],
        compare_attention=compare_attention,
        device=device,
    )
    if output is not None:
        save_image(found.figure(), output)
    if json:
        print_json(found.to_dict())
        return
    show(f"similarity {found.score:.4f}")
    if found.plain is not None:
        show(f"without second-order attention {found.plain.score:.4f}")
    for pair in found.pairs():
        (ax, ay), (bx, by) = pair.a, pair.b
        show(f"{pair.value:+.5f}  {ax:.0f},{ay:.0f} in A with {bx:.0f},{by:.0f} in B")
