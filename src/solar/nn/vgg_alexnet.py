"""VGG-16 and AlexNet feature extractors, for the paper's older rows."""

from torch import Tensor, nn


class VGG16(nn.Module):
    """VGG-16's convolutions without the last pooling; parameter names are torchvision's."""

    stride = 16
    attention_layers: tuple[int, ...] = ()
    channels = 512

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for group in ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)):
            if layers:
                layers.append(nn.MaxPool2d(2))
            for outputs in group:
                layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
                inputs = outputs
        self.features = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, 3, h, w) to (b, 512, ⌊h / 16⌋, ⌊w / 16⌋)."""
        out: Tensor = self.features(x)
        return out


class AlexNet(nn.Module):
    """AlexNet's convolutions without the last pooling; parameter names are torchvision's."""

    stride = 16
    attention_layers: tuple[int, ...] = ()
    channels = 256

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
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

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (b, 3, h, w) to (b, 256, about h / 16, about w / 16); h and w at least 31."""
        out: Tensor = self.features(x)
        return out
