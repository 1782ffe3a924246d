"""Everything the running app holds: the index, the photos, the threads, what is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from solar.errors import SolarError
from solar.search import Hit, Index, need_vectors
from solar.search.rerank import METHODS, Reranker
from solar.web import schemas
from solar.web.access import Keys
from solar.web.adding import Adder
from solar.web.cache import Cache
from solar.web.eyes import Eye
from solar.web.looking import Attention, Explorer, Matching
from solar.web.monitoring import Metrics
from solar.web.photos import (
    LARGEST,
    Collection,
    Uploads,
    VisiblePhoto,
    check_photo,
    picture,
    told_of_upload,
    version_of,
)
from solar.web.problems import WebError
from solar.web.searching import Searcher, StageResult
from solar.web.settings import WebSettings
from solar.web.work import NetworkThread, Threads

if TYPE_CHECKING:
    from solar.show.collection_map import CollectionMap

_PICTURES_WAITING = 512
_SMALL = 320
_POINTS = 20_000


class Service:
    """What the routes of the app ask.

    Args:
        index: The collection.
        models: More indexes of the same photos, by the names of the models that made them.
        settings: How to behave.

    Raises:
        SolarError: An index has no vectors, or photos are to be added and there is no folder.
    """

    def __init__(
        self, index: Index, models: Mapping[str, Index] | None, settings: WebSettings
    ) -> None:
        for one in (index, *(models or {}).values()):
            need_vectors(one)
        self.settings = settings
        self.keys = Keys(settings.token)
        self.metrics = Metrics()
        self.collection = Collection(index, settings.photos, settings.labels)
        main = model_name(index)
        others = {name: other for name, other in (models or {}).items() if name != main}
        self.eyes = {name: Eye(name, one) for name, one in {main: index, **others}.items()}
        self.uploads = Uploads(settings.query_bytes)
        self.network = NetworkThread(
            settings.queue, settings.batch, settings.gather, self.metrics.forward
        )
        self.threads = Threads(settings.threads, 2 * settings.queue)
        # Slow things have threads of their own: nobody's quick search waits behind them.
        self.slow = Threads(settings.threads, settings.queue)
        self.picturing = Threads(settings.threads, _PICTURES_WAITING)
        self.searcher = Searcher(
            *(self.collection, self.network, self.threads, self.slow),
            _methods(),
        )
        self.attention = Attention(self.network, settings.attention_bytes, settings.attention_size)
        self.matching = Matching(self.slow)
        self.explorer = Explorer(index)
        self.adder = Adder(
            *(self.collection, self.eye(None), settings, self.network, self.slow),
            changed=self.searcher.forget,
        )
        self._pictures: Cache[tuple[str, str, int], bytes] = Cache(settings.picture_bytes, len)
        self._gauges()

    async def open(self) -> None:
        """Load the networks."""
        for eye in self.eyes.values():
            await self.network.alone(eye.open)
            eye.opened.set()

    @property
    def ready(self) -> bool:
        """Whether all networks are loaded."""
        return all(eye.opened.is_set() for eye in self.eyes.values())

    def close(self) -> None:
        """Stop all threads and forget what visitors sent."""
        self.network.close()
        for threads in (self.threads, self.slow, self.picturing):
            threads.close()

    # What visitors name

    def eye(self, name: str | None) -> Eye:
        """The model of a name, or the first.

        Raises:
            WebError: No model is called so.
        """
        if name is None:
            return next(iter(self.eyes.values()))
        if name not in self.eyes:
            known = ", ".join(self.eyes)
            raise WebError(404, f"No model is called {name!r} here: choose from {known}.")
        return self.eyes[name]

    def seen(self, identity: str) -> VisiblePhoto:
        """The photo of an id."""
        if identity.isascii() and identity.isdecimal():
            return self.collection.seen(int(identity))
        return self.uploads.get(identity)

    # What visitors get

    def info(self) -> schemas.Info:
        """About the collection."""
        settings, index = self.settings, self.collection.index
        matching = _has_cv2()
        return schemas.Info(
            name=settings.name,
            photos=len(index),
            dim=index.spec.dim,
            models=[
                schemas.ModelInfo(name=eye.name, attention=eye.attention)
                for eye in self.eyes.values()
            ],
            settings=schemas.SettingsInfo(
                writable=settings.writable,
                token=settings.token is not None,
                max_upload_bytes=settings.max_upload_bytes,
                max_pixels=settings.max_pixels,
            ),
            features=schemas.Features(
                rerank=[
                    schemas.MethodInfo(
                        name=name, label=one.label, summary=one.summary, needs=one.needs
                    )
                    for name, one in _methods().items()
                ],
                expand=["alpha", "average"],
                verify=matching,
                match=matching,
                labels=self.collection.labelled,
                map=True,
            ),
        )

    def addresses(self, identity: str, version: str) -> dict[str, str]:
        """Where the pictures of a photo are."""
        extra = {"v": version}
        if key := self.keys.sign(identity):
            extra["k"] = key
        base = f"/api/v1/photos/{identity}"
        return {
            "thumbnail": f"{base}/thumbnail?{urlencode({'w': _SMALL, **extra})}",
            "photo": f"{base}/photo?{urlencode(extra)}",
        }

    def photo_info(self, seen: VisiblePhoto) -> schemas.PhotoInfo:
        """A photo for the page."""
        return schemas.PhotoInfo(
            id=seen.id,
            name=seen.name,
            width=seen.width,
            height=seen.height,
            label=seen.label,
            **self.addresses(seen.id, seen.version),
        )

    def browse(
        self, offset: int, limit: int, label: str | None, search: str | None
    ) -> schemas.PhotoPage:
        """A piece of the collection; photos that are gone are listed all the same."""
        total, numbers = self.collection.select(offset, limit, label, search)
        photos = []
        for number in numbers:
            known = self.collection.photo(number)
            photos.append(
                schemas.PhotoInfo(
                    id=str(number),
                    name=known.path,
                    width=known.width,
                    height=known.height,
                    label=self.collection.label(known.path),
                    **self.addresses(str(number), version_of(known.path)),
                )
            )
        return schemas.PhotoPage(total=total, photos=photos)

    async def take(self, name: str, data: bytes) -> VisiblePhoto:
        """Keep an uploaded photo to search with.

        Raises:
            WebError: It is no photo, is damaged, or is too large.
        """
        size = await self.threads.run(check_photo, data, self.settings.max_pixels)
        try:
            small = await self.picturing.run(picture, data, _SMALL)
        except SolarError as error:
            raise WebError(422, told_of_upload(error)) from error
        seen = self.uploads.add(name, data, size)
        self._pictures.put((seen.id, seen.version, _SMALL), small)  # it is asked for next
        return seen

    async def picture(self, identity: str, size: int) -> bytes:
        """A photo as a JPEG, made once.

        Raises:
            WebError: There is no such photo, or it cannot be shown any more.
        """
        seen = await self.threads.run(self.seen, identity)
        key = (seen.id, seen.version, size)
        kept = self._pictures.get(key)
        if kept is None:
            try:
                kept = await self.picturing.run(picture, seen.source, min(size, LARGEST))
            except SolarError as error:
                raise WebError(404, f"The photo {seen.name} cannot be shown any more.") from error
            self._pictures.put(key, kept)
        return kept

    def page(
        self, asked: schemas.SearchRequest, seen: VisiblePhoto, ranking: StageResult
    ) -> schemas.SearchAnswer:
        """The part of a ranking that a visitor asked for."""
        shown = ranking.hits[asked.offset : asked.offset + asked.k]
        numbers = self.collection.numbers([hit.path for hit in shown])
        hits = [
            self._hit(hit, number, rank, seen, ranking)
            for rank, (hit, number) in enumerate(zip(shown, numbers, strict=True), asked.offset + 1)
            if number is not None
        ]
        return schemas.SearchAnswer(
            stage=ranking.stage,
            complete=not ranking.awaited,
            awaited=list(ranking.awaited),
            query=self.photo_info(seen),
            hits=hits,
            more=len(ranking.hits) > asked.offset + asked.k,
            seconds={stage: round(took, 5) for stage, took in ranking.seconds.items()},
        )

    def map_page(self, found: CollectionMap) -> str:
        """The map as JSON; of a huge collection every so many-th photo, as no page shows more."""
        step = max(1, -(-len(found.paths) // _POINTS))
        numbers = self.collection.numbers(found.paths[::step])
        points = [
            {
                "id": str(number),
                "name": path,
                "label": self.collection.label(path),
                "thumbnail": self.addresses(str(number), version_of(path))["thumbnail"],
                "x": round(float(x), 5),
                "y": round(float(y), 5),
            }
            for number, path, (x, y) in zip(
                numbers, found.paths[::step], found.points[::step], strict=True
            )
            if number is not None
        ]
        return json.dumps({"points": points, "method": found.method})

    def _hit(
        self, hit: Hit, number: int, rank: int, seen: VisiblePhoto, ranking: StageResult
    ) -> schemas.HitInfo:
        known = self.collection.photo(number)
        label = self.collection.label(hit.path)
        both = label is not None and seen.label is not None
        before = ranking.plain.get(hit.path)
        return schemas.HitInfo(
            id=str(number),
            name=hit.path,
            score=round(hit.score, 6),
            rank=rank,
            label=label,
            same_label=label == seen.label if both else None,
            width=known.width,
            height=known.height,
            inliers=hit.inliers,
            moved=None if before is None or ranking.stage == "search" else before - rank,
            **self.addresses(str(number), version_of(hit.path)),
        )

    def _gauges(self) -> None:
        show = self.metrics.gauge
        show("solar_index_photos", "Photos indexed.", lambda: len(self.collection))
        show("solar_queue_length", "Tasks waiting for the network.", lambda: self.network.waiting)
        show("solar_work_length", "Tasks decoding or searching.", lambda: self.threads.waiting)
        show("solar_slow_length", "Tasks matching or adding.", lambda: self.slow.waiting)
        show("solar_picture_bytes", "Memory of pictures kept.", lambda: self._pictures.bytes)
        show("solar_upload_bytes", "Memory of uploaded queries.", lambda: self.uploads.nbytes)
        show("solar_attention_bytes", "Memory of attention kept.", lambda: self.attention.nbytes)
        show("solar_match_bytes", "Memory of matches kept.", lambda: self.matching.nbytes)
        show("solar_ranking_bytes", "Memory of rankings kept.", lambda: self.searcher.bytes)


def _has_cv2() -> bool:
    return find_spec("cv2") is not None


def _methods() -> Mapping[str, Reranker]:
    """The ways to re-rank that this server can offer."""
    here = {"vectors", "photos"} if _has_cv2() else {"vectors"}
    return {name: method for name, method in METHODS.items() if method.needs in here}


def model_name(index: Index) -> str:
    """What visitors call the model of an index: never where its file is."""
    model = index.spec.model
    return Path(model).stem if model.endswith((".safetensors", ".pth", ".pt")) else model or "model"
