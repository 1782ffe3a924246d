"""`solar attention`: attention maps of locations of a photo."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli.options import Boxes, Device, Model, Output, boxes
from solar.cli.printing import IMAGES, check_suffix, save_image, say
from solar.defaults import SIZE
from solar.errors import SolarError
from solar.weights import DEFAULT, DEFAULT_LOCAL

if TYPE_CHECKING:
    from PIL.Image import Image

    from solar.models import Model as Network
    from solar.show.attention_maps import AttentionMaps
    from solar.show.attention_source import Location


EXAMPLE = "Example: solar attention a.jpg --at 320,200 -o attention.png"


def attention(
    images: Annotated[list[Path], typer.Argument(metavar="PHOTO")],
    output: Output,
    model: Model = None,
    at: list[str] | None = None,
    layer: int | None = None,
    figure: bool = False,
    patch: bool = False,
    number: Annotated[int, typer.Option(min=0)] = 0,
    box: Boxes = None,
    size: Annotated[int, typer.Option("--shorter-side", min=32, max=4096)] = SIZE,
    opacity: Annotated[float, typer.Option(min=0, max=1)] = 0.65,
    colours: str = "ember",
    unsmoothed: bool = False,
    device: Device = None,
) -> None:
    """Overlay the attention map of a point in a photo.

    -o takes a .png, .jpg or .webp, or a .npy for the maps alone. The default model
    for patches is solar-local-345.

    Options:
        images: A photo; several for --figure and --patch.
        at: Point as x,y in pixels of the photo; repeatable.
        layer: Layer of the attention block; default: the last, or all for --figure.
        figure: Draw the paper's figure; without --at, four points are chosen automatically.
        patch: The images are patches or strips of patches; --at is in a patch of 32 × 32.
        number: With --patch: which patch of a strip, from 0.
        size: Resize the photo's shorter side to this.
        opacity: Opacity of the map over the photo.
        colours: Colour map: ember, or jet as published.
        unsmoothed: Draw the attention as the embedding uses it; by default it is smoothed.
    """
    from solar.show.colours import COLOURS

    single = not (figure or patch)
    check_suffix(output, [*IMAGES, ".npy"] if single else IMAGES)
    if colours not in COLOURS:
        raise SolarError(f"There is no colour map {colours!r}: choose from {', '.join(COLOURS)}.")
    if not patch and (number or box is not None):
        raise SolarError("--number and --box select a patch: use them with --patch.")
    if single and not at:
        raise SolarError("Give a location with --at x,y, or use --figure.")
    if single and len(images) > 1:
        raise SolarError("Only --figure and --patch take several photos.")
    locations = [_parse(text) for text in at or ()]
    run: dict[str, Any] = {"layer": layer, "picture_scale": not unsmoothed}
    style: dict[str, Any] = {"opacity": opacity, "colours": colours}
    if patch:
        from solar.show.attention_maps import FOUR, draw_patches

        patches = _patches(images, locations, number, box)
        network = _network(model or DEFAULT_LOCAL, device, patch=True)
        picture = draw_patches(network, patches, locations or FOUR, **run, **style)
    else:
        from solar.images import image_size
        from solar.show.attention_maps import attention, draw_photos
        from solar.show.attention_source import check_locations

        for image in images:  # before loading a network
            check_locations(locations, image_size(image))
        run["size"] = size
        network = _network(model or DEFAULT, device, patch=False)
        if figure:
            picture = draw_photos(network, images, locations or None, **run, **style)
        else:
            maps = attention(network, images[0], locations, **run)
            if output.suffix == ".npy":
                _save_maps(maps, output)
                return
            picture = maps.figure(**style) if len(maps) > 1 else maps.overlay(**style)
    save_image(picture, output)


def _network(name: str, device: str | None, *, patch: bool) -> "Network":
    from solar.models import PatchNet, load

    network: Network = load(name, device=device)
    if isinstance(network, PatchNet) != patch:
        raise SolarError(
            f"{name} describes photos, not patches: leave out --patch."
            if patch
            else f"{name} describes patches, not photos: add --patch."
        )
    return network


def _patches(
    images: list[Path], at: "list[Location]", number: int, box: list[str] | None
) -> "list[Image]":
    from solar.show.attention_maps import SIDE, read_patch
    from solar.show.attention_source import check_locations

    check_locations(at, (SIDE, SIDE))
    cuts = zip(images, boxes(box, len(images), shared=True), strict=True)
    return [read_patch(image, number=number, box=cut) for image, cut in cuts]


def _save_maps(maps: "AttentionMaps", path: Path) -> None:
    import numpy as np

    from solar.files import replacing

    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, maps.maps)
    shape = " × ".join(map(str, maps.maps.shape))
    say(f"{shape} → {path}")


def _parse(text: str) -> "Location":
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError as error:
        raise SolarError(f"--at takes x,y in pixels, as in 320,200, not {text!r}.") from error
    return x, y
