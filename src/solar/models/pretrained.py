"""Networks over a backbone of `transformers`, from a folder as the model hub keeps them.

Such a folder has `config.json`, `model.safetensors` (or several, with an index) and perhaps
`preprocessor_config.json`. Nothing in it is executed: no code, no pickled weights.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from solar.errors import SolarError
from solar.images.roots import expanded
from solar.models import hub
from solar.models.retrieval_net import IMAGENET_MEAN, IMAGENET_STD, RetrievalConfig, RetrievalNet
from solar.models.soundness import check_finite
from solar.nn.grid import Interpolation
from solar.nn.transformers_backbone import (
    TransformersBackbone,
    cleaned,
    has_class_token,
    library_config,
    new_body,
    without_drawing,
)

# Norms of the maps of single stages: no part of the models, so files of those lack them, and they
# start as the library starts them.
_FRESH = "hidden_states_norms."
_INTERPOLATIONS: dict[int, Interpolation] = {0: "nearest", 2: "bilinear", 3: "bicubic"}
_SIZE = 224  # where nobody says at which size a model was trained


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
    size (what is cropped, if something is) becomes that of a photo's longer side: photos are
    neither cropped nor squeezed.

    Args:
        folder: Has config.json and model.safetensors.
        pooling: Default: "cls" if the backbone has a class token, else "gem".
        attention: Layer number to channel reduction, for blocks that start as the identity.
        whitening: Add a whitening layer, which starts at random.
        dim: Length of a descriptor after it.

    Raises:
        SolarError: A file is missing, damaged or does not fit; `transformers` is not installed or
            has no such backbone.
    """
    folder = Path(folder)
    given = hub.read_config(folder)
    settings = cleaned(given)
    try:
        library_config(settings)
    except SolarError as error:
        raise SolarError(f"{folder} seems to be {hub.architecture(given)}. {error}") from error
    config = RetrievalConfig(
        str(settings["model_type"]),
        attention=dict(attention or {}),
        pooling=pooling or ("cls" if has_class_token(settings) else "gem"),
        whitening=whitening,
        dim=dim,
        backbone_settings=settings,
        **_preprocessing(folder),
    )
    with without_drawing():
        net = RetrievalNet(config)
    assert isinstance(net.backbone, TransformersBackbone)
    net.backbone.take(_weights(folder, settings))
    check_finite(net.state_dict(), folder / "model.safetensors")
    return net.eval()


def pretrained_folder(source: str | Path) -> Path | None:
    """A folder with a config.json, fetched if it is on the model hub; None if the source is none.

    Raises:
        SolarError: It cannot be fetched.
    """
    if hub.is_hub_name(source):
        return hub.snapshot(str(source))
    path = expanded(source)
    return path if (path / hub.CONFIG).is_file() else None


def _weights(folder: Path, settings: Mapping[str, Any]) -> Any:
    """The library's backbone with the weights of a folder; a SolarError if it lacks one."""
    if not any(folder.glob("model*.safetensors")):
        raise SolarError(
            f"{folder} has no model.safetensors: solar reads no pickled weights; convert them, or "
            "fetch a revision that has them."
        )
    with torch.device("meta"):
        kind = type(new_body(settings))  # AutoBackbone would ask the hub about a folder's name
    with _quiet():
        try:
            body, found = kind.from_pretrained(
                str(folder),
                config=library_config(settings),
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                ignore_mismatched_sizes=True,  # reported with the rest
                output_loading_info=True,
            )
        except Exception as error:  # a damaged file can make the reader fail in any way at all
            reason = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")
            raise SolarError(f"The weights in {folder} cannot be read ({reason}).") from error
    missing = sorted(name for name in found["missing_keys"] if not name.startswith(_FRESH))
    wrong = sorted(str(one[0]) for one in found["mismatched_keys"])
    if missing or wrong:
        several = f" and {len(missing + wrong) - 1} more" if len(missing + wrong) > 1 else ""
        raise SolarError(
            f"The weights in {folder} do not fit config.json: {(missing + wrong)[0]}{several} "
            f"{'is missing' if missing else 'has another shape'}."
        )
    return body


def _preprocessing(folder: Path) -> dict[str, Any]:
    """What a preprocessor_config.json says, in our words; the usual where it says nothing."""
    there = (folder / hub.PREPROCESSOR).is_file()
    given = hub.read_config(folder, hub.PREPROCESSOR) if there else {}
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


def _longest(size: Any) -> int:
    if isinstance(size, Mapping):
        sides = [value for value in size.values() if isinstance(value, int)]
        return max(sides, default=_SIZE)
    return size if isinstance(size, int) else _SIZE


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library's bar, and what it says about weights that are not needed, to ourselves."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(50)  # critical
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
