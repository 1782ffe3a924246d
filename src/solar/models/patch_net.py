"""32×32 patches: L2-Net with attention, as in SOSNet and the local SOLAR."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from solar.errors import SolarError
from solar.models.inference import inference, named
from solar.nn import L2Net
from solar.nn.l2net import PUBLISHED_LAYERS, DropoutPlace

# The published channel reductions.
PATCH_REDUCTIONS = {3: 4, 4: 4, 5: 2, 6: 2}


@dataclass(frozen=True)
class PatchConfig:
    """Everything needed to build a patch network.

    Attributes:
        attention: Layer number (3 to 6) to channel reduction; empty for plain SOSNet.
        dropout: Rate while training.
        dropout_place: "before" the last convolution (the paper) or "after" it (its code).
        layers: Channels and stride of each of the six 3×3 convolutions; default: as published.
    """

    attention: Mapping[int, int] = field(default_factory=dict)
    dropout: float = 0.1
    dropout_place: DropoutPlace = "before"
    layers: Sequence[tuple[int, int]] = PUBLISHED_LAYERS

    def __post_init__(self) -> None:
        if self.dropout_place not in ("before", "after"):
            raise SolarError(
                f'dropout_place must be "before" or "after", not {self.dropout_place!r}.'
            )

    @property
    def has_published_layers(self) -> bool:
        """Whether this is the network of the paper, but for attention."""
        return tuple(self.layers) == PUBLISHED_LAYERS

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready settings; those of a network with the published layers do not name them."""
        found = {**asdict(self), "attention": {str(k): v for k, v in self.attention.items()}}
        if self.has_published_layers:
            del found["layers"]
        return found

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "PatchConfig":
        """The inverse of `to_dict`."""
        attention = {int(k): int(v) for k, v in settings.get("attention", {}).items()}
        layers = tuple((n, stride) for n, stride in settings.get("layers", PUBLISHED_LAYERS))
        return cls(**{**settings, "attention": attention, "layers": layers})


class PatchNet(nn.Module):
    """Grey 32×32 patches in, 128 values of unit norm out.

    Example:
        >>> net = PatchNet(PatchConfig(attention={3: 4, 4: 4, 5: 2})).eval()
        >>> net(torch.rand(6, 1, 32, 32)).shape
        torch.Size([6, 128])
    """

    dim = 128
    source: str | None = None
    """The argument of `solar.load` that gave this network."""

    def __init__(self, config: PatchConfig | None = None) -> None:
        super().__init__()
        self.config = config or PatchConfig()
        # Files, and fingerprints of files, call its tensors "trunk", not "backbone".
        self.trunk = L2Net(**vars(self.config))

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    def __repr__(self) -> str:
        """One line; `print(model.trunk)` lists the layers."""
        layers = ",".join(map(str, sorted(self.config.attention)))
        parts = f"l2net{f' + attention {layers}' if layers else ''}"
        return f"<{named(self)}: {parts}, {self.dim} numbers, on {self.device}>"

    def forward(self, patches: Tensor) -> Tensor:
        """Shape: (n, 1, 32, 32) to (n, 128), unit norm."""
        out: Tensor = self.trunk(patches)
        return out

    def forward_features(self, patches: Tensor) -> Tensor:
        """Patches (n, 1, 32, 32) to the feature maps (n, channels, 8, 8) before the last layer."""
        return self.trunk.features(patches)

    def transforms(self, patches: np.ndarray[Any, Any] | Tensor) -> Tensor:
        """Patches as the network takes them: (n, 1, 32, 32) float32, on its device.

        The network itself standardises their brightness.
        """
        patches = _with_channel(patches)
        if isinstance(patches, np.ndarray):
            patches = torch.from_numpy(np.ascontiguousarray(patches, np.float32))
        return patches.to(self.device).float()

    def describe(
        self,
        patches: np.ndarray[Any, Any] | Tensor,
        *,
        batch: int | None = None,
        forward: nn.Module | None = None,
    ) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Describe grey patches of any number type and brightness range.

        Args:
            patches: (n, 32, 32) or (n, 1, 32, 32); a SolarError if they have another shape.
            batch: Patches per forward pass; default: as many as fit a processor's cache, or fill a
                GPU.
            forward: A faster copy of this network to run instead.

        Returns:
            (n, 128) float32, unit rows.
        """
        patches = _with_channel(patches)
        rows = np.empty((len(patches), self.dim), np.float32)
        batch = batch or (64 if self.device.type == "cpu" else 1024)
        net = forward or self
        with inference(net):
            for start in range(0, len(patches), batch):
                chunk = self.transforms(patches[start : start + batch])
                rows[start : start + batch] = net(chunk).cpu().numpy()
        return rows

    encode = describe
    """The same as `describe`."""


def _with_channel(patches: np.ndarray[Any, Any] | Tensor) -> np.ndarray[Any, Any] | Tensor:
    if patches.ndim == 3:
        patches = patches[:, None]
    if patches.ndim != 4 or patches.shape[1:] != (1, 32, 32):
        shape = tuple(patches.shape)
        raise SolarError(f"Patches must be (n, 32, 32), not {shape}: resize them first.")
    return patches
