"""Networks to time: their weights are drawn at random, which takes as long as trained ones."""

import torch
from torch import nn

from solar.models import RetrievalConfig, RetrievalNet


def network(
    attention: dict[int, int], backbone: str = "resnet101", device: str | torch.device = "cuda"
) -> RetrievalNet:
    """A ResNet-101 whose activations neither grow nor vanish."""
    torch.manual_seed(0)
    net = RetrievalNet(RetrievalConfig(backbone, attention=attention)).eval()
    generator = torch.Generator().manual_seed(1)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor, low, high in (
                (module.running_mean, -0.2, 0.2),
                (module.running_var, 0.5, 1.5),
                (module.weight.data, 0.4, 0.8),
            ):
                assert tensor is not None
                tensor.uniform_(low, high, generator=generator)
    for layer in attention:
        output = net.backbone.get_submodule(f"soa{layer}.output")
        assert isinstance(output, nn.Conv2d)
        nn.init.normal_(output.weight, std=0.5 / output.in_channels**0.5, generator=generator)
    return net.to(device)
