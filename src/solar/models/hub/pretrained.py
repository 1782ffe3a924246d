"""Networks over a backbone of `transformers`, from a folder as the model hub keeps them.

Such a folder has `config.json`, `model.safetensors` (or several, with an index) and perhaps
`preprocessor_config.json`. Nothing in it is executed: no code, no pickled weights.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from solar.errors import SolarError
from solar.images.resize import Square
from solar.images.roots import expanded
from solar.models.hub import repository as hub
from solar.models.hub.library_weights import read_weights
from solar.models.retrieval_config import IMAGENET_MEAN, IMAGENET_STD, RetrievalConfig
from solar.models.retrieval_net import RetrievalNet
from solar.models.text_side import TextSide
from solar.nn.backbones.backbone import Interpolation, without_drawing
from solar.nn.backbones.transformers import (
    TransformersBackbone,
    cleaned,
    has_class_token,
    library_config,
    new_body,
)
from solar.nn.backbones.vision_tower import VisionTower, image_settings, is_joint, joint_tower

_INTERPOLATIONS: dict[int, Interpolation] = {0: "nearest", 2: "bilinear", 3: "bicubic"}
_SIZE = 224  # where a model's training size is unknown


def from_folder(
    folder: str | Path,
    *,
    pooling: str | None = None,
    attention: Mapping[int, int] | None = None,
    whitening: bool = False,
    dim: int | None = None,
) -> RetrievalNet:
    """Build a network over a pretrained backbone, ready to describe, on the CPU.

    Mean, standard deviation, interpolation and size are those of `preprocessor_config.json`. Its
    (crop) size becomes that of a photo's longer side: photos are neither cropped nor squeezed.

    For a model with a text side (CLIP, SigLIP) the embedding is the one of its photo side: photos
    are cropped or squeezed as its preprocessor says, and `describe_text` describes texts.

    Args:
        folder: Has config.json and model.safetensors.
        pooling: Default: "cls" if the backbone has a class token, else "gem".
        attention: Layer number to channel reduction, for blocks that start as the identity.
        whitening: Add a whitening layer, which starts at random.
        dim: Length of an embedding after it.

    Raises:
        SolarError: A file is missing, damaged or does not fit; `transformers` is not installed or
            has no such backbone.
    """
    folder = Path(folder)
    given = hub.read_config(folder)
    try:
        joint = is_joint(given)
        settings = image_settings(given) if joint else cleaned(given)
        kind, library = joint_tower(settings, "vision") if joint else _backbone(settings)
    except SolarError as error:
        raise SolarError(f"{folder} seems to be {hub.architecture(given)}. {error}") from error
    config = RetrievalConfig(
        str(settings["model_type"]),
        attention=dict(attention or {}),
        pooling=pooling or ("cls" if joint or has_class_token(settings) else "gem"),
        whitening=whitening,
        dim=dim,
        backbone_settings=settings,
        **(_square_preprocessing(folder) if joint else _preprocessing(_preprocessor(folder))),
    )
    with without_drawing():
        net = RetrievalNet(config)
    assert isinstance(net.backbone, TransformersBackbone | VisionTower)
    net.backbone.take(read_weights(folder, kind, library))
    net.text = TextSide(folder.absolute()) if joint and not whitening else None
    return net.eval()


def pretrained_folder(source: str | Path) -> Path | None:
    """A folder with a config.json, fetched if it is on the hub; None if the source is none."""
    if hub.is_hub_name(source):
        return hub.snapshot(str(source))
    path = expanded(source)
    return path if (path / hub.CONFIG).is_file() else None


def _backbone(settings: Mapping[str, Any]) -> tuple[Any, Any]:
    config = library_config(settings)
    with torch.device("meta"):
        return type(new_body(settings)), config  # AutoBackbone would ask the hub about a folder


def _preprocessor(folder: Path) -> dict[str, Any]:
    if (folder / hub.PREPROCESSOR).is_file():
        return hub.read_config(folder, hub.PREPROCESSOR)
    there = (folder / hub.PROCESSOR).is_file()
    given = hub.read_config(folder, hub.PROCESSOR).get("image_processor") if there else None
    return given if isinstance(given, dict) else {}


def _preprocessing(given: Mapping[str, Any]) -> dict[str, Any]:
    normalised = given.get("do_normalize", True)
    mean, std = given.get("image_mean", IMAGENET_MEAN), given.get("image_std", IMAGENET_STD)
    if not normalised:
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    cropped = given.get("crop_size") if given.get("do_center_crop") else None
    return {
        "mean": tuple(map(float, mean)),
        "std": tuple(map(float, std)),
        "size": _longest(cropped or given.get("size")),
        "interpolation": _INTERPOLATIONS.get(given.get("resample", 2), "bilinear"),
    }


def _square_preprocessing(folder: Path) -> dict[str, Any]:
    """`_preprocessing` for a model with a text side, trained on squares at one scale."""
    given = _preprocessor(folder)
    size = given.get("size")
    squeezed = isinstance(size, Mapping) and size.keys() == {"height", "width"}
    sides = set(size.values()) if isinstance(size, Mapping) else {size}
    side = sides.pop() if len(sides) == 1 else None
    side = side if isinstance(side, int) else 0
    cropped = not squeezed or given.get("do_center_crop", False)
    crop = _longest(given.get("crop_size", side)) if cropped else side
    if not 0 < crop <= side or (squeezed and crop < side):
        raise SolarError(
            f"{folder / hub.PREPROCESSOR} does not say how photos are made square, which a model "
            "with a text encoder needs: download or copy it from where the model came from."
        )
    square = Square(None if squeezed else side / crop, int(given.get("resample", 3)))
    return {**_preprocessing(given), "size": crop, "scales": (1.0,), "square": square}


def _longest(size: Any) -> int:
    if isinstance(size, Mapping):
        sides = [value for value in size.values() if isinstance(value, int)]
        return max(sides, default=_SIZE)
    return size if isinstance(size, int) else _SIZE
