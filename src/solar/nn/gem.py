"""Generalised-mean pooling."""

import torch
from torch import Tensor, nn


class GeM(nn.Module):
    """Generalised mean over all locations, between the average (p = 1) and the maximum (p → ∞).

    Example:
        >>> pool = GeM(p=3.0)
        >>> pool(torch.rand(2, 512, 12, 16)).shape
        torch.Size([2, 512])

    Args:
        p: Where the exponent starts.
        channels: Give it for one exponent a channel ("GeMmp"); None shares one among all.
        eps: Floor under every activation: a power of zero has no gradient for p.
        learned: Off: p is no parameter and stays, but is saved with the network all the same.
    """

    p: Tensor

    def __init__(
        self,
        p: float = 3.0,
        channels: int | None = None,
        eps: float = 1e-6,
        *,
        learned: bool = True,
    ) -> None:
        super().__init__()
        start = torch.full((channels or 1,), float(p))
        if learned:
            self.p = nn.Parameter(start)
        else:
            self.register_buffer("p", start)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, c, h, w) of any precision to (b, c) in float32."""
        with torch.autocast(x.device.type, enabled=False):
            p = self.p.float()[:, None, None]
            powers = x.float().clamp(min=self.eps).pow(p)
            return powers.mean(dim=(2, 3)).pow(1 / p[..., 0, 0])  # paper, equation 1

    def split(self, x: Tensor) -> Tensor:
        """What each location adds to the mean: (b, c, h, w) to (b, c, h, w), whose sums it is."""
        powers = x.float().clamp(min=self.eps).pow(self.p.float()[:, None, None])
        shares: Tensor = powers / powers.sum(dim=(2, 3), keepdim=True)
        return self.forward(x)[:, :, None, None] * shares

    def extra_repr(self) -> str:
        """Show the exponent as it is now."""
        p = self.p.detach()
        return f"p={p.mean().item():.4f}, channels={p.numel()}, eps={self.eps}"
