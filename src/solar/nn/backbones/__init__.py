"""Backbones by name. A new one is a file with a `Backbone`, and one line here."""

from collections.abc import Callable, Mapping
from functools import partial

from solar.nn.backbones.backbone import Backbone
from solar.nn.backbones.convolutional import DESIGNS, VGG16, AlexNet, ResNet
from solar.nn.backbones.efficientnet import LITE, EfficientNetLite

# Each takes the attention, layer number to channel reduction.
BACKBONES: dict[str, Callable[[Mapping[int, int]], Backbone]] = {
    **{f"resnet{depth}": partial(ResNet, depth) for depth in DESIGNS},
    # Without the last stage, as local features want their maps: finer, and less abstract.
    **{f"resnet{depth}-conv4": partial(ResNet, depth, last=4) for depth in DESIGNS},
    **{f"efficientnet-lite{number}": partial(EfficientNetLite, number) for number in LITE},
    "vgg16": VGG16,
    "alexnet": AlexNet,
}
