"""Write networks in other formats: published checkpoints, ONNX, torch.export programs."""

import copy
import importlib.util
import json
import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from solar.errors import SolarError
from solar.files import replacing
from solar.models.checkpoint import Model, architecture, fingerprint, load, save
from solar.models.patch_net import PatchNet
from solar.models.published import to_published
from solar.models.retrieval_net import RetrievalNet
from solar.nn.backbones.transformers import open_sizes

# Attention is written out as products and a softmax: opset 23 has a single node for it, which
# OpenVINO runs no faster and ONNX Runtime slower.
OPSET = 18
# torch takes a size of one in an example for a fixed one; these are merely unlike each other.
_PHOTOS, _PATCHES = (2, 3, 160, 192), (2, 1, 32, 32)
_OTHER = (1, 3, 272, 208)  # to see whether sizes were left open indeed
_ATOL = 1e-4
# Backbones of transformers that cut maps into windows, padded by an amount that no graph can hold.
_UNEXPORTABLE = ("swin", "swinv2", "maskformer-swin")


def convert(
    source: str | Path,
    destination: str | Path,
    *,
    half: bool = False,
) -> Path:
    """Convert a network: to `.safetensors` in our format, to `.pth` in the published one.

    Warns if the network has a text encoder, which our formats do not keep.

    `half`, as for `save`, does not apply to the published format. A SolarError if the network
    cannot be read, or cannot be written in this format.
    """
    destination = Path(destination)
    if half and destination.suffix != ".safetensors":
        raise SolarError(f"{destination} must end in .safetensors: only those can be halved.")
    if destination.suffix not in (".safetensors", ".pth"):
        raise SolarError(
            f"{destination} must end in .safetensors (solar's format) or .pth (the published one)."
        )
    model = load(source, device="cpu")
    if getattr(model, "text", None) is not None:
        warnings.warn(
            f"{destination} contains only the image encoder of {source}: for text search, use "
            f"{source} as the model.",
            stacklevel=2,
        )
    if destination.suffix == ".safetensors":
        return save(model, destination, half=half)
    content = to_published(model)
    with replacing(destination) as temporary:
        torch.save(content, temporary)
    return destination


def export_onnx(model: Model, path: str | Path, *, scales: Sequence[float] | None = None) -> Path:
    """Write a network as an ONNX file, batch norms folded into the convolutions.

    A retrieval network takes `images` (batch, 3, height, width), float32 and normalised with its
    mean and standard deviation, a patch network `patches` (batch, 1, 32, 32); batch, height and
    width are left open. Out come `descriptors` (batch, dim) of unit norm, averaged over `scales`:
    by default the network's own, as an index has them; (1,) writes the network as it is called. The
    file's metadata holds `solar.config` (JSON: mean, std and so on), `solar.scales` and
    `solar.fingerprint`.
    A SolarError if a package is missing, or the pooling or the backbone needs fixed sizes. What is
    exported of a backbone of `transformers` is compared with the network at another size first.
    """
    require("onnx", "onnxscript", purpose="Exporting to ONNX")
    name, example, dynamic = _inputs(model)
    network: nn.Module = copy.deepcopy(model).cpu().eval()
    if isinstance(network, RetrievalNet):
        scales = tuple(network.config.scales if scales is None else scales)
        network = network if scales == (1,) else _MultiScale(network, scales)
    with quiet(), open_sizes(), _failures_told(model):
        program = torch.onnx.export(
            network,
            (example,),
            dynamo=True,
            input_names=[name],
            output_names=["descriptors"],
            dynamic_shapes={name: dynamic},
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    facts = _facts(model) | {"scales": json.dumps(scales)}
    program.model.metadata_props.update({f"solar.{key}": text for key, text in facts.items()})
    with replacing(path) as temporary:
        program.save(temporary, external_data=False)
        if _is_foreign(model):
            with _failures_told(model):
                _check_onnx(network, temporary)
    return Path(path)


def export_torch(model: Model, path: str | Path) -> Path:
    """Write a network as a torch.export program (`.pt2`) for one scale.

    `torch.export.load(path).module()` takes what the network takes: batch, height and width are
    open, photos of at least 33 pixels a side. Beside the program lie `config` (JSON) and
    `fingerprint`, for `torch.export.load(…, extra_files={"config": "", "fingerprint": ""})`.
    A SolarError if the pooling needs fixed sizes.
    """
    name, example, dynamic = _inputs(model)
    network = copy.deepcopy(model).cpu().eval()
    axes = dict.fromkeys(dynamic, torch.export.Dim.DYNAMIC)
    with quiet(), open_sizes(), _failures_told(model):
        program = torch.export.export(network, (example,), dynamic_shapes={name: axes})
        with replacing(path) as temporary, temporary.open("wb") as file:
            torch.export.save(program, file, extra_files=_facts(model))
    return Path(path)


def quantise_onnx(
    source: str | Path,
    destination: str | Path,
    batches: Iterable[np.ndarray[Any, np.dtype[np.float32]]],
    *,
    attention: bool = True,
) -> Path:
    """Rewrite an exported network so that its convolutions run in int8.

    Weights get one scale per channel, activations one per tensor, from the ranges that the batches
    reach. Residual sums, the products and softmax of attention, GeM, whitening and norms stay in
    float32, and so does the first convolution, which OpenVINO gets badly wrong in int8. In a patch
    network only inputs of convolutions are rounded, not outputs: a tenth faster in OpenVINO, and
    half as far from float32. ONNX Runtime and OpenVINO both use int8 instructions for the file.

    Args:
        source: From `export_onnx`, at one scale.
        destination: The file to write.
        batches: Normalised photos (b, 3, h, w), four or more, or patches (b, 1, 32, 32), like
            those that will be described.
        attention: Quantise the attention blocks' convolutions as well: a sixth faster on a
            ResNet-101, and a little further from float32.
    """
    require("onnx", "onnxruntime", purpose="Quantising")
    import onnx
    from onnxruntime import quantization  # type: ignore[import-untyped]

    graph = onnx.load(source).graph
    nodes, taken = graph.node, graph.input[0].name
    convolutions = [node for node in nodes if node.op_type == "Conv"]
    blocks = [node for node in convolutions if any(".soa" in name for name in node.input)]
    kept = [convolutions[0]] if attention else [convolutions[0], *blocks]

    class _CalibrationReader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.batches = iter(batches)

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self.batches, None)
            return None if batch is None else {taken: batch}

    rounded = {"OpTypesToExcludeOutputQuantization": ["Conv"]} if taken == "patches" else {}
    with replacing(destination) as temporary, quiet():
        quantization.quantize_static(
            str(source),
            str(temporary),
            _CalibrationReader(),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=["Conv"],
            nodes_to_exclude=[node.name for node in kept],
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            extra_options=rounded,
        )
    return Path(destination)


def require(*packages: str, purpose: str) -> None:
    """Raise a SolarError that names the extra to install if an optional package is missing."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise SolarError(
                f'{purpose} needs the package {package}: pip install "solar-retrieval[export]".'
            )


class _MultiScale(nn.Module):
    def __init__(self, model: RetrievalNet, scales: Sequence[float]) -> None:
        super().__init__()
        self.model, self.scales = model, scales

    def forward(self, images: Tensor) -> Tensor:
        return self.model.multiscale(images, self.scales)


def _inputs(model: Model) -> tuple[str, Tensor, dict[int, str]]:
    if isinstance(model, PatchNet):
        return "patches", torch.zeros(_PATCHES), {0: "batch"}
    if model.config.regional or model.config.pooling == "rmac":
        raise SolarError(
            "A network that pools by regions cannot be exported: its regions depend on the size "
            "of the photo."
        )
    if model.config.backbone_settings is not None and model.config.backbone in _UNEXPORTABLE:
        raise _fixed_sizes(model)
    return "images", torch.zeros(_PHOTOS), {0: "batch", 2: "height", 3: "width"}


def _is_foreign(model: Model) -> bool:
    return isinstance(model, RetrievalNet) and model.config.backbone_settings is not None


def _fixed_sizes(model: Model) -> SolarError:
    assert isinstance(model, RetrievalNet)
    return SolarError(
        f"A network over {model.config.backbone} cannot be exported for photos of all sizes: "
        "describe with torch, or choose another backbone."
    )


@contextmanager
def _failures_told(model: Model) -> Iterator[None]:
    """Turn export failures of third-party backbones into a SolarError."""
    try:
        yield
    except SolarError:
        raise
    except Exception as error:
        if not _is_foreign(model):
            raise
        raise _fixed_sizes(model) from error


def _check_onnx(network: nn.Module, path: Path) -> None:
    """A ValueError if a file describes images of another size differently from its network."""
    require("onnxruntime", purpose="Checking an export")
    import onnxruntime

    images = torch.rand(_OTHER, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        wanted = network(images).numpy()
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"images": images.numpy()})
    if not np.abs(found - wanted).max() < _ATOL:
        raise ValueError("the exported network gives other descriptors")


def _facts(model: Model) -> dict[str, Any]:
    return {"config": architecture(model)["config"], "fingerprint": fingerprint(model)}


@contextmanager
def quiet() -> Iterator[None]:
    """Silence what torch and ONNX Runtime log about their internals."""
    former = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(former)
