"""How backbones of `transformers` come apart: each part takes a map (b, c, h, w) and gives one."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from solar.errors import SolarError
from solar.nn.soa import locations

TokenUse = Literal["none", "only", "beside"]
"""Use of a vision transformer's class token: dropped; as the map's only location; or as further
channels, the same at every location."""


def parts_of(body: Any, class_token: TokenUse) -> dict[str, nn.Module]:
    """The parts by name, in their order; a SolarError if a class token is wanted and not there."""
    split = _SPLITS.get(body.config.model_type)
    if class_token == "none" and split is not None:
        return split(body)
    if class_token != "none" and final_norm(body) is None:
        kind = body.config.model_type
        raise SolarError(f"{kind} has no class token: pool by gem or mean, not by cls.")
    return {"encoder": Whole(body, class_token)}


def _numbered(stages: Any) -> dict[str, nn.Module]:
    return {f"stage{number}": stage for number, stage in enumerate(stages, 1)}


def _norm(body: Any) -> Any:
    return next(iter(body.hidden_states_norms.values()))


def _convnext(body: Any) -> dict[str, nn.Module]:
    return {"stem": body.embeddings, **_numbered(body.encoder.stages), "norm": _norm(body)}


def _swin(body: Any) -> dict[str, nn.Module]:
    stages = _swin_stages(body.swin.encoder.layers, always_partition=True)
    return {
        "stem": _SwinStem(body.swin.embeddings),
        **_numbered(stages),
        "norm": _ChannelNorm(_norm(body)),
    }


def _swin_stages(layers: Any, **options: bool) -> list[nn.Module]:
    before = [None, *(layer.downsample for layer in layers[:-1])]
    return [
        _SwinStage(merge, one.blocks, options) for merge, one in zip(before, layers, strict=True)
    ]


def _hiera(body: Any) -> dict[str, nn.Module]:
    # The library's own backbone takes images of one size alone, and leaves out the reordering of
    # tokens that its windows rely on.
    config = body.config
    strides = [config.query_stride] * (len(config.depths) - 1)
    parts: dict[str, nn.Module] = {"stem": _HieraStem(body)}
    for number, stage in enumerate(body.encoder.stages):
        before, after = (min(max(n, 0), config.num_query_pool) for n in (number - 1, number))
        parts[f"stage{number + 1}"] = _HieraStage(stage, strides[before:], strides[after:])
    return {**parts, "norm": _ChannelNorm(_norm(body))}


_SPLITS: dict[str, Callable[[Any], dict[str, nn.Module]]] = {
    "convnext": _convnext,
    "convnextv2": _convnext,
    "dinov3_convnext": lambda body: _numbered(body.model.stages),
    "hiera": _hiera,
    "pvt_v2": lambda body: _numbered(map(_PvtStage, body.encoder.layers)),
    "resnet": lambda body: {"stem": body.embedder, **_numbered(body.encoder.stages)},
    "swin": _swin,
    "swinv2": lambda body: {
        "stem": _SwinStem(body.embeddings),
        **_numbered(_swin_stages(body.encoder.layers)),
    },
}


class Whole(nn.Module):
    """A backbone in one piece, with its class token if that is wanted."""

    def __init__(self, body: Any, class_token: TokenUse) -> None:
        super().__init__()
        self.body, self.class_token = body, class_token

    def forward(self, images: Tensor) -> Tensor:
        """Shape: (b, 3, h, w) to (b, c, h', w')."""
        if self.class_token == "none":
            features: Tensor = self.body(images).feature_maps[-1]
            return features
        out = self.body(images, output_hidden_states=True)
        norm = final_norm(self.body)
        assert norm is not None
        token: Tensor = norm(out.hidden_states[-1][:, 0])[:, :, None, None]
        if self.class_token == "only":
            return token
        features = out.feature_maps[-1]
        return torch.cat([features, token.expand(-1, -1, *features.shape[2:])], dim=1)


def final_norm(body: Any) -> nn.Module | None:
    """The norm at the end of a model; None for a backbone without a class token."""
    if getattr(getattr(body, "embeddings", None), "cls_token", None) is None:
        return None
    return getattr(body, "layernorm", None) or getattr(body, "norm", None)


def blocks_of(body: Any) -> nn.ModuleList | None:
    """The layers of a vision transformer."""
    count = getattr(body.config, "num_hidden_layers", None)
    lists = [module for module in body.modules() if isinstance(module, nn.ModuleList)]
    return next((one for one in lists if len(one) == count), None)


def _to_map(tokens: Tensor, size: tuple[int, int]) -> Tensor:
    """(b, h·w, c) to (b, c, h, w)."""
    b, _, c = tokens.shape
    return tokens.transpose(1, 2).reshape(b, c, *size)


class _ChannelNorm(nn.Module):
    """A norm of tokens, for a map."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x.movedim(1, -1)).movedim(-1, 1)
        return out


class _PvtStage(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        (tokens, *_), height, width = self.layer(x, False)
        return _to_map(tokens, (height, width))


class _SwinStem(nn.Module):
    def __init__(self, embeddings: nn.Module) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, images: Tensor) -> Tensor:
        return _to_map(*self.embeddings(images, interpolate_pos_encoding=True))


class _SwinStage(nn.Module):
    """Merging of patches, which the library does at the end of the stage before, and blocks."""

    def __init__(
        self, merge: nn.Module | None, blocks: nn.ModuleList, options: dict[str, bool]
    ) -> None:
        super().__init__()
        self.merge, self.blocks, self.options = merge, blocks, options

    def forward(self, x: Tensor) -> Tensor:
        tokens, (h, w) = locations(x), x.shape[2:]
        if self.merge is not None:
            tokens, (h, w) = self.merge(tokens, (h, w)), ((h + 1) // 2, (w + 1) // 2)
        for block in self.blocks:
            tokens, *_ = block(tokens, (h, w), **self.options)
        return _to_map(tokens, (h, w))


class _HieraStem(nn.Module):
    def __init__(self, body: Any) -> None:
        super().__init__()
        self.embeddings, self.strides = body.embeddings, body.config.patch_stride

    def forward(self, images: Tensor) -> Tensor:
        tokens, *_ = self.embeddings(images, interpolate_pos_encoding=True)
        height, width = (n // s for n, s in zip(images.shape[2:], self.strides, strict=True))
        return _to_map(tokens, (height, width))


class _HieraStage(nn.Module):
    """A stage whose tokens are in another order than rows and columns.

    Tokens that will be pooled together, and those of one window, lie a fixed distance apart.
    `before` has the strides of the poolings that are still to come, this stage's own among them;
    `after` the same behind this stage.
    """

    def __init__(self, stage: nn.Module, before: Any, after: Any) -> None:
        super().__init__()
        self.stage, self.before, self.after = stage, before, after

    def forward(self, x: Tensor) -> Tensor:
        from transformers.models.hiera.modeling_hiera import unroll

        height, width = x.shape[2:]
        tokens, *_ = self.stage(unroll(locations(x), (height, width), (1, 1), self.before))
        b, _, c = tokens.shape
        for strides in self.before:
            height, width = height // strides[0], width // strides[1]
        rolled: Tensor = tokens.reshape(-1, height, width, c)
        for down, across in reversed(self.after):
            apart = rolled.reshape(-1, down, across, *rolled.shape[1:]).permute(0, 3, 1, 4, 2, 5)
            rolled = apart.flatten(3, 4).flatten(1, 2)
        return rolled.reshape(b, *rolled.shape[-3:]).movedim(-1, 1)
