"""Published checkpoints: read without executing anything in them, and written.

`published_layouts` says how their tensors are called.
"""

import _codecs
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from solar.errors import SolarError
from solar.models import published_layouts
from solar.models.hub.library_weights import check_finite
from solar.models.patch_net import PatchConfig, PatchNet
from solar.models.published_layouts import Layout
from solar.models.retrieval_net import RetrievalNet
from solar.nn.l2net import DropoutPlace

Model = RetrievalNet | PatchNet

# Of batch norms: no part of a descriptor; files of old torch versions lack it.
COUNTER = "num_batches_tracked"
_PARALLEL = "module."  # what a network that was trained on several GPUs may begin all names with


def read_pickle(path: Path) -> Any:
    """Read a `.pth` with torch's restricted unpickler: tensors, containers, plain numpy arrays."""
    try:
        with torch.serialization.safe_globals(_numpy_arrays()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can make the reader fail in any way at all
        raise SolarError(_why_unreadable(path, error)) from error


def _numpy_arrays() -> list[Any]:
    multiarray = np._core.multiarray  # type: ignore[attr-defined]
    dtypes = [np.dtypes.Float32DType, np.dtypes.Float64DType, np.dtypes.Int64DType]
    names = [
        (function, f"numpy.{core}.multiarray.{function.__name__}")
        for function in (multiarray._reconstruct, multiarray.scalar)
        for core in ("core", "_core")
    ]
    homes = ("sklearn.decomposition.pca.PCA", "sklearn.decomposition._pca.PCA")
    names += [(published_layouts.LearnedPCA, home) for home in homes]
    return [np.ndarray, np.dtype, *dtypes, _codecs.encode, *names]


def _why_unreadable(path: Path, error: Exception) -> str:
    text = str(error)
    wanted = re.search(r"GLOBAL ([\w.]+)", text)  # what torch's reader names when it refuses
    if wanted:
        return (
            f"{path} asks for {wanted[1]} when opened, which no checkpoint needs: "
            "it was refused and nothing in it was executed."
        )
    if "TorchScript" in text:
        return f"{path} is a TorchScript program, not a checkpoint."
    return f"{path} is not a checkpoint, or is damaged or cut short: fetch or copy it again."


def published_network(path: Path, content: Any) -> Model:
    """The network of a published file, by what `read_pickle` has found; a SolarError if none is."""
    if not isinstance(content, Mapping):
        raise SolarError(f"{path} holds a {type(content).__name__}, not a network.")
    # A file of HOW has its settings in net_params; DELG's port calls its tensors model_state.
    state = content.get("state_dict", content.get("model_state"))
    meta = content.get("net_params", content.get("meta"))
    if isinstance(content.get("model_options"), Mapping):  # of dirtorch
        meta = {
            **content["model_options"],
            **{key: content.get(key) for key in ("preprocess", "pca")},
        }
    if not isinstance(state, Mapping):
        state, meta = content, None
    return from_state(path, state, meta if isinstance(meta, Mapping) else {})


def from_state(path: Path, state: Mapping[str, Any], meta: Mapping[str, Any]) -> Model:
    """The network whose tensors and settings these are, told by their names."""
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    if all(name.startswith(_PARALLEL) for name in tensors):
        tensors = {name.removeprefix(_PARALLEL): value for name, value in tensors.items()}
    layout = "dirtorch" if "arch" in meta else published_layouts.layout_of(tensors)
    if layout is None:
        if set(tensors) == {"weight", "bias"}:
            raise SolarError(
                f"{path} holds only a whitening layer: read it with solar.models.load_whitening."
            )
        raise SolarError(
            f"{path} holds {len(tensors)} tensors of no architecture that solar knows."
        )
    model: Model
    if layout in ("local", "sosnet"):
        dropout_place: DropoutPlace = "after" if layout == "local" else "before"
        attention = published_layouts.attention_layers(tensors)
        model = PatchNet(PatchConfig(attention, dropout_place=dropout_place))
    else:
        unused = published_layouts.UNUSED.get(layout, ())
        tensors = {name: v for name, v in tensors.items() if not name.startswith(unused)}
        tensors = published_layouts.from_bgr(tensors) if layout == "delg" else tensors
        try:
            config = published_layouts.retrieval_config(layout, meta, tensors)
        except SolarError as error:
            raise SolarError(f"{path}: {error}") from None
        model = RetrievalNet(config)
    names = published_layouts.published_names(model.state_dict(), layout)
    tensors |= _projections(meta) if isinstance(model, RetrievalNet) else {}
    if layout in ("features", "torchvision"):  # a bare backbone: pooled by a fresh GeM
        tensors.setdefault("pool.p", torch.tensor([3.0]))
    fill(model, tensors, names, path, layout)
    return model


def _projections(meta: Mapping[str, Any]) -> dict[str, Tensor]:
    layers = {}
    for use, learned in published_layouts.learned_projections(meta).items():
        mean, matrix = (torch.as_tensor(learned[key]).double() for key in ("m", "P"))
        layers[f"post.{use}.weight"] = matrix
        layers[f"post.{use}.bias"] = -matrix @ mean.flatten()
    return layers


def fill(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    names: Mapping[str, str],
    path: Path,
    layout: Layout | None = None,
) -> None:
    """Copy tensors into a network; `names` takes our names to those of the file."""
    own = model.state_dict()
    shapes = {
        their: published_layouts.published_shape(our, own[our].shape, layout)
        for our, their in names.items()
    }
    # Files of Token are complete or wrong: their authors' reader takes anything, and loads nothing.
    optional = () if layout == "token" else (COUNTER,)
    missing = [name for name in shapes if name not in tensors and not name.endswith(optional)]
    unexpected = sorted(n for n in tensors if n not in shapes and not n.endswith(optional))
    reshaped = [
        f"{name} is {tuple(tensors[name].shape)} where {shape} is needed"
        for name, shape in shapes.items()
        if name in tensors and tensors[name].shape != shape
    ]
    kinds = (("missing ", missing), ("unexpected ", unexpected), ("", reshaped))
    problems = [kind + _some(found) for kind, found in kinds if found]
    if problems:
        raise SolarError(
            f"{path} does not fit: {'; '.join(problems)}; "
            f"the file seems to be {published_layouts.guess(tensors)}."
        )
    present = {
        our: tensors[their].reshape(own[our].shape)
        for our, their in names.items()
        if their in tensors
    }
    model.load_state_dict(present, strict=False)
    check_finite({their: own[our] for our, their in names.items()}, path)


def _some(names: list[str], most: int = 4) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def to_published(model: Model) -> dict[str, Any]:
    """A network as the published code saves it, for `torch.save`; a SolarError if it cannot."""
    own = model.state_dict()
    layout = published_layouts.layout_to_write(model.config, own)
    state: dict[str, Any] = {
        their: own[our]
        .cpu()
        .reshape(published_layouts.published_shape(our, own[our].shape, layout))
        for our, their in published_layouts.published_names(own, layout).items()
    }
    if isinstance(model, PatchNet) or layout == "token":
        return state
    return {"meta": published_layouts.published_meta(model.config, model.dim), "state_dict": state}
