"""What describing needs to know of a network, so that its weights need not be loaded for it.

A network that has been made a graph (`solar.describe.cpu.graph`) describes photos without torch.
Its facts are kept beside the graph; the network itself is loaded when something else needs it, such
as an attention map.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar import weights
from solar.errors import SolarError
from solar.files import cache_directory, replacing
from solar.images.resize import Square

if TYPE_CHECKING:
    from solar.models import RetrievalNet


@dataclass(frozen=True)
class Facts:
    """What is known of a network without its weights."""

    dim: int  # of an embedding
    size: int  # longest side that photos are reduced to by default
    scales: tuple[float, ...]  # that are averaged by default
    least_side: int  # fewest pixels of a photo's shorter side
    square: Square | None  # how photos become squares, if they do
    attention: tuple[int, ...]  # layers that are followed by second-order attention
    explains: bool  # whether `solar.explain` can split its similarities
    text: bool  # whether it has a text encoder

    @classmethod
    def of(cls, net: RetrievalNet) -> Facts:
        """The facts of a network in memory."""
        from solar.models.contributions import check_splits

        try:
            check_splits(net)
            explains = True
        except SolarError:
            explains = False
        config = net.config
        sizes = net.dim, config.size, config.scales, net.backbone.least_side, config.square
        return cls(*sizes, tuple(sorted(config.attention)), explains, net.text is not None)


class Network:
    """A retrieval network that is loaded when its weights are first needed.

    `source` is what `solar.load` takes to load it again.
    """

    def __init__(
        self, load: Callable[[], RetrievalNet], source: str, fingerprint: str, facts: Facts
    ) -> None:
        self._load = load
        self.source, self.fingerprint, self.facts = source, fingerprint, facts
        self.device: Any = "cpu"  # until it is loaded elsewhere

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory."""
        return "net" in self.__dict__

    @cached_property
    def net(self) -> RetrievalNet:
        """The network itself."""
        return self._load()


def network_of(model: Network | RetrievalNet | str | Path, *, device: str | None = None) -> Network:
    """A network, not loaded if it is bundled, runs on a CPU and has been made a graph before."""
    if isinstance(model, Network):
        return model
    if isinstance(model, str | Path):
        bundled = str(model) in weights.NAMES and not Path(model).is_file()
        fingerprint = weights.facts(str(model)).get("fingerprint", "") if bundled else ""
        facts = kept_facts(fingerprint, device)
        if facts is not None:
            return Network(partial(_loaded, model, device), str(model), fingerprint, facts)
    from solar.models import RetrievalNet
    from solar.models import fingerprint as computed

    net = model if isinstance(model, RetrievalNet) else _loaded(model, device)
    network = Network(lambda: net, net.source or "", computed(net), Facts.of(net))
    network.net, network.device = net, net.device
    return network


def kept_facts(fingerprint: object, device: object = None) -> Facts | None:
    """The facts of a network that has a graph for CPUs, unless it would run elsewhere."""
    if not isinstance(fingerprint, str) or not fingerprint.isalnum() or not runs_on_cpu(device):
        return None
    try:
        known = json.loads(_place(fingerprint).read_text())
        square = known["square"] and Square(**known["square"])
        tuples = {name: tuple(known[name]) for name in ("scales", "attention")}
        return Facts(**{**known, **tuples, "square": square})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def keep_facts(network: Network) -> None:
    """Keep the facts of a network, for `kept_facts`."""
    with replacing(_place(network.fingerprint)) as temporary:
        temporary.write_text(json.dumps(asdict(network.facts)))


def graph_folder() -> Path:
    """Where graphs are kept."""
    return cache_directory() / "graphs"


def runs_on_cpu(device: object = None) -> bool:
    """Whether a model runs on the CPU here; torch, which takes a second to import, is not asked."""
    if device is not None:
        return str(device) == "cpu"
    if sys.platform == "win32":
        return not Path("C:/Windows/System32/nvcuda.dll").exists()
    return not any(Path("/dev", name).exists() for name in ("nvidiactl", "dxg"))


def _place(fingerprint: str) -> Path:
    return graph_folder() / f"{fingerprint[:20]}.json"


def _loaded(model: RetrievalNet | str | Path, device: str | None) -> RetrievalNet:
    from solar.models import retrieval_model

    return retrieval_model(model, device=device)
