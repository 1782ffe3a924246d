"""Whole photos: a backbone, a pooling, whitening, and the preprocessing that belongs to them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.errors import SolarError
from solar.images import Box, Source, check_visible, load
from solar.images.readable import photo_list
from solar.models.inference import inference, named
from solar.models.retrieval_config import TOKENS, RetrievalConfig
from solar.models.text_side import TextSide
from solar.models.zoo import no_text_side
from solar.nn import BACKBONES, POOLINGS, Backbone, GeM, Regional, l2_normalize
from solar.nn.backbones.backbone import resize
from solar.nn.backbones.transformers import TransformersBackbone
from solar.nn.backbones.vision_tower import VisionTower, is_joint


class RetrievalNet(nn.Module):
    """A batch of normalised images in, unit embeddings out.

    Example:
        >>> net = RetrievalNet(RetrievalConfig("resnet18", attention={4: 4, 5: 2})).eval()
        >>> net(torch.rand(1, 3, 96, 128)).shape
        torch.Size([1, 512])

    Args:
        config: What to build.
        freeze_batch_norm: Keep every batch norm in evaluation mode while training, as the paper's
            training does (also those inside the attention blocks).
    """

    source: str | None = None
    """The argument of `solar.load` that gave this network."""

    text: TextSide | None = None
    """The text encoder, if the model has one; no part of the weights."""

    def __init__(self, config: RetrievalConfig, *, freeze_batch_norm: bool = True) -> None:
        super().__init__()
        self.config = config
        self.freeze_batch_norm = freeze_batch_norm
        self.backbone = _build_backbone(config)
        self.grid, channels = self.backbone.grid, self.backbone.channels
        self.local_whiten = nn.Linear(channels, channels) if config.local_whitening else None
        pool = POOLINGS[config.pooling](channels)
        if config.regional:
            pool = Regional(pool, nn.Linear(channels, channels) if config.whitening else None)
        self.pool = pool
        dim = config.dim or self.pooled_dim
        self.whiten = nn.Linear(self.pooled_dim, dim) if config.whitening else None
        self.post = nn.ModuleDict({name: nn.Linear(dim, dim) for name in config.post_whitening})
        self.adapt = nn.Linear(dim, config.adaptation) if config.adaptation else None
        self.mean: Tensor
        self.std: Tensor
        for name, values in (("mean", config.mean), ("std", config.std)):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return self.config.adaptation or self.config.dim or self.pooled_dim

    @property
    def pooled_dim(self) -> int:
        """Length of the pooled vector: the channels of the map, but for local features."""
        return getattr(self.pool, "dim", None) or self.backbone.channels

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    @property
    def clamps(self) -> bool:
        """Whether the pooling raises negative values of a map to its floor."""
        return isinstance(self.pool, GeM) and self.local_whiten is None

    def __repr__(self) -> str:
        """One line; `print(model.backbone)` lists the layers."""
        layers = ",".join(map(str, sorted(self.config.attention)))
        parts = f"{self.config.backbone}{f' + attention {layers}' if layers else ''}"
        what = f"{parts}, {self.config.pooling}, {self.dim} numbers, on {self.device}"
        return f"<{named(self)}: {what}>"

    def train(self, mode: bool = True) -> RetrievalNet:
        """Switch to training, except for layers that do not learn, and batch norms if frozen."""
        super().train(mode)
        for module in self.modules():
            frozen = self.freeze_batch_norm and isinstance(module, nn.BatchNorm2d)
            own = list(module.parameters(recurse=False))
            if own and (frozen or not any(parameter.requires_grad for parameter in own)):
                module.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Describe normalised images at one scale: (b, 3, h, w) to (b, dim), unit norm."""
        return self.adapted(self.forward_scale(images))

    def forward_scale(self, images: Tensor) -> Tensor:
        """Like `forward`, without the layer that follows the average over scales, if any."""
        return self.head(self.forward_features(images))

    def forward_features(self, images: Tensor) -> Tensor:
        """Normalised images (b, 3, h, w) to the feature maps (b, c, h', w') that are pooled."""
        features: Tensor = self.backbone(images)
        return features

    def head(self, features: Tensor) -> Tensor:
        """Feature maps (b, c, h, w) of the backbone to unit embeddings (b, dim), in float32."""
        with torch.autocast(features.device.type, enabled=False):
            pooled: Tensor = self.pool(self.before_pooling(features))
            if self.whiten is None or self.config.normalise_pooled:
                pooled = l2_normalize(pooled)
            return pooled if self.whiten is None else l2_normalize(self.whiten(pooled))

    def before_pooling(self, features: Tensor) -> Tensor:
        """Feature maps (b, c, h, w) of the backbone to those that are pooled, in float32."""
        features = features.float()
        if self.local_whiten is None:
            return features
        whitened: Tensor = self.local_whiten(features.movedim(1, -1)).movedim(-1, 1)
        return whitened

    def multiscale(
        self,
        images: Tensor,
        scales: Sequence[float] | None = None,
        *,
        forward: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """The average over several scales: (b, 3, h, w), normalised, to (b, dim), unit norm.

        `forward` runs each scale in place of `forward_scale`: a faster copy, for example.
        """
        scales = self.config.scales if scales is None else scales
        run = forward or self.forward_scale
        return self.average([run(self.rescale(images, scale)) for scale in scales])

    def rescale(self, images: Tensor, scale: float) -> Tensor:
        """Normalised images (b, 3, h, w) at another scale, with sides that the backbone takes."""
        return resize(images, scale, self.grid, self.config.interpolation)

    def average(self, vectors: Sequence[Tensor]) -> Tensor:
        """Average the embeddings of one photo's scales, (b, dim) each.

        Networks without a whitening layer average with the power of their GeM exponent, as
        published; the others plainly. Whitening learned afterwards and the layer of `solar.adapt`
        come last. A SolarError if no scale is given.
        """
        if not vectors:
            raise SolarError("At least one scale is needed to describe a photo.")
        power = self.scale_power(len(vectors))
        mean = torch.stack([v.pow(power) for v in vectors]).mean(dim=0).pow(1 / power)
        mean = mean / mean.norm(dim=1, keepdim=True)
        name = "multi" if len(vectors) > 1 else "single"
        return self.adapted(l2_normalize(self.post[name](mean)) if name in self.post else mean)

    def adapted(self, vectors: Tensor) -> Tensor:
        """Averaged embeddings (b, ·) through the layer of `solar.adapt`, if there is one."""
        return vectors if self.adapt is None else F.normalize(self.adapt(vectors))

    def with_adaptation(self, layer: nn.Linear | None) -> RetrievalNet:
        """A network with another last layer, or with none, which shares all other weights."""
        shared = (*self.parameters(), *self.buffers())
        net = copy.deepcopy(self, {id(tensor): tensor for tensor in shared})
        net.adapt = layer
        net.config = replace(self.config, adaptation=None if layer is None else layer.out_features)
        net.source = None
        net.text = self.text if layer is None else None  # the layer was trained on photos alone
        return net

    def scale_power(self, scales: int) -> float | Tensor:
        """The power of the mean over this many scales, see `average`."""
        plain = self.whiten is None and not self.config.regional
        if scales > 1 and plain and self.config.pooling == "dame":
            return 3.0  # as published, whatever the exponents of the images
        if scales > 1 and plain and self.config.pooling == "gem" and isinstance(self.pool, GeM):
            return self.pool.p.detach()  # not its value: reading that stops a GPU and an export
        return 1.0

    def normalise(self, pixels: Tensor) -> Tensor:
        """Photos as (b, h, w, 3) bytes to the (b, 3, h, w) float32 batch the network takes."""
        return (pixels.movedim(-1, 1).float() / 255 - self.mean) / self.std

    def transforms(
        self,
        photo: Source,
        *,
        size: int | None = None,
        box: Box | None = None,
        orient: bool = True,
        max_pixels: int | None = None,
    ) -> Tensor:
        """A photo as the network takes it, `model(model.transforms("a.jpg")[None])`.

        Args and errors are those of `describe`.

        Returns:
            (3, h, w) float32, normalised, on the network's device.
        """
        pixels = load(
            photo,
            size or self.config.size,
            box=box,
            square=self.config.square,
            orient=orient,
            max_pixels=max_pixels,
        ).pixels
        check_visible(pixels.shape[1], pixels.shape[0], photo)
        return self.normalise(torch.from_numpy(pixels)[None].to(self.device))[0]

    def describe(
        self,
        images: Source | Iterable[Source],
        *,
        size: int | None = None,
        scales: Sequence[float] | None = None,
        box: Box | None = None,
        orient: bool = True,
        max_pixels: int | None = None,
        forward: Callable[[Tensor], Tensor] | None = None,
    ) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Describe photos: decode, turn upright, cut the box, reduce, run at every scale, average.

        Args:
            images: A photo or several: paths, encoded bytes, file objects in binary mode, PIL
                images, (h, w, 3) byte arrays, or (3, h, w) tensors of bytes or of numbers from 0
                to 1. A tensor (b, 3, h, w) or an array (b, h, w, 3) is b photos.
            size: Longest side; photos are reduced to it, never enlarged. Default: the model's.
            scales: Default: the model's.
            box: The part to describe, (x1, y1, x2, y2) in pixels of the upright photo, for every
                photo given. The crop keeps the scale that it has in the whole photo.
            orient: Obey the EXIF orientation. The published code ignores it: pass False to match.
            max_pixels: Refuse larger photos before they are decoded. Default: about 179 million.
            forward: As for `multiscale`.

        Returns:
            (n, dim) float32, unit rows.

        Raises:
            SolarError: A photo cannot be read, the box does not fit it, or too little is left of
                it to be described.
        """
        many = photo_list(images)
        scales = self.config.scales if scales is None else scales
        rows = np.empty((len(many), self.dim), np.float32)
        with inference(self):
            for row, source in zip(rows, many, strict=True):
                photo = self.transforms(
                    source, size=size, box=box, orient=orient, max_pixels=max_pixels
                )
                height, width = photo.shape[1:]
                least = self.backbone.least_side
                check_visible(width, height, source, scales=scales, least=least)
                vectors = self.multiscale(photo[None], scales, forward=forward)
                row[:] = vectors[0].cpu().numpy()
        return rows

    encode = describe
    """The same as `describe`."""

    def describe_text(self, texts: str | Iterable[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Compute embeddings of texts, for models with a text encoder (CLIP, SigLIP).

        Texts are used as they are, without a prompt template. Longer texts than the model accepts
        (64 or 77 tokens) are truncated.

        Returns:
            (n, dim) float32, unit rows.

        Raises:
            SolarError: The model has no text encoder, or its files are missing or damaged.
        """
        many = [texts] if isinstance(texts, str) else list(texts)
        if self.text is None:
            raise no_text_side(self.source, joint=isinstance(self.backbone, VisionTower))
        if not many:
            return np.empty((0, self.dim), np.float32)
        return self.text.describe(many, self.device).numpy()


def _build_backbone(config: RetrievalConfig) -> Backbone:
    if config.backbone_settings is None:
        return BACKBONES[config.backbone](config.attention)
    if is_joint(config.backbone_settings):
        if config.pooling != "cls":
            raise SolarError(f"{config.backbone} gives one embedding per photo: pool by cls.")
        return VisionTower(config.backbone_settings, config.attention)
    return TransformersBackbone(
        config.backbone_settings,
        config.attention,
        class_token=TOKENS.get(config.pooling, "none"),
        interpolation=config.interpolation,
    )
