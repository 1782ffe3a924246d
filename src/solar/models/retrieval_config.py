"""Configuration of a retrieval network: architecture and preprocessing."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import sqrt
from typing import Any, Literal

from solar.defaults import SIZE
from solar.errors import SolarError
from solar.images.resize import Square
from solar.nn import BACKBONES, POOLINGS
from solar.nn.backbones.backbone import Interpolation
from solar.nn.backbones.parts import TokenUse

SCALES = (1.0, sqrt(2), 1 / sqrt(2))
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
# The published channel reductions; layers that the paper could not afford follow conv4_x.
REDUCTIONS = {2: 4, 3: 4, 4: 4, 5: 2}
# How poolings use a class token.
TOKENS: dict[str, TokenUse] = {"cls": "only", "cls+gem": "beside"}


@dataclass(frozen=True)
class RetrievalConfig:
    """Everything needed to build a retrieval network and to feed it.

    Attributes:
        backbone: One of `BACKBONES`; or, with `backbone_settings`, a model type of `transformers`.
        attention: Layer number to channel reduction; empty for a plain network.
        pooling: One of `POOLINGS`.
        regional: Pool by regions (and whiten each region when `whitening` is on).
        local_whitening: A linear layer on every location before the pooling.
        whitening: A linear layer with bias after the pooling.
        normalise_pooled: Divide the pooled vector by its length before that layer, too.
        dim: Length of an embedding; None keeps the backbone's channels.
        mean: Subtracted from pixels in 0..1.
        std: Divides them.
        size: Longest side that a photo is reduced to.
        scales: Embeddings of these scales are averaged.
        post_whitening: Whitening learned after training and applied to the averaged embedding,
            as the older GeM networks do it: one layer for a single scale, one for several.
        adaptation: Length of the embedding after the linear layer of `solar.adapt`, if any.
        backbone_settings: The config.json of a backbone of `transformers`; None for ours.
        interpolation: How photos are resized to other scales, and to the backbone's grid.
        square: How photos become squares of `size` pixels; None keeps their aspect ratio.
    """

    backbone: str = "resnet101"
    attention: Mapping[int, int] = field(default_factory=dict)
    pooling: str = "gem"
    regional: bool = False
    local_whitening: bool = False
    whitening: bool = True
    normalise_pooled: bool = True
    dim: int | None = None
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    size: int = SIZE
    scales: tuple[float, ...] = SCALES
    post_whitening: tuple[Literal["single", "multi"], ...] = ()
    adaptation: int | None = None
    backbone_settings: Mapping[str, Any] | None = None
    interpolation: Interpolation = "bilinear"
    square: Square | None = None

    def __post_init__(self) -> None:
        if self.backbone_settings is None and self.backbone not in BACKBONES:
            raise SolarError(
                f"There is no backbone {self.backbone!r}: choose from {_listed(BACKBONES)}."
            )
        if self.pooling not in POOLINGS:
            raise SolarError(
                f"There is no pooling {self.pooling!r}: choose from {_listed(POOLINGS)}."
            )
        if self.pooling in TOKENS and self.backbone_settings is None:
            raise SolarError(f"{self.backbone} has no class token: pool by gem or mean.")
        if self.dim is not None and not self.whitening:
            raise SolarError("Only a whitening layer can change the length of an embedding.")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready settings."""
        return {**asdict(self), "attention": {str(k): v for k, v in self.attention.items()}}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "RetrievalConfig":
        """The inverse of `to_dict`."""
        known = dict(settings)
        known["attention"] = {int(k): int(v) for k, v in known.get("attention", {}).items()}
        for name in ("mean", "std", "scales", "post_whitening"):
            if name in known:
                known[name] = tuple(known[name])
        if known.get("square") is not None:
            known["square"] = Square(**known["square"])
        return cls(**known)


def attention_at(layers: str | Iterable[int], reductions: Mapping[int, int]) -> dict[int, int]:
    """Layers such as "45" or (4, 5), which must have a place for it, with their reductions."""
    known, wanted = {str(layer): layer for layer in reductions}, sorted(map(str, layers))
    if unknown := [layer for layer in wanted if layer not in known]:
        raise SolarError(
            f"Attention goes after layers {_listed(reductions)}, not {_listed(unknown)}."
        )
    return {known[layer]: reductions[known[layer]] for layer in wanted}


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))
