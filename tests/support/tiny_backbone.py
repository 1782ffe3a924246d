"""A backbone that trains in seconds on one core; `register` before a recipe names it."""

from collections.abc import Mapping

from torch import nn

from solar.nn import BACKBONES, Backbone


class Tiny(Backbone):
    channels = 64
    stride = 8
    attention_strides = {4: 4, 5: 8}  # noqa: RUF012 (as anybody would write it)

    def __init__(self, attention: Mapping[int, int] | None = None) -> None:
        super().__init__(attention)
        stages = (("low", 3, 16, None), ("middle", 16, 32, 4), ("high", 32, 64, 5))
        for name, inputs, outputs, layer in stages:
            conv = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
            self.add_stage(name, nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU()))
            if layer is not None:
                self.add_attention(layer, outputs)


def register() -> None:
    BACKBONES["tiny"] = Tiny
