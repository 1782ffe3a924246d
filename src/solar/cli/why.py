"""`solar why`: which regions make two photos similar."""

from pathlib import Path
from typing import Annotated

import typer

from solar.cli import options
from solar.cli.printing import check_suffix, print_json, save_image, show
from solar.weights import DEFAULT

EXAMPLE = "Example: solar why a.jpg b.jpg -o why.png"


def why(
    a: Annotated[Path, typer.Argument(metavar="A")],
    b: Annotated[Path, typer.Argument(metavar="B")],
    output: options.OptionalOutput = None,
    model: options.Model = None,
    box: options.Boxes = None,
    size: options.Size = None,
    scales: options.Scales = None,
    compare_attention: bool = False,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Show which regions of two photos make them similar.

    -o draws them; --box is in A.

    Options:
        a: A photo, such as a query.
        b: Another photo, such as a search result.
        compare_attention: Add a second row without second-order attention.
    """
    from solar.show.explanation import NOTHING, explain

    check_suffix(output)
    found = explain(
        a,
        b,
        model=model or DEFAULT,
        size=size,
        scales=options.parse_scales(scales),
        box=options.boxes(box, 1)[0],
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
    pairs = found.pairs()
    if not pairs:
        show(NOTHING)
    for pair in pairs:
        (ax, ay), (bx, by) = pair.a, pair.b
        show(f"{pair.value:+.5f}  {ax:.0f},{ay:.0f} in A with {bx:.0f},{by:.0f} in B")
