"""Second-order attention: every location of a feature map attends to every other."""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Init = Literal["kaiming", "orthogonal"]

_TINY = 1e-6  # an output so small that there is nothing to divide
_BLOCK = 1 << 22  # entries of an attention map held at a time


class AttentionFactors(NamedTuple):
    """An attention map over n locations as 2·n·mid numbers in place of n·n.

    Both are (b, n, mid); the queries are multiplied by the scale of the map, which is the softmax
    of each row of their product (paper, equation 2).
    """

    queries: Tensor
    keys: Tensor


class SecondOrderAttention(nn.Module):
    """The paper's SOA block: a residual non-local block, the identity until it is trained.

    Example:
        >>> block = SecondOrderAttention(64, reduction=4)
        >>> x = torch.rand(1, 64, 9, 7)
        >>> bool((block(x) == x).all())
        True

    Args:
        channels: Channels of the feature map. Further channels of an input, such as a class token
            beside the map, pass unchanged.
        reduction: Queries, keys and values have `channels // reduction` channels.
        init: How query, key and value start: "kaiming" in the retrieval network, "orthogonal" in
            the patch network. The output projection always starts at zero.
    """

    def __init__(self, channels: int, reduction: int, *, init: Init = "kaiming") -> None:
        super().__init__()
        if reduction < 1 or channels < reduction:
            raise ValueError(f"reduction {reduction} does not fit {channels} channels")
        self.channels, self.mid = channels, channels // reduction
        query, key, value = (nn.Conv2d(channels, self.mid, 1) for _ in range(3))
        self.query, self.key = (
            nn.Sequential(conv, nn.BatchNorm2d(self.mid), nn.ReLU(inplace=True))
            for conv in (query, key)
        )
        self.value, self.output = value, nn.Conv2d(self.mid, channels, 1)
        start = nn.init.kaiming_normal_ if init == "kaiming" else nn.init.orthogonal_
        for conv in (query, key, value):
            start(conv.weight)
        nn.init.zeros_(self.output.weight)
        for conv in (query, key, value, self.output):
            assert conv.bias is not None
            nn.init.zeros_(conv.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Re-weight (b, channels, h, w); memory grows linearly with the number of locations."""
        return self._linear_memory(x, self._scale(picture=False))[0]

    def forward_with_factors(
        self, x: Tensor, *, picture_scale: bool = False
    ) -> tuple[Tensor, AttentionFactors]:
        """Re-weight a feature map and return the attention map, as factors.

        Row i of the map says how much location i attends to each location; rows sum to one.
        `picture_scale` takes the flatter scale of the paper's pictures, `mid ** -3/4`, which is
        never right for descriptors.
        """
        scale = self._scale(picture_scale)
        out, q, k = self._linear_memory(x, scale)
        return out, AttentionFactors(scale * q, k)

    def trace(self, x: Tensor, ran: tuple[Tensor, AttentionFactors], parts: Tensor) -> Tensor:
        """Contributions of the output's locations as contributions of the input's.

        The output at i is xᵢ + b + Σⱼ zᵢⱼ O vⱼ, and the contribution of location i is split in the
        proportion of these terms: those with zᵢⱼ go to j. Sums over locations stay, channel by
        channel.

        `ran` is the result of `forward_with_factors` for the input x, (b, channels, h, w), and
        `parts` has the contribution of each location of the output.
        """
        out, (queries, keys) = ran
        some = out.abs() > _TINY
        ratio = torch.where(some, parts / torch.where(some, out, 1), 0)
        rows = locations(ratio)
        gathered = torch.zeros_like(rows)
        step = max(1, _BLOCK // rows.shape[1])
        for start in range(0, rows.shape[1], step):
            here = slice(start, start + step)
            z = torch.softmax(queries[:, here] @ keys.transpose(1, 2), dim=-1)
            gathered += z.transpose(1, 2) @ rows[:, here]
        values = F.conv2d(self.value(x), self.output.weight)
        assert self.output.bias is not None
        own = torch.where(some, ratio * (x + self.output.bias[:, None, None]), parts)
        return own + gathered.transpose(1, 2).reshape(x.shape) * values

    def _scale(self, picture: bool) -> float:
        return float(self.mid ** (-0.75 if picture else -0.5))

    def _linear_memory(self, x: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
        """The re-weighted map, its queries and its keys."""
        b, channels, h, w = x.shape
        own = x if channels == self.channels else x[:, : self.channels]
        # Without contiguous rows torch falls back to a kernel that holds the whole map.
        heads = (self.query, self.key, self.value)
        q, k, v = (locations(head(own)).contiguous() for head in heads)
        query, key, value = (part[:, None] for part in (q, k, v))  # one head of `mid` channels
        attended = F.scaled_dot_product_attention(query, key, value, scale=scale)[:, 0]
        gathered = self.output(attended.transpose(1, 2).reshape(b, self.mid, h, w))
        if channels > self.channels:
            gathered = F.pad(gathered, (0, 0, 0, 0, 0, channels - self.channels))
        return x + gathered, q, k  # paper, equation 3


def locations(x: Tensor) -> Tensor:
    """A map (b, c, h, w) as rows (b, h·w, c); if it is channels-last, without a copy."""
    return x.flatten(2).transpose(1, 2)
