"""L2-Net, the patch network of SOSNet, with places for second-order attention."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from solar.nn.soa import Attend, SecondOrderAttention

# (input channels, output channels, stride) of the six 3×3 convolutions.
_LAYERS = ((1, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1))

DropoutPlace = Literal["before", "after"]


class L2Net(nn.Module):
    """Seven convolutions that turn a 32×32 grey patch into 128 values of unit norm.

    Args:
        attention: Second-order attention after layers 3 to 6: layer number to channel reduction.
            The blocks are called `soa3` to `soa6`.
        dropout: Rate while training.
        dropout_place: "before" the last convolution, as the paper says, or "after" it, as its
            published code has it.
    """

    attention_layers = (3, 4, 5, 6)
    attention_strides: ClassVar[Mapping[int, int]] = {3: 2, 4: 2, 5: 4, 6: 4}

    def __init__(
        self,
        attention: Mapping[int, int] | None = None,
        dropout: float = 0.1,
        dropout_place: DropoutPlace = "before",
    ) -> None:
        super().__init__()
        self.dropout_place = dropout_place
        self.standardise = nn.InstanceNorm2d(1)
        for number, (inputs, outputs, stride) in enumerate(_LAYERS, 1):
            self.add_module(
                f"layer{number}",
                nn.Sequential(
                    nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
                    nn.BatchNorm2d(outputs, affine=False),
                    nn.ReLU(inplace=True),
                ),
            )
            reduction = (attention or {}).get(number)
            if reduction is not None:
                block = SecondOrderAttention(outputs, reduction, init="orthogonal")
                self.add_module(f"soa{number}", block)
        self.dropout = nn.Dropout(dropout)
        self.layer7 = nn.Sequential(
            nn.Conv2d(128, 128, 8, bias=False), nn.BatchNorm2d(128, affine=False)
        )
        for name, module in self.named_modules():
            if isinstance(module, nn.Conv2d) and not name.startswith("soa"):
                nn.init.orthogonal_(module.weight)

    def forward(self, patches: Tensor) -> Tensor:
        """Describe grey patches of any brightness range (each is standardised first).

        Shape:
            (n, 1, 32, 32) to (n, 128), unit norm.
        """
        return self.run(patches, lambda layer, block, x: block(x))

    def attend(self, patches: Tensor, *, drawn: bool = True) -> tuple[Tensor, dict[int, Tensor]]:
        """Run as `forward` does, and keep every attention map, by layer number."""
        maps: dict[int, Tensor] = {}

        def keep(layer: int, block: SecondOrderAttention, x: Tensor) -> Tensor:
            x, maps[layer] = block.attend(x, drawn=drawn)
            return x

        return self.run(patches, keep), maps

    def run(self, patches: Tensor, attend: Attend) -> Tensor:
        """Run as `forward` does, with `attend` in the place of every attention block."""
        x = self.standardise(patches)
        for number in range(1, 7):
            x = self.get_submodule(f"layer{number}")(x)
            block = self._modules.get(f"soa{number}")
            if isinstance(block, SecondOrderAttention):
                x = attend(number, block, x)
        return self._head(x)

    def _head(self, x: Tensor) -> Tensor:
        if self.dropout_place == "before":
            x = self.layer7(self.dropout(x))
        else:
            x = self.dropout(self.layer7(x))
        return unit(x.flatten(1))


def unit(x: Tensor) -> Tensor:
    """The norm that patch descriptors end in: (n, d) to the same.

    The published local response norm with its window over all channels is an L2 norm; its tiny
    offset keeps an all-zero descriptor finite.
    """
    x = x + 1e-10
    norm: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / norm
