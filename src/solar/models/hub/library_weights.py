"""Weights of a folder as the model hub keeps them, read into a module of `transformers`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from solar.errors import SolarError

# Norms of the maps of single stages, which files lack: they start as the library starts them.
_FRESH = "hidden_states_norms."


def read_weights(folder: Path, kind: Any, config: Any) -> Any:
    """A module of the library, of class `kind`, with a folder's weights in float32 on the CPU.

    A SolarError if there are no safetensors, or they are damaged, lack a weight or contain NaN.
    """
    if not any(folder.glob("model*.safetensors")):
        raise SolarError(
            f"{folder} has no model.safetensors, and solar reads no pickled weights: convert them "
            "to safetensors, or download a revision that has that file."
        )
    with quiet():
        try:
            body, found = kind.from_pretrained(
                str(folder),
                config=config,
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
    check_finite(body.state_dict(), folder / "model.safetensors")
    return body


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the library's progress bar, and its notes about weights that are not needed."""
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


def check_finite(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise a SolarError that names the first tensor with NaN or infinity.

    A finite sum, which is quicker than a look at every number, proves that all are finite.
    """
    for name, tensor in tensors.items():
        if not tensor.sum().isfinite() and not tensor.isfinite().all():
            raise SolarError(
                f"{path} has infinite or NaN values in {name}: use another checkpoint, from a "
                "training that did not diverge."
            )
