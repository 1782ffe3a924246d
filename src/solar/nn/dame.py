"""DAME: generalised-mean pooling whose exponent each image chooses."""

import torch
from torch import Tensor, nn


class DAME(nn.Module):
    """Generalised mean with an exponent between 1 and 5, by how much each channel varies.

    A layer takes the variances v of the channels over all locations to one exponent per image,
    p = 1 + 4·sigmoid(w·v + b). It starts at 0, which is GeM with p = 3.

    Args:
        channels: Of the map.
        eps: Floor under every activation, as for GeM.
    """

    def __init__(self, channels: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.fc = nn.Linear(channels, 1)
        nn.init.zeros_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)
        self.eps = eps

    def exponents(self, x: Tensor) -> Tensor:
        """The exponent of each image: (b, c, h, w) to (b,) in float32."""
        with torch.autocast(x.device.type, enabled=False):
            x = x.float().flatten(2)
            # The variance of a single location is not known; it does not vary.
            apart = (x - x.mean(dim=2, keepdim=True)).square().sum(dim=2)
            variance = apart / max(x.shape[2] - 1, 1)
            p: Tensor = 1 + 4 * torch.sigmoid(self.fc(variance)[:, 0])
            return p

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) of any precision to (b, c) in float32."""
        p = self.exponents(x)
        with torch.autocast(x.device.type, enabled=False):
            powers = x.float().clamp(min=self.eps).pow(p[:, None, None, None])
            return powers.mean(dim=(2, 3)).pow(1 / p[:, None])

    def split(self, x: Tensor) -> Tensor:
        """What each location adds, as for GeM, the exponent being known."""
        powers = x.float().clamp(min=self.eps).pow(self.exponents(x)[:, None, None, None])
        shares: Tensor = powers / powers.sum(dim=(2, 3), keepdim=True)
        return self.forward(x)[:, :, None, None] * shares
