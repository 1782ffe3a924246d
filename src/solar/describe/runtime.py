"""Which runtime computes: a graph for OpenVINO, ONNX Runtime, or torch."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Protocol

from solar.describe.cpu.graph import GRAPHS, MANY, GraphNet, can_be_graph, open_graph
from solar.describe.network import Network, network_of
from solar.describe.settings import Settings
from solar.images import Photos

if TYPE_CHECKING:
    from solar.models import RetrievalNet


class Describer(Protocol):
    """Pixels to descriptors: `FusedNet`, or another backend."""

    @property
    def device(self) -> Any:
        """Where it computes: a `torch.device`, or what has its `type`."""

    @property
    def backend(self) -> str:
        """What computes."""

    def __call__(self, pixels: Any) -> Any:
        """Shape: (b, h, w, 3) bytes to (b, dim) float32."""


def describer(
    net: RetrievalNet | Network,
    settings: Settings,
    photos: Photos | None = None,
    *,
    singly: bool = False,
) -> Describer:
    """The fastest faithful way to run a network; a SolarError if its device or backend is missing.

    int8 is calibrated on some of the photos. If they are many, "auto" makes a graph of a network
    that was loaded from a file; otherwise it uses one made before. If they are given `singly`, all
    cores work on one.
    """
    network = network_of(net)
    graphs = settings.device == "cpu" and settings.backend in ("auto", *GRAPHS)
    if graphs and not (settings.backend == "openvino" and can_be_graph(network)):
        found = _graph(network, settings, 0 if photos is None else len(photos), singly)
        if found is not None:
            return found
    elif settings.backend not in ("auto", "torch"):
        from solar.describe.cpu.backends import BackendNet, open_backend

        examples = () if photos is None else map(photos.read, range(len(photos)))
        opened = open_backend(network.net, settings.backend, calibration=examples)
        return BackendNet(network.net, opened, settings.scales)
    from solar.describe.fast_net import FusedNet
    from solar.models.inference import checked_device

    device = checked_device(settings.device)
    return FusedNet(network.net, device=device, dtype=settings.dtype, scales=settings.scales)


def _graph(network: Network, settings: Settings, photos: int, singly: bool) -> GraphNet | None:
    """A graph, if it was asked for or there is one already, or it is worth making one."""
    asked = settings.backend in GRAPHS
    if asked:
        from solar.models.export import require

        require("openvino", purpose=f"The backend {settings.backend}")
    names = GRAPHS[GRAPHS.index(settings.backend) :] if asked else GRAPHS
    if settings.precision == "float32":
        names = names[-1:]
    make = asked or (photos >= MANY and bool(network.source))
    graph, reason = open_graph(
        network, settings.scales, names, make=make, many=photos > 1 and not singly
    )
    used = "torch" if graph is None else graph.backend
    if asked and used != settings.backend:
        warnings.warn(
            f"The backend {settings.backend} does not work here, so {used} is used: {reason}.",
            stacklevel=3,
        )
    return graph
