"""How photos are described: one set of settings for Python, the command line and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from solar.defaults import GPU_DECODES
from solar.describe.network import Facts, Network
from solar.errors import SolarError
from solar.images import MAX_PIXELS, Box, DecodedImage, Source, check_visible, load
from solar.images.decode import Mode
from solar.images.resize import Square

if TYPE_CHECKING:
    import torch

    from solar.images.gpu import Reduction
    from solar.models import RetrievalNet


_COMPARED = ("size", "scales", "orient", "mode")
"""The settings in which vectors must agree to be compared.

A GPU's bfloat16 and JPEG decoder move vectors too little, and so does a CPU's runtime, which is
tried out first; but see `comparable` for int8.
"""
_RECORDED = (*_COMPARED, "decoder", "device", "precision", "backend")  # by an index
_CHOSEN = (*_COMPARED, "device", "precision", "backend", "max_pixels")  # by a caller


@dataclass(frozen=True)
class Settings:
    """What decides an embedding besides the photo and the network.

    Attributes:
        mode: "auto" decodes JPEGs that are four times too large at a fraction of their size, which
            moves an embedding less than another runtime does; "exact" decodes all as published;
            "fast" decodes them on a GPU that describes, where torchvision is installed, and
            otherwise those three times too large at a fraction of their size.
        backend: What computes on a CPU: "auto", the fastest that a test run has proven equal to
            torch; or "torch", or a runtime such as "openvino-bf16", which is used only if a test
            run succeeds; int8 is calibrated on the first photos.
    """

    size: int  # longest side of a photo in pixels; by default the network's own
    scales: tuple[float, ...]  # to average; by default the network's own
    orient: bool = True  # by EXIF
    mode: Mode = "auto"
    decoder: Literal["pillow", "device"] = "pillow"  # of plain JPEGs; all others are Pillow's
    device: str = "cpu"  # or "cuda"; by default the network's
    # Of the backbone: "auto" is float32 on a CPU and bf16 on a GPU.
    precision: Literal["auto", "float32", "bf16"] = "auto"
    backend: str = "auto"
    max_pixels: int = MAX_PIXELS  # larger photos are skipped
    least_side: int = 1  # that the network needs at every scale
    square: Square | None = None

    @classmethod
    def of(cls, net: RetrievalNet | Network, **options: Any) -> Settings:
        """Settings for a network, by default its own; a TypeError if there is no such option."""
        if unknown := sorted(options.keys() - {*_CHOSEN}):
            known = ", ".join(_CHOSEN)
            raise TypeError(f"no setting is called {unknown[0]!r}: choose from {known}")
        given: dict[str, Any] = {k: value for k, value in options.items() if value is not None}
        facts = net.facts if isinstance(net, Network) else Facts.of(net)
        given["device"] = _device_type(given.get("device", net.device))
        given |= {"least_side": facts.least_side, "square": facts.square}
        given["scales"] = tuple(given.get("scales", facts.scales))
        return cls(**{"size": facts.size, **given})

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
        fitted = replace(self, backend=backend)
        wanted = mode == "fast" or (mode is None and GPU_DECODES)
        if not wanted or self.square is not None:
            return fitted
        import torch

        from solar.describe.device_decoding import jpeg_engine

        if not jpeg_engine(torch.device(self.device)):
            return fitted
        return replace(fitted, mode="exact", decoder="device")

    def recorded(self, boxes: Mapping[str, Box]) -> dict[str, Any]:
        """What an index records of these settings, and of the parts of photos described."""
        kept = {name: getattr(self, name) for name in _RECORDED}
        return {**kept, "boxes": {name: list(box) for name, box in boxes.items()}}


def comparable(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Of recorded settings, those in which vectors must agree; boxes belong to single photos."""
    ignored = {"boxes", *_RECORDED} - {*_COMPARED}
    kept = {name: value for name, value in recorded.items() if name not in ignored}
    return kept | _int8(recorded)


def for_more(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Of recorded settings, those with which more photos must be described."""
    kept = {name: recorded[name] for name in _COMPARED if name in recorded}
    return kept | _int8(recorded)


def _int8(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The backend, if it moves vectors further than those that are comparable."""
    backend = str(recorded.get("backend", ""))
    return {"backend": backend} if backend.endswith("-int8") else {}


def _device_type(device: Any) -> str:
    """The kind of a device; a SolarError if this machine does not have it."""
    if str(device) == "cpu":
        return "cpu"
    from solar.models.inference import checked_device

    return checked_device(device).type
