"""How photos are described: one set of settings for Python, the command line and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from solar.defaults import GPU_DECODES
from solar.errors import SolarError
from solar.images import MAX_PIXELS, Box, DecodedImage, Source, check_visible, load
from solar.images.resize import Square

if TYPE_CHECKING:
    import torch

    from solar.images.gpu import Reduction
    from solar.models import RetrievalNet


# Of a field: whether an index records it, whether vectors with different values can be
# compared, and whether a caller chooses it.
_UNIMPORTANT = {"compared": False}  # a GPU's bfloat16 and JPEG decoder move vectors too little
_PASSING = {"recorded": False, "compared": False}
_INTERNAL = {"recorded": False, "compared": False, "chosen": False}


@dataclass(frozen=True)
class Settings:
    """What decides a descriptor besides the photo and the network.

    Attributes:
        size: Longest side of a photo in pixels; by default the network's own.
        scales: Scales to average; by default the network's own.
        orient: Obey EXIF orientation.
        mode: "exact", or "fast", which decodes JPEGs on a GPU that describes, where torchvision is
            installed, and otherwise large ones at a fraction of their size.
        decoder: What decodes plain JPEGs; all others are Pillow's.
        device: "cpu" or "cuda"; by default where the network is.
        precision: Of the backbone: "auto" is float32 on a CPU and bf16 on a GPU.
        backend: What computes: "torch", or another runtime for a CPU such as "openvino", which is
            used only if a test run succeeds; int8 is calibrated on the first photos.
        max_pixels: Larger photos are skipped.
        least_side: Pixels that the network needs at every scale.
        square: Of a network that takes squares.
    """

    size: int
    scales: tuple[float, ...]
    orient: bool = True
    mode: Literal["exact", "fast"] = "exact"
    decoder: Literal["pillow", "device"] = field(
        default="pillow", metadata=_UNIMPORTANT | {"chosen": False}
    )
    device: str = field(default="cpu", metadata=_UNIMPORTANT)
    precision: Literal["auto", "float32", "bf16"] = field(default="auto", metadata=_UNIMPORTANT)
    backend: str = "torch"
    max_pixels: int = field(default=MAX_PIXELS, metadata=_PASSING)
    least_side: int = field(default=1, metadata=_INTERNAL)
    square: Square | None = field(default=None, metadata=_INTERNAL)

    @classmethod
    def of(cls, net: RetrievalNet, **options: Any) -> Settings:
        """Settings for a network; None and what is missing is its own size, scales and device.

        A TypeError if an option is not one that a caller can choose.
        """
        from solar.models.inference import checked_device

        if unknown := sorted(options.keys() - names("chosen")):
            known = ", ".join(names("chosen"))
            raise TypeError(f"no setting is called {unknown[0]!r}: choose from {known}")
        given: dict[str, Any] = {k: value for k, value in options.items() if value is not None}
        given["device"] = checked_device(given.get("device", net.device)).type
        given |= {"least_side": net.backbone.least_side, "square": net.config.square}
        given["scales"] = tuple(given.get("scales", net.config.scales))
        return cls(**{"size": net.config.size, **given})

    @property
    def dtype(self) -> torch.dtype | None:
        """Of the backbone; None where the device decides."""
        import torch

        return {"float32": torch.float32, "bf16": torch.bfloat16}.get(self.precision)

    def decode(self, photo: Source, box: Box | None = None) -> DecodedImage:
        """A photo as the network takes it: upright, cut to the box, reduced.

        A SolarError if it cannot be read, the box misses it, or too little is left of it.
        """
        image = load(
            photo,
            self.size,
            box=box,
            square=self.square,
            orient=self.orient,
            mode=self.mode,
            max_pixels=self.max_pixels,
        )
        height, width = image.pixels.shape[:2]
        check_visible(width, height, photo, scales=self.scales, least=self.least_side)
        return image

    def plan(self, data: bytes, box: Box | None = None) -> Reduction | None:
        """How a device decodes a JPEG file as `decode` does; None where Pillow must."""
        from solar.images.gpu import plan_reduction

        if self.square is not None:
            return None
        try:
            plan = plan_reduction(
                data, self.size, box=box, orient=self.orient, max_pixels=self.max_pixels
            )
            if plan is not None:
                check_visible(*plan.target, scales=self.scales, least=self.least_side)
        except SolarError:  # `decode` will say it, with the photo's name
            return None
        return plan

    def fitted(self, mode: str | None, backend: str) -> Settings:
        """The settings with what runs in place of what was asked for.

        The device decodes where it can if photos are to be decoded fast, or if that is the default
        and `mode` is None. It decodes all of the photo, so that this is exact but for rounding.
        """
        import torch

        from solar.describe.device_decoding import jpeg_engine

        fitted = replace(self, backend=backend)
        wanted = mode == "fast" or (mode is None and GPU_DECODES)
        if wanted and self.square is None and jpeg_engine(torch.device(self.device)):
            return replace(fitted, mode="exact", decoder="device")
        return fitted

    def recorded(self, boxes: Mapping[str, Box]) -> dict[str, Any]:
        """What an index records of these settings, and of the parts of photos described."""
        kept = {name: getattr(self, name) for name in names("recorded")}
        return {**kept, "boxes": {name: list(box) for name, box in boxes.items()}}


def names(role: Literal["recorded", "compared", "chosen"]) -> tuple[str, ...]:
    """The fields of `Settings` that an index records, that must agree, or that a caller chooses."""
    return tuple(one.name for one in fields(Settings) if one.metadata.get(role, True))


def comparable(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Of recorded settings, those in which vectors must agree; boxes belong to single photos."""
    ignored = {"boxes", *names("recorded")} - {*names("compared")}
    return {name: value for name, value in recorded.items() if name not in ignored}


def for_more(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Of recorded settings, those with which more photos must be described."""
    return {name: recorded[name] for name in names("compared") if name in recorded}
