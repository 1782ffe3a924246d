"""Backbones of the library `transformers`: DINOv2, DINOv3, ConvNeXt, Swin and many more.

`AutoBackbone` knows them by their model type. Those whose stages can be run one by one have places
for attention after each of them. The others, plain vision transformers among them, run as a whole,
with a place after the last layer.

The layers are numbered by stride, as in the paper: attention at stride s is number log2(s), rounded
(2, 3, 4 and 5 for strides 4, 8, 16 and 32; 4 for patches of 14 or 16 pixels).
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import log2
from typing import Any

import torch
from torch import nn

from solar.errors import SolarError, optional
from solar.nn.backbones.backbone import Backbone, Interpolation, ToGrid, draws_weights
from solar.nn.backbones.parts import TokenUse, Whole, blocks_of, final_norm, parts_of

_SIDE = 448  # of the images that strides are measured with
# Entries of a config.json that are not about the architecture.
_IGNORED = (
    *("architectures", "_name_or_path", "auto_map", "transformers_version", "torch_dtype", "dtype"),
    *("id2label", "label2id", "num_labels", "out_features", "out_indices", "stage_names"),
)


class TransformersBackbone(Backbone):
    """A backbone of `transformers`, with places for second-order attention.

    Sides of images are rounded to the nearest multiple of `grid`, which is the stride where the
    library would cut off what is left over, and 1 where it pads.

    `settings` is its config.json, whose `model_type` names the architecture.

    Raises:
        SolarError: The library is missing or gives no feature maps for this model type; there is
            no class token; or the attention has no place there.
    """

    takes_half = True

    def __init__(
        self,
        settings: Mapping[str, Any],
        attention: Mapping[int, int] | None = None,
        *,
        class_token: TokenUse = "none",
        interpolation: Interpolation = "bilinear",
    ) -> None:
        self.title = str(settings.get("model_type"))
        body = new_body(settings)
        widths, strides, self.grid = _measure(settings)
        last = {round(log2(stride)): name for name, stride in strides.items()}
        numbers = {name: number for number, name in last.items()}
        super().__init__(attention, {number: strides[name] for number, name in last.items()})
        if attention and class_token == "only":
            raise SolarError(
                "Attention does not change the class token: pool by gem or cls+gem, not cls."
            )
        self.stride = strides[next(reversed(strides))]
        self.least_side = (self.grid + 1) // 2
        if self.grid > 1 or hasattr(body.config, "patch_size"):  # windows that do not overlap
            self.first = self.stride / 2
        self.grid_stage = ToGrid(self.grid, interpolation)
        first: tuple[str, ...] = ("grid_stage",)
        for name, part in parts_of(body, class_token).items():
            self.add_module(name, part)
            self.add_stage(name, (*first, name))
            first = ()
            if name in numbers:
                self.add_attention(numbers[name], widths[name])
        self.channels = widths[name] * (2 if class_token == "beside" else 1)

    def take(self, body: nn.Module) -> None:
        """Copy the weights of a backbone as the library builds it from the same settings."""
        for name, part in parts_of(body, "none").items():
            self.get_submodule(name).load_state_dict(part.state_dict())

    def layers(self) -> dict[str, list[nn.Parameter]]:
        """The stages; for a vision transformer embeddings, layer1, layer2 …, norm, attention."""
        encoder, stages = self._modules.get("encoder"), super().layers()
        blocks = blocks_of(encoder.body) if isinstance(encoder, Whole) else None
        if encoder is None or blocks is None:
            return stages
        found: dict[str, list[nn.Parameter]] = {"embeddings": []}
        found |= {f"layer{n}": list(block.parameters()) for n, block in enumerate(blocks, 1)}
        inside = {id(parameter) for several in found.values() for parameter in several}
        for name, parameter in encoder.named_parameters():
            if id(parameter) not in inside and not name.endswith("mask_token"):  # it is not used
                late = name.startswith(
                    ("body.layernorm.", "body.norm.", "body.hidden_states_norms.")
                )
                found.setdefault("norm" if late else "embeddings", []).append(parameter)
        return found | {name: own for name, own in stages.items() if name != "encoder"}

    def cast(self, dtype: torch.dtype) -> None:
        """As for every backbone; constants such as the angles of positions keep their precision."""
        kept = [(m, name, b) for m in self.modules() for name, b in m.named_buffers(recurse=False)]
        self.to(dtype)
        for module, name, buffer in kept:
            if name in module._non_persistent_buffers_set:
                module._buffers[name] = buffer
        self.grid_stage.dtype = dtype

    def train(self, mode: bool = True) -> "TransformersBackbone":
        """Switch to training, except for stages without a parameter that learns: some drop out."""
        super().train(mode)
        for _, part in self.stages():
            if not any(parameter.requires_grad for parameter in part.parameters()):
                part.eval()
        return self


def has_class_token(settings: Mapping[str, Any]) -> bool:
    """Whether a backbone with these settings has a class token."""
    with torch.device("meta"):
        return final_norm(new_body(settings)) is not None


def cleaned(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a config.json about the architecture."""
    return {key: value for key, value in settings.items() if key not in _IGNORED}


def new_body(settings: Mapping[str, Any]) -> Any:
    """A backbone as the library builds it, with random weights; a SolarError if it cannot."""
    config = library_config(settings)
    make: Any = library().AutoBackbone.from_config
    with drawing():
        return make(config, trust_remote_code=False).eval()


def drawing() -> AbstractContextManager[None]:
    """Within the block the library draws weights, but not inside `without_drawing`."""
    from transformers.initialization import no_init_weights

    return nullcontext() if draws_weights.get() else no_init_weights()


def library() -> Any:
    """The module `transformers`; a SolarError if it is not installed."""
    return optional("transformers", "backbones")


def library_config(settings: Mapping[str, Any]) -> Any:
    """The library's configuration for the settings; a SolarError if it has no such backbone."""
    library()
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING_NAMES as KNOWN

    kind = str(settings.get("model_type"))
    if kind not in KNOWN or kind == "timm_backbone":
        known = ", ".join(sorted(set(KNOWN) - {"timm_backbone"}))
        raise SolarError(f"transformers has no backbone of type {kind!r}: it has {known}.")
    fixed = {"apply_layernorm": True, "reshape_hidden_states": True}
    kept = cleaned(settings)
    return CONFIG_MAPPING[kind].from_dict({**kept, **{k: fixed[k] for k in fixed if k in kept}})


@contextmanager
def open_sizes() -> Iterator[None]:
    """Within the block, exports leave the sizes of images open.

    Some models would turn the sizes that they interpolate position embeddings to into constants.
    """

    def keep(value: Any) -> Any:
        return value if isinstance(value, torch.SymInt) else int(value)

    modules = [m for name, m in sys.modules.items() if name.startswith("transformers.models.")]
    patched = [(m, m.__dict__["torch_int"]) for m in modules if "torch_int" in m.__dict__]
    for module, _ in patched:
        module.__dict__["torch_int"] = keep
    try:
        yield
    finally:
        for module, former in patched:
            module.__dict__["torch_int"] = former


def _measure(settings: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int], int]:
    """Channels and stride after each part, and the grid; computed on the meta device."""
    with torch.device("meta"), torch.inference_mode():
        parts = parts_of(new_body(settings), "none")
        x = torch.empty(1, 3, _SIDE, _SIDE)
        widths, strides = {}, {}
        for name, part in parts.items():
            x = part(x)
            widths[name], strides[name] = x.shape[1], round(_SIDE / x.shape[2])
        stride = round(_SIDE / x.shape[2])
        side = stride * (_SIDE // stride)
        try:
            more = torch.empty(1, 3, side + 1, side)
            for part in parts.values():
                more = part(more)
            pads = more.shape[2] > more.shape[3]
        except RuntimeError:  # sides that are no multiples are refused
            pads = False
    return widths, strides, 1 if pads else stride
