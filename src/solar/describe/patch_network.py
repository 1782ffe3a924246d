"""Patches through a patch network, faster: what it computes stays the same.

On a CPU batch norms are folded into their convolutions, feature maps lie channels-last, the last
convolution, which sees its whole map at once, is one matrix product, and patches come in batches
small enough for the processor's cache: about twice as fast in all as plain batches of 512.
"""

import copy

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from solar.models import PatchNet
from solar.nn.fused import folded
from solar.nn.l2net import unit


class FusedPatchNet(nn.Module):
    """A frozen copy of a patch network, for the CPU; the network is left as it is."""

    weight: Tensor
    bias: Tensor

    def __init__(self, net: PatchNet) -> None:
        super().__init__()
        backbone = copy.deepcopy(net.trunk).eval()  # other threads may use the network meanwhile
        self.standardise = backbone.standardise
        self.layers = backbone.fuse()
        self.layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        last = folded(backbone.layer7)
        self.register_buffer("weight", last.weight.permute(0, 2, 3, 1).flatten(1).contiguous())
        self.register_buffer("bias", last.bias)

    def forward(self, patches: Tensor) -> Tensor:
        """Shape: (n, 1, 32, 32) to (n, 128), unit norm."""
        x = self.standardise(patches).contiguous(memory_format=torch.channels_last)
        x = self.layers(x).permute(0, 2, 3, 1).flatten(1)
        return unit(F.linear(x, self.weight, self.bias))


def patch_descriptors(model: PatchNet, patches: Tensor) -> NDArray[np.float32]:
    """Describe patches (n, 1, 32, 32) of any brightness range, by batches, where the network is.

    Returns (n, 128), unit rows; on a CPU within rounding of what the network itself returns.
    """
    on_cpu = model.device.type == "cpu"
    return model.describe(patches, forward=FusedPatchNet(model) if on_cpu else None)
