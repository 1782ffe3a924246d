"""What all indexes of one server share: threads, networks, uploaded queries, limits and numbers."""

import json
from typing import TYPE_CHECKING

from solar.search import Index, PhotoIndex
from solar.web.access import Rates
from solar.web.middleware import Admission
from solar.web.monitoring import Metrics
from solar.web.photos import Uploads
from solar.web.settings import WebSettings
from solar.web.thread_pools import NetworkThread, Threads

if TYPE_CHECKING:
    from solar.describe.query_encoder import QueryEncoder

_PICTURES_WAITING = 512
_GUESSES = 1 / 6, 10  # wrong tokens a second and at once


class Resources:
    """Made once per server, from the settings that its indexes have in common."""

    def __init__(self, settings: WebSettings) -> None:
        self.metrics = Metrics(several=bool(settings.indexes))
        self.admission = Admission(settings)
        # Without a limit of requests, all visitors may come through one proxy.
        self.guesses = Rates(*_GUESSES, what="wrong tokens") if settings.rate > 0 else None
        self.encoders = SharedEncoders()
        # Whoever searches one index with a photo can search the others with it.
        self.uploads = Uploads(settings.query_bytes)
        self.network = NetworkThread(
            settings.queue, settings.batch, settings.gather, self.metrics.forward
        )
        self.threads = Threads(settings.threads, 2 * settings.queue)
        # Slow things have threads of their own: nobody's quick search waits behind them.
        self.slow = Threads(settings.threads, settings.queue)
        self.picturing = Threads(settings.threads, _PICTURES_WAITING)
        show = self.metrics.gauge
        show("solar_queue_length", "Tasks waiting for the network.", lambda: self.network.waiting)
        show("solar_work_length", "Tasks decoding or searching.", lambda: self.threads.waiting)
        show("solar_slow_length", "Tasks matching or adding.", lambda: self.slow.waiting)
        show("solar_upload_bytes", "Memory of uploaded queries.", lambda: self.uploads.nbytes)

    def close(self) -> None:
        """Stop all threads and forget what visitors sent."""
        self.network.close()
        for threads in (self.threads, self.slow, self.picturing):
            threads.close()
        self.uploads.clear()


class SharedEncoders:
    """Networks that describe queries, each in memory once; used by the network's thread alone."""

    def __init__(self) -> None:
        self._loaded: dict[str, QueryEncoder] = {}

    def load(self, index: PhotoIndex) -> None:
        """Load the encoder of an index, or have it use one that is there; a SolarError if not."""
        if not isinstance(index, Index):
            index.load_model()
            return
        network = index.spec.fingerprint
        if network in self._loaded:
            index.model = self._loaded[network].net
        key = network + json.dumps(index.spec.settings, sort_keys=True, default=str)
        if network and key in self._loaded:
            index.encoder = self._loaded[key]
        loaded = index.encoder
        if network:  # without a fingerprint nobody knows whether another is the same
            self._loaded.setdefault(network, loaded)
            self._loaded.setdefault(key, loaded)
