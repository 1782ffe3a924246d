"""VGG-16 and AlexNet feature extractors, for the paper's older rows."""

from collections.abc import Mapping

from torch import nn

from solar.nn.backbones.backbone import Backbone


class VGG16(Backbone):
    """VGG-16's convolutions without the last pooling; parameter names are torchvision's.

    Shape: (b, 3, h, w) to (b, 512, ⌊h / 16⌋, ⌊w / 16⌋).
    """

    channels = 512
    least_side = stride = 16
    first = 8.0

    def __init__(self, attention: Mapping[int, int] | None = None) -> None:
        super().__init__(attention)
        layers: list[nn.Module] = []
        inputs = 3
        for group in ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)):
            if layers:
                layers.append(nn.MaxPool2d(2))
            for outputs in group:
                layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
                inputs = outputs
        self.add_stage("features", nn.Sequential(*layers))


class AlexNet(Backbone):
    """AlexNet's convolutions without the last pooling; parameter names are torchvision's.

    Shape: (b, 3, h, w) to (b, 256, about h / 16, about w / 16).
    """

    channels = 256
    least_side = 31
    stride = 16
    first = 15.5

    def __init__(self, attention: Mapping[int, int] | None = None) -> None:
        super().__init__(attention)
        features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(inplace=True),
        )
        self.add_stage("features", features)
