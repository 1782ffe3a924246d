"""Save and load networks: our safetensors, the others by `published` and `hub`."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from solar import weights
from solar.errors import SolarError
from solar.files import replacing
from solar.images.roots import expanded
from solar.models import zoo
from solar.models.hub import repository as hub
from solar.models.hub.library_weights import check_finite
from solar.models.hub.pretrained import from_folder, pretrained_folder
from solar.models.inference import checked_device
from solar.models.patch_net import PatchConfig, PatchNet
from solar.models.published import COUNTER, fill, from_state, published_network, read_pickle
from solar.models.published import Model as Model
from solar.models.retrieval_config import RetrievalConfig
from solar.models.retrieval_net import RetrievalNet
from solar.nn import Whitening
from solar.nn.backbones.backbone import without_drawing

_DIGEST = "solar_sha256"


@overload
def load(
    source: zoo.RetrievalName = ..., *, device: str | torch.device | None = ...
) -> RetrievalNet: ...
@overload
def load(source: zoo.PatchName, *, device: str | torch.device | None = ...) -> PatchNet: ...
@overload
def load(source: str | Path, *, device: str | torch.device | None = ...) -> Any: ...
def load(
    source: str | Path = weights.DEFAULT, *, device: str | torch.device | None = None
) -> Model:
    """Load a pretrained network, ready to compute embeddings.

    Type checkers know which kind of network a name gives. A network from a file is of any type to
    them: annotate it, or use `retrieval_model`.

    Args:
        source: A name that `solar models` lists (bundled, or downloaded once), a `.safetensors`
            of ours, a published `.pth`, a folder with the `config.json` and `model.safetensors` of
            a backbone of `transformers`, or on the model hub, "hf:org/name", such a folder or a
            `model.safetensors` of ours. Nothing in a file is ever executed.
        device: "cpu" or "cuda". Default: the first CUDA device where there is one, otherwise the
            CPU.

    Raises:
        SolarError: No such name or file; the file is damaged, contains NaN or infinity, or is not a
            network that solar can read; or this machine has no such device.
    """
    device = checked_device(device)
    path = _file(source)
    try:
        model = _with_card(_read(path), path)
    except SolarError:
        raise
    except Exception as error:  # settings that make no sense can fail in any way at all
        reason = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")
        raise SolarError(f"{path} cannot be turned into a network ({reason}).") from error
    given = expanded(source)
    model.source = str(given.resolve() if path.is_relative_to(given) else source)
    return model.to(device).eval()


def retrieval_model(
    model: Model | str | Path, *, device: str | torch.device | None = None
) -> RetrievalNet:
    """The network given, or loaded; a SolarError if it describes patches."""
    network: Model = load(model, device=device) if isinstance(model, str | Path) else model
    if not isinstance(network, RetrievalNet):
        raise SolarError(
            f"{network.source or 'The network'} describes patches, not photos: choose a retrieval "
            "model."
        )
    return network


def save(model: Model, path: str | Path, *, half: bool = False) -> Path:
    """Write a network and its settings as safetensors, atomically.

    `half` stores kernels and matrices as float16; loaded, they are float32 again. A SolarError if
    the file does not end in .safetensors, cannot be written, or a number is too large for float16.
    """
    if Path(path).suffix != ".safetensors":
        raise SolarError(f"{path} must end in .safetensors: `solar convert` turns it into a .pth.")
    header = {"format": "solar", "version": "1", **architecture(model)}
    state = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
    if half:
        state = {name: _halved(name, tensor) for name, tensor in state.items()}
    with replacing(path) as temporary:
        save_file(state, temporary, metadata={**header, _DIGEST: _digest(header, state)})
    return Path(path)


def architecture(model: Model) -> dict[str, str]:
    """What a network is, apart from its weights, as its files say it."""
    task = "retrieval" if isinstance(model, RetrievalNet) else "patches"
    return {"task": task, "config": json.dumps(model.config.to_dict(), sort_keys=True)}


def _halved(name: str, tensor: Tensor) -> Tensor:
    if tensor.dim() < 2 or not tensor.is_floating_point():
        return tensor
    half = tensor.half()
    if not torch.isfinite(half).all():
        raise SolarError(f"{name} holds numbers too large for float16: save it in float32.")
    return half


def _digest(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of a file's settings and tensors."""
    settings = {key: value for key, value in header.items() if key != _DIGEST}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), [*tensor.shape]]).encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def fingerprint(model: Model) -> str:
    """A hash of settings and weights: two networks that share it give the same embeddings."""
    digest = hashlib.sha256(architecture(model)["config"].encode())
    for name, tensor in sorted(model.state_dict().items()):
        if not name.endswith(COUNTER):
            digest.update(name.encode())
            digest.update(tensor.float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def load_whitening(source: str | Path) -> nn.Linear:
    """Load a published whitening layer, of SOLAR's training or ILIAS; else a SolarError."""
    path = _file(source)
    content = read_pickle(path)
    try:
        if isinstance(content, Mapping) and {"m", "P"} <= set(content):
            mean, matrix = (torch.as_tensor(content[key]) for key in ("m", "P"))
            layer = Whitening(mean.flatten(), matrix).linear()
        else:
            state = {str(name).removeprefix("layer."): value for name, value in content.items()}
            layer = nn.Linear(state["weight"].shape[1], state["weight"].shape[0])
            layer.load_state_dict(state)
    except Exception as error:  # the file may hold anything
        raise SolarError(
            f"{path} does not hold a whitening layer (a weight and a bias)."
        ) from error
    check_finite(layer.state_dict(), path)
    return layer


def _file(source: str | Path) -> Path:
    path = expanded(source)
    if path.is_file():
        return path
    if str(source) not in weights.NAMES:  # a folder may be called like a model
        if (folder := pretrained_folder(source)) is not None:
            own = folder / hub.WEIGHTS
            return own if hub.is_ours(own) else folder
        if path.is_dir():
            raise SolarError(
                f"{path} is a folder without a {hub.CONFIG}: name a .safetensors or .pth file, or "
                "a model from `solar models`."
            )
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(source)):  # two letters: C:/ is a drive
        raise SolarError(f"{source} is an address: download it first and give the file.")
    is_path = isinstance(source, Path) or len(path.parts) > 1
    if is_path or path.suffix in (".pth", ".pt", ".safetensors"):
        raise SolarError(f"There is no file {path}.")
    return zoo.obtain(str(source))


def _read(path: Path) -> Model:
    if path.is_dir():
        return from_folder(path)
    if path.suffix == ".safetensors":
        return _read_ours(path)
    content = read_pickle(path)
    if isinstance(content, Mapping) and "metrics_bytes" in content:
        return _of_run(path, content["state"])
    return published_network(path, content)


def _with_card(model: Model, path: Path) -> Model:
    """A bundled network with the scales on its card, which were measured after it was saved."""
    bundled = path.parent == weights.FOLDER and path.stem in weights.NAMES
    scales = weights.facts(path.stem).get("scales") if bundled else None
    if scales and isinstance(model, RetrievalNet):
        model.config = replace(model.config, scales=tuple(scales))
    return model


def _read_ours(path: Path) -> Model:
    try:
        with safe_open(path, framework="pt") as file:
            header = dict(file.metadata() or {})
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise SolarError(
            f"{path} is not a complete safetensors file ({error}): fetch or copy it again."
        ) from error
    ours = header.get("format") == "solar"
    if ours and header.get("version") != "1":
        raise SolarError(
            f"{path} was written by a newer solar (format {header.get('version')}): update solar."
        )
    if _DIGEST in header and header[_DIGEST] != _digest(header, state):  # 24 MB take 20 ms
        raise SolarError(
            f"{path} is damaged: its weights or settings are not those that were written; "
            "fetch or copy it again."
        )
    return _built(path, header, state) if ours else from_state(path, state, meta={})


def _built(path: Path, header: Mapping[str, Any], state: Mapping[str, Tensor]) -> Model:
    """A network of its `architecture` and its tensors."""
    try:
        settings = json.loads(header["config"])
        model: Model
        if header["task"] == "retrieval":
            with without_drawing():
                model = RetrievalNet(RetrievalConfig.from_dict(settings))
        else:
            model = PatchNet(PatchConfig.from_dict(settings))
    except SolarError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SolarError(
            f"{path} has settings that this version of solar cannot read ({error})."
        ) from error
    fill(model, state, {name: name for name in model.state_dict()}, path)
    return model


def _of_run(path: Path, state: Mapping[str, Any]) -> Model:
    """The network of a training run's checkpoint: the average of its weights, if there is one."""
    if state.get("architecture") is None:
        raise SolarError(
            f"{path} is a checkpoint to continue a run from, of a network that is not finished: "
            "give the run's .safetensors."
        )
    average = {} if state["ema"] is None else state["ema"]["values"]
    tensors = {name: average.get(name, value) for name, value in state["network"].items()}
    return _built(path, state["architecture"], tensors)
