"""`solar demo`: the main job on generated photos, offline."""

from typing import Annotated

import typer

EXAMPLE = "Example: solar demo --landmarks 3 --views 3"


def demo(
    landmarks: Annotated[int, typer.Option(min=1, max=20, help="Buildings to generate.")] = 3,
    views: Annotated[int, typer.Option(min=1, max=20, help="Photos of each.")] = 3,
) -> None:
    """Describe generated photos of a few buildings and print how similar they are."""
    import torch
    from rich.table import Table

    from solar.cli.printing import output, progress
    from solar.datasets import toy
    from solar.models import RetrievalConfig, RetrievalNet

    torch.manual_seed(0)
    model = RetrievalNet(RetrievalConfig("resnet18", attention={4: 4, 5: 2}, whitening=False))
    names = [(identity, view) for identity in range(landmarks) for view in range(views)]
    photos = (toy.landmark(identity, view) for identity, view in names)
    rows = [model.describe(photo)[0] for photo in progress(photos, len(names), "Describing")]

    console = output()
    console.print(
        f"{len(names)} generated photos of {landmarks} buildings, similarity in percent:\n"
    )
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("photo")
    for identity, view in names:
        table.add_column(f"{identity}.{view}", justify="right")
    for (identity, view), row in zip(names, rows, strict=True):
        table.add_row(f"{identity}.{view}", *(f"{100 * float(row @ other):.1f}" for other in rows))
    console.print(table)
    console.print(
        "\nThe network here is ResNet-18 with second-order attention and weights drawn at random: "
        "enough to show that everything runs.\nFor useful similarities load trained weights, "
        "for example `solar describe photo.jpg --model solar-r101 -o photo.npy`.",
        soft_wrap=True,
    )
