"""Convert networks between formats."""

import warnings
from pathlib import Path

import torch

from solar.errors import SolarError
from solar.files import replacing
from solar.models.checkpoint import load, save, to_published
from solar.models.hub.folder import save_folder


def convert(
    source: str | Path,
    destination: str | Path,
    *,
    half: bool = False,
    hub: bool = False,
) -> Path:
    """Convert a network: to `.safetensors` in our format, to `.pth` in the published one.

    Args:
        source: What `load` takes.
        destination: Its ending decides the format.
        half: Half the size, as for `save`; not in the published format.
        hub: Write a folder for the Hugging Face Hub, see `save_folder`.

    Warns if the network has a text encoder, which our formats do not keep.

    Raises:
        SolarError: The network cannot be read, or cannot be written in this format.
    """
    destination = Path(destination)
    if not hub:
        _check_ending(destination, half)
    model = load(source, device="cpu")
    if getattr(model, "text", None) is not None:
        warnings.warn(
            f"{destination} contains only the image encoder of {source}: for text search, use "
            f"{source} as the model.",
            stacklevel=2,
        )
    if hub:
        return save_folder(model, destination, half=half)
    if destination.suffix == ".safetensors":
        return save(model, destination, half=half)
    content = to_published(model)
    with replacing(destination) as temporary:
        torch.save(content, temporary)
    return destination


def _check_ending(destination: Path, half: bool) -> None:
    if half and destination.suffix != ".safetensors":
        raise SolarError(f"{destination} must end in .safetensors: only those can be halved.")
    if destination.suffix not in (".safetensors", ".pth"):
        raise SolarError(
            f"{destination} must end in .safetensors (solar's format) or .pth (the published "
            "format); `hub=True` writes a folder for the Hugging Face Hub."
        )
