"""An index of photos by their vectors: one interface, and an engine chosen by its address."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from solar.arrays import Vectors
from solar.describe.network import Network, kept_facts, network_of
from solar.errors import SolarError
from solar.images import Roots
from solar.images.known_roots import confirm, confirmed_roots
from solar.index.location import Location, find_location
from solar.index.photo_index import PhotoIndex
from solar.index.search import Conditions, SearchSettings
from solar.index.sources import BATCH, batches
from solar.models import zoo
from solar.ranking.query import Words, as_vector, mean_vector
from solar.storage.conditions import Where
from solar.storage.protocol import Engine, Piece
from solar.storage.segments import rows_for
from solar.storage.types import DescriptorSpec, Hit, Photo, Skipped

if TYPE_CHECKING:
    from solar.describe.pipeline import Described, QueryEncoder
    from solar.describe.progress import Progress
    from solar.images import Box, Photos
    from solar.index.describing import Describing
    from solar.models import RetrievalNet
    from solar.ranking.verify import VerifySettings

Address: TypeAlias = str | os.PathLike[str]

ENGINES = {"milvus": "solar.storage.milvus.engine"}
"""Modules with `begin` and `open_index`, by the scheme of their addresses."""

FORMATS = {"asmk": "solar.asmk.index"}
"""Modules whose `open_index` opens a folder that holds something else than vectors."""

ON_GPU = "solar.storage.gpu_search"
"""The module whose `open_index` opens a folder of vectors to be searched on a GPU."""


def is_folder(address: Address) -> bool:
    """Whether an index is a folder on this machine, and no address of an engine."""
    scheme, separator, _ = str(address).partition("://")
    return not separator or scheme not in ENGINES


def engine_module(address: Address) -> ModuleType:
    """The module whose `begin` and `open_index` understand an address."""
    scheme = str(address).partition("://")[0]
    return import_module("solar.storage.folder_engine" if is_folder(address) else ENGINES[scheme])


def filled_engine(
    address: Address,
    spec: DescriptorSpec,
    batches: Iterable[tuple[Sequence[Photo], Vectors]],
    roots: Roots | None = None,
    **options: Any,
) -> Engine:
    """Make an index of vectors: whole, or not at all."""
    engine: Engine = engine_module(address).begin(address, spec, roots, **options)
    if len(engine):
        engine.close()
        raise SolarError(f"{address} is being built: run `solar index build` again, or delete it.")
    try:
        engine.add(batches)
        engine.finish()
    except BaseException:
        engine.discard()
        raise
    return engine


def report_place(address: Address, kind: str) -> Path:
    """Where a report of `photos.solar` is looked for: `photos.groups.json` beside it.

    Any other name stays whole: `trip.2023` and `trip.2024` do not share a report.
    """
    place = Path(address).absolute()
    name = place.stem if place.suffix == ".solar" else place.name
    return place.with_name(f"{name}.{kind}.json")


class Index(PhotoIndex):
    """Photos that can be searched; make one with `Index.create` or `Index.open`.

    Example:
        >>> index = Index.open("photos.solar")  # doctest: +SKIP
        >>> index.search("query.jpg", k=1, where="tag=night")  # doctest: +SKIP
        [Hit(path='rome/12.jpg', score=0.83, …)]

    Args:
        engine: Where the vectors are.
        model: Computes the embeddings of query photos. Default: the model named in the index.
    """

    has_vectors: ClassVar[bool] = True

    def __init__(self, engine: Engine, model: RetrievalNet | str | None = None) -> None:
        super().__init__(engine)
        self._given = model
        self._device: str | None = None

    @classmethod
    def create(
        cls,
        address: Address,
        vectors: npt.ArrayLike,
        photos: Sequence[str | Photo],
        *,
        spec: DescriptorSpec | None = None,
        roots: Roots | None = None,
        model: RetrievalNet | str | None = None,
        **options: Any,
    ) -> Index:
        """Create an index of vectors that were made elsewhere, completely or not at all.

        Args:
            address: A new folder, or `milvus://host:port/collection`.
            vectors: Unit vectors (n, dim).
            photos: Their paths, or all that is known of them.
            spec: How the vectors were made.
            roots: Where the photos are, `Roots.at("photos/")` for example.
            model: The model for queries. Default: the one named in `spec`.
            **options: For the engine: `compress=` of `solar.storage.folder_engine.begin`, or those
                of `solar.storage.milvus.engine.begin`.

        Raises:
            SolarError: The address is taken or cannot be written, photos and vectors do not fit
                together, or a vector's norm is not 1.
        """
        spec = spec or DescriptorSpec(np.atleast_2d(np.asarray(vectors)).shape[1])
        roots, filling = roots or Roots(), batches(vectors, photos)
        index = cls(filled_engine(address, spec, filling, roots, **options), model)
        confirm(index.place, roots)
        return index

    @classmethod
    def open(
        cls,
        address: Address,
        *,
        model: RetrievalNet | str | None = None,
        device: str | None = None,
        **options: Any,
    ) -> PhotoIndex:
        """Open an index, which takes milliseconds whatever its size.

        Args:
            address: A folder, or `milvus://host:port/collection`.
            model: The model for queries. Default: the one named in the index.
            device: Where the model runs. Default: the first CUDA device if there is one, otherwise
                the CPU. With `cuda` (all GPUs) or `cuda:1` (one of them), an index in a folder is
                also searched there: the first search loads its vectors, see
                `solar.storage.gpu_search`.
            **options: For the engine.

        Returns:
            An `Index`, or an `AsmkIndex` if the folder holds local features.

        Raises:
            SolarError: There is no index, or it is damaged or too new.
        """
        module = engine_module(address)
        if is_folder(address):
            from solar.storage.catalogue import Metadata

            options["metadata"] = metadata = Metadata(Path(address))
            if other := FORMATS.get(metadata.facts[1]):
                opened: PhotoIndex = import_module(other).open_index(address, model, **options)
                return opened
            if str(device).startswith("cuda"):
                module, options["device"] = import_module(ON_GPU), device
        index = cls(module.open_index(address, **options), model)
        index._device = device
        return index

    @cached_property
    def model(self) -> RetrievalNet:
        """What describes queries, loaded when it is first needed.

        Raises:
            SolarError: It cannot be loaded, or is not the one that made the vectors.
        """
        from solar.models import fingerprint, retrieval_model
        from solar.models.hub.repository import refuse_moved, refuse_unfetched

        model = self._given if self._given is not None else self.spec.model
        if not model:
            raise SolarError("The index does not record its model: pass the one it was built with.")
        if self._given is None:
            refuse_unfetched(self.spec.model)
            refuse_moved(self.spec.model)
        network = retrieval_model(model, device=self._device)
        if self.spec.fingerprint and fingerprint(network) != self.spec.fingerprint:
            raise SolarError(
                f"The index was made with another model ({self.spec.model or 'unnamed'}): "
                "search with that one, or build the index again."
            )
        self._given = network  # for copies of the index
        return network

    @cached_property
    def encoder(self) -> QueryEncoder:
        """Describes queries as the photos were described; made when first needed, as `model` is."""
        from solar.describe.pipeline import QueryEncoder

        return QueryEncoder(self.network, self.spec.settings)

    @cached_property
    def network(self) -> Network:
        """The model, which is not loaded if queries can be described without it."""
        known = self._unloaded(self._device) if self._given is None else None
        return known or network_of(self.model)

    def _unloaded(self, device: str | None) -> Network | None:
        facts = kept_facts(self.spec.fingerprint, device)
        if facts is None:
            return None
        return Network(lambda: self.model, self.spec.model, self.spec.fingerprint, facts)

    def close(self) -> None:
        """Close files and connections, and free the network."""
        super().close()
        self._given = None
        for loaded in ("model", "network", "encoder"):
            self.__dict__.pop(loaded, None)

    def search_vectors(
        self, queries: npt.ArrayLike, k: int = 10, *, where: Conditions = None
    ) -> list[list[Hit]]:
        """Search for many vectors (n, dim) at once, which is faster than one after the other."""
        SearchSettings(k)  # checks it
        found = self.engine.search(self._checked(queries), k, self.conditions(where))
        return [self.located(hits) for hits in found]

    def describe(self, query: Any, *, box: Box | None = None) -> Vectors:
        """The vector (dim,) that `search` looks for; its arguments and errors are the same."""
        parts = self.query_parts(query, box)
        words = [part.photo.text for part in parts if isinstance(part.photo, Words)]
        photos = [part for part in parts if not isinstance(part.photo, Words)]
        model = self._given or self.spec.model
        if words and isinstance(model, str) and zoo.is_name(model):  # known without loading it
            raise zoo.no_text_side(model, joint=False)
        vectors = [self._describe_one(part.photo, part.box) for part in photos]
        return mean_vector(vectors, list(self.model.describe_text(words)) if words else [])

    encode = describe

    def refuse_unknown_model(self) -> None:
        """Raise a SolarError if the index does not record its model, or it is not there."""
        from solar.models.hub.repository import refuse_unfetched

        if not self.spec.model:
            raise SolarError(
                "The index does not record its model, so new photos cannot be described: add "
                "their vectors in Python, with `solar.Index.add`."
            )
        if self._given is None:
            refuse_unfetched(self.spec.model)

    def add_photos(
        self,
        photos: Photos,
        *,
        extra: Mapping[str, Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
        how: Describing | None = None,
        **describing: Any,
    ) -> dict[str, str]:
        """Describe photos with the model and settings of the index; see `PhotoIndex.add_photos`.

        `how` is the network, if it is prepared. Each piece is committed when it is described.
        """
        from solar.describe.settings import for_more
        from solar.index.describing import Describing

        if how is None:
            settings = for_more(self.spec.settings)
            settings |= {name: value for name, value in describing.items() if value is not None}
            how = Describing.of(self._for_more(settings.get("device")), photos, **settings)
            self.refuse_other(how.spec)
        failures = dict[str, str]()
        rows = rows_for(max(len(photos), len(how.job.photos)), self.spec.dim)
        with self.engine.filling():
            for found in how.run(photos, rows, self.engine.incoming, progress):
                failures |= found.failures
                self.commit(photos, found, extra or {})
        return failures

    def commit(
        self, photos: Photos, found: Described, extra: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Add a piece of photos that was described."""
        skipped = dict[str, Skipped]()
        for name, why in found.failures.items():
            skipped[name] = Skipped(why, *photos.states[photos.numbers[name]][2:])
        described = [
            Photo(name, *size, stamp=f.stamp, **{**f.exif._asdict(), **extra.get(name, {})})
            for name, size, f in zip(found.names, found.sizes, found.facts, strict=True)
        ]
        self.engine.fill(Piece(described, found.vectors, skipped))

    def _for_more(self, device: str | None) -> Network:
        """The network for more photos, on the device that describes them."""
        if self._given is not None or "model" in self.__dict__:
            return network_of(self.model)
        self.refuse_unknown_model()
        return self._unloaded(device) or network_of(self.spec.model, device=device)

    def copy(self, address: Address, **options: Any) -> Index:
        """Make the same index elsewhere, on another engine or compressed otherwise."""
        everything = self.engine.batches(BATCH)
        engine = filled_engine(address, self.spec, everything, self.roots, **options)
        copied = Index(engine, self._given)
        confirm(copied.place, confirmed_roots(self.place, self.roots))
        return copied

    # Queries

    def load_model(self, shared: dict[str, QueryEncoder] | None = None) -> None:
        """Load the network; see `PhotoIndex.load_model`."""
        network = self.spec.fingerprint
        if shared is not None and network:  # without a fingerprint, networks cannot be compared
            alike = network + json.dumps(self.spec.settings, sort_keys=True, default=str)
            if network in shared:
                self.network = shared[network].network
            if alike in shared:
                self.encoder = shared[alike]
            for name in (network, alike):
                shared.setdefault(name, self.encoder)
        _ = self.encoder

    def nearest(self, asked: Sequence[Vectors], count: int, where: Where) -> list[list[Hit]]:
        """Photos with the largest inner products; see `PhotoIndex.nearest`."""
        return self.engine.search(self._checked(asked), count, where)

    def _describe_one(self, query: Any, box: Box | None) -> Vectors:
        if self._is_photo(query):
            return self.encoder(query, box)
        if isinstance(query, str):
            return self._named(query, self.lookup)[1]
        vector = as_vector(query)
        assert vector is not None  # `_is_photo` says so
        checked: Vectors = self._checked(vector[None])[0]
        return checked

    def _checked(self, vectors: npt.ArrayLike) -> Vectors:
        queries = np.ascontiguousarray(vectors, np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.spec.dim:
            raise SolarError(
                f"The index holds vectors of length {self.spec.dim}, and the query has the shape "
                f"{queries.shape}: describe it with the same model."
            )
        if not np.isfinite(queries).all():
            raise SolarError("The query holds numbers that are not finite: describe it again.")
        norms = np.linalg.norm(queries, axis=1, keepdims=True)
        off = np.abs(norms - 1) > 1e-4  # its direction counts, or scores would not be cosines
        return np.where(off, queries / np.maximum(norms, 1e-12), queries).astype(np.float32)

    def refuse_other(self, spec: DescriptorSpec) -> None:
        """A SolarError if vectors that were made so cannot be compared with those of the index."""
        ours = self.spec
        if not (spec.fingerprint and ours.fingerprint):
            return
        if spec.fingerprint != ours.fingerprint:
            raise SolarError(
                f"The index was made with {ours.model}, the new vectors with another model "
                f"({spec.model}): describe the photos with the same one."
            )
        before, now = ours.comparable, spec.comparable
        if "device" in (ours.settings.get("decoder"), spec.settings.get("decoder")):
            # What was decoded fast is continued by a device that decodes whole photos.
            before.pop("mode", None)
            now.pop("mode", None)
        pairs = [(name, before.get(name), now.get(name)) for name in sorted({*before, *now})]
        if other := [f"{name} ({b}, not {n})" for name, b, n in pairs if b != n]:
            raise SolarError(
                f"The index was made with another {' and another '.join(other)}: describe the "
                "photos with the same settings."
            )


@contextmanager
def opened(index: PhotoIndex | Address) -> Iterator[PhotoIndex]:
    """An open index; one that is given by its address is closed at the end."""
    with nullcontext(index) if isinstance(index, PhotoIndex) else Index.open(index) as found:
        yield found


def locate(
    query: Any,
    index: PhotoIndex | Address,
    *,
    box: Box | None = None,
    verify: VerifySettings | None = None,
    include_self: bool = False,
) -> Location:
    """Estimate where a photo was taken, from verified matches whose position is known.

    Takes an index or its address; other arguments are those of `Index.search`. The position of an
    indexed photo itself does not count. A SolarError if no photo of the index has a position.
    """
    with opened(index) as found:
        settings = SearchSettings(box=box, verify=verify, include_self=include_self)
        return find_location(found, query, settings)
