"""The state of the running app: the index, the photos, the threads, the caches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi.responses import Response

from solar.describe.pipeline import QueryEncoder
from solar.errors import SolarError
from solar.images.exif import exposure_facts
from solar.images.scan import is_raw
from solar.index import PhotoIndex
from solar.ranking.rerank import METHODS
from solar.ranking.verdict import judged, verdict
from solar.show.collection_map import CollectionMap
from solar.storage.types import Hit
from solar.web.api import schemas
from solar.web.api.adding import Adder
from solar.web.api.albums import Albums
from solar.web.api.duplicates import Reviewer
from solar.web.api.filtering import BrowseRequest, Facets, photo_filter, selected, sorted_hits
from solar.web.api.inspection import Attention, Explainer, Explorer, Matching
from solar.web.api.jobs import Jobs
from solar.web.api.searching import Searcher, StageResult
from solar.web.api.updating import Follower, Updater, without_places
from solar.web.cache import Cache
from solar.web.guard.access import Keys, signed_name
from solar.web.guard.rates import Rates
from solar.web.guard.thread_pools import NetworkThread, Threads
from solar.web.monitoring import Metrics
from solar.web.photos import (
    Collection,
    Uploads,
    VisiblePhoto,
    check_photo,
    file_size,
    original,
    picture,
    told_of_upload,
)
from solar.web.problems import WebError
from solar.web.served_model import ServedModel
from solar.web.settings import LARGEST, MIB, THUMBNAIL, WebSettings, home_of

_POINTS = 20_000
_FACTS = ("width", "height", "taken", "position", "camera", "tags", "fields")
_PICTURES_WAITING = 512
_SHOWN = ("writable", "max_upload_bytes", "max_pixels", "tiles", "tiles_attribution")
_GUESSES = 1 / 6, 10  # wrong tokens per second, and at once


class Resources:
    """What all indexes of a server share; made from the settings that they have in common."""

    def __init__(self, settings: WebSettings) -> None:
        self.metrics = Metrics()
        self.rates = Rates(settings.rate, max(10 * settings.rate, 1.0))
        # Without a limit of requests, all visitors may come through one proxy.
        rate, burst = _GUESSES if settings.rate > 0 else (0, 1)
        self.guesses = Rates(rate, burst, what="wrong tokens")
        self.encoders: dict[str, QueryEncoder] = {}
        # An uploaded photo can be searched with in every index.
        self.uploads = Uploads(settings.query_bytes)
        self.network = NetworkThread(settings.queue, settings.batch, watch=self.metrics.forward)
        self.threads = Threads(settings.threads, 2 * settings.queue)
        # Threads of their own, so that no quick search waits behind a slow task.
        self.slow = Threads(settings.threads, settings.queue)
        self.picturing = Threads(settings.threads, _PICTURES_WAITING)
        show = self.metrics.gauge
        show("solar_queue_length", "Tasks waiting for the network.", lambda: self.network.waiting)
        show("solar_work_length", "Tasks decoding or searching.", lambda: self.threads.waiting)
        show("solar_slow_length", "Tasks matching or adding.", lambda: self.slow.waiting)
        show("solar_upload_bytes", "Memory of uploaded queries.", lambda: self.uploads.bytes)

    def close(self) -> None:
        """Stop all threads and drop uploads."""
        self.network.close()
        for threads in (self.threads, self.slow, self.picturing):
            threads.close()
        self.uploads.clear()


class Service:
    """What the routes use; arguments as for `solar.web.create_app`."""

    def __init__(
        self,
        index: PhotoIndex,
        models: Mapping[str, PhotoIndex] | None,
        settings: WebSettings,
        resources: Resources,
    ) -> None:
        self._vectors = index.has_vectors
        self.settings = settings
        self.keys = Keys(settings.token, guesses=resources.guesses, realm=settings.home)
        self.metrics, self.uploads = resources.metrics, resources.uploads
        self.network, self.threads = resources.network, resources.threads
        self.slow, self.picturing = resources.slow, resources.picturing
        self._encoders = resources.encoders
        self.collection = Collection(index, settings.photos, settings.labels)
        main = model_name(index)
        others = {name: other for name, other in (models or {}).items() if name != main}
        self.models = {
            name: ServedModel(name, one) for name, one in {main: index, **others}.items()
        }
        indexes = [model.index for model in self.models.values()]
        self.searcher = Searcher(self.collection, indexes, self.network, self.threads, self.slow)
        # The re-ranking of requests that do not name any.
        self.usual, _ = index.default_rerank(photos=self.collection.moved)
        self.attention = Attention(self.network, settings.attention_bytes, settings.attention_size)
        self.explainer = Explainer(self.network, settings.why_bytes)
        self.matching = Matching(self.slow)
        self.explorer = Explorer(index)
        # For visitors who scroll.
        self._selected: Cache[object, Any] = Cache(16 * MIB, lambda numbers: numbers.nbytes + 200)
        self.facets = Facets(self.collection)
        known = self._named_addresses, self.collection.__len__
        self.reviewer = Reviewer(settings.duplicates, *known)
        self.albums = Albums(settings.groups, *known)
        self.jobs = Jobs(self.told)
        self.follower = Follower(self.collection, indexes, self.searcher.forget, self.jobs)
        changed = self.follower.changed
        self.adder = Adder(self.collection, settings, self.slow, self.jobs, changed)
        self.updater = Updater(self.collection, settings, self.jobs, self.searcher.forget)
        self._pictures: Cache[tuple[str, str, int], bytes] = Cache(settings.picture_bytes, len)
        self._gauges()

    async def open(self) -> None:
        """Load the networks."""
        for model in self.models.values():
            await model.load(self.network, self._encoders)

    @property
    def ready(self) -> bool:
        """Whether all networks are loaded."""
        return all(model.ready for model in self.models.values())

    def model(self, name: str | None) -> ServedModel:
        """The model of a name, or the first; a WebError if there is none."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            known = ", ".join(self.models)
            raise WebError(404, f"There is no model {name!r} here: choose from {known}.")
        return self.models[name]

    def visible(self, identity: str) -> VisiblePhoto:
        """The photo of an id."""
        if identity.isascii() and identity.isdecimal():
            return self.collection.visible(int(identity))
        return self.uploads.visible(identity)

    def told(self, error: Exception) -> str:
        """The message of an error, without folders of this machine."""
        models = [Path(model.index.spec.model).parent for model in self.models.values()]
        known = [str(folder) for folder in models if folder.is_absolute()]
        return without_places(str(error), [*self.collection.places, *known])

    async def info(self) -> schemas.Info:
        """About the collection."""
        settings, index = self.settings, self.collection.index
        return schemas.Info(
            name=settings.name,
            # The first is at the root, where visitors begin: browsers keep data by address.
            indexes=[
                schemas.IndexLink(
                    name=name,
                    address=f"{settings.root_path}{home_of(name) if number else ''}/",
                )
                for number, name in enumerate(settings.indexes)
            ],
            photos=await self.threads.run(len, index),
            dim=index.spec.dim,
            models=[await model.info() for model in self.models.values()],
            settings=schemas.SettingsInfo(
                token=settings.token is not None,
                **{name: getattr(settings, name) for name in _SHOWN},
            ),
            features=schemas.Features(
                rerank=[
                    schemas.MethodInfo(name=name, **vars(one))
                    for name, one in METHODS.items()
                    if self._vectors or one.needs != "vectors"
                ],
                usual=self.usual,
                probability=index.calibration is not None,
                labels=self.collection.labelled,
                map=self._vectors,
                duplicates=bool(self.reviewer),
                albums=bool(self.albums),
            ),
        )

    def addresses(self, identity: str, version: str) -> dict[str, str]:
        """The id of a photo, and the addresses of its pictures."""
        return {
            "id": identity,
            "thumbnail": self._address(identity, version, "thumbnail", w=THUMBNAIL),
            "photo": self._address(identity, version, "photo"),
        }

    def _address(self, identity: str, version: str, kind: str, **given: int) -> str:
        extra: dict[str, str | int] = {**given, "v": version}
        if key := self.keys.sign(signed_name(identity, kind)):
            extra["k"] = key
        settings = self.settings
        base = f"{settings.root_path}{settings.home}/api/v1/photos/{identity}"
        return f"{base}/{kind}?{urlencode(extra)}"

    def photo_details(self, identity: str) -> schemas.PhotoDetails:
        """Details of a photo; of an uploaded one no EXIF, as links of searches contain its id."""
        photo = self.visible(identity)
        return schemas.PhotoDetails(
            **self.photo_info(photo).model_dump(),
            bytes=file_size(photo.source),
            exposure=exposure_facts(photo.source) if photo.indexed else {},
            original=self._address(photo.id, photo.version, "original"),
            original_is_file=self._gives_file(photo),
            preview=is_raw(photo.name),
        )

    async def original(self, identity: str) -> Response:
        """The answer with a photo at full size; a WebError if it cannot be shown."""
        photo = await self.threads.run(self.visible, identity)
        most = None if self._gives_file(photo) else self.settings.max_pixels
        try:
            return await self.slow.run(original, photo.source, most)
        except SolarError as error:
            raise WebError(404, f"The photo {photo.name} cannot be shown any more.") from error

    def _gives_file(self, photo: VisiblePhoto) -> bool:
        return self.settings.originals and photo.indexed

    def _named_addresses(self, names: Sequence[str]) -> list[dict[str, str]]:
        return [
            {} if number is None else self.addresses(str(number), self.collection.version(number))
            for number in self.collection.numbers(names)
        ]

    def photo_info(self, photo: VisiblePhoto) -> schemas.PhotoInfo:
        """A photo for the page."""
        facts: dict[str, Any] = {"name": photo.name, **self.addresses(photo.id, photo.version)}
        if photo.indexed:
            facts = self._indexed(int(photo.id))
        return schemas.PhotoInfo(**facts | {"width": photo.width, "height": photo.height})

    def _indexed(self, number: int) -> dict[str, Any]:
        known = self.collection.photo(number)
        return {
            **{name: getattr(known, name) for name in _FACTS},
            "name": known.path,
            "label": self.collection.label(known.path),
            **self.addresses(str(number), self.collection.version(number)),
        }

    def browse(self, asked: BrowseRequest) -> schemas.PhotoPage:
        """A page of the collection; photos whose files are gone are listed, too."""
        if asked.name:
            found = [one for one in self.collection.numbers(asked.name) if one is not None]
            total, numbers = len(found), found
        else:
            only = photo_filter(self.collection, asked)
            key = (only, asked.sort, self.collection.revision)
            kept = self._selected.get(key)
            if kept is None:
                kept = selected(self.collection, only, asked.sort)
                self._selected.put(key, kept)
            total, numbers = len(kept), kept[asked.offset : asked.offset + asked.limit].tolist()
        photos = [schemas.PhotoInfo(**self._indexed(number)) for number in numbers]
        return schemas.PhotoPage(total=total, photos=photos)

    async def take(self, name: str, data: bytes) -> VisiblePhoto:
        """Keep an uploaded photo to search with; a WebError if it is damaged or too large."""
        size = await self.threads.run(check_photo, data, self.settings.max_pixels)
        try:
            small = await self.picturing.run(picture, data, THUMBNAIL)
        except SolarError as error:
            raise WebError(422, told_of_upload(error)) from error
        photo = self.uploads.add(name, data, size)
        self._pictures.put((photo.id, photo.version, THUMBNAIL), small)  # it is asked for next
        return photo

    async def picture(self, identity: str, size: int) -> bytes:
        """A photo as a JPEG, from the cache if possible; a WebError if it cannot be shown."""
        photo = await self.threads.run(self.visible, identity)
        key = (photo.id, photo.version, size)
        kept = self._pictures.get(key)
        if kept is None:
            try:
                kept = await self.picturing.run(picture, photo.source, min(size, LARGEST))
            except SolarError as error:
                raise WebError(404, f"The photo {photo.name} cannot be shown any more.") from error
            self._pictures.put(key, kept)
        return kept

    def page(
        self, asked: schemas.SearchRequest, photo: VisiblePhoto | None, ranking: StageResult
    ) -> schemas.SearchAnswer:
        """The requested page of a ranking."""
        paths = [hit.path for hit in ranking.hits]
        numbers = zip(paths, self.collection.numbers(paths), strict=True)
        # Pages count without photos of another model's index that were removed from this one.
        known = {path: number for path, number in numbers if number is not None}
        there = [(rank, hit) for rank, hit in enumerate(ranking.hits, 1) if hit.path in known]
        ranked = sorted_hits(there, asked.sort, lambda p: self.collection.photo(known[p]))
        shown = ranked[asked.offset : asked.offset + asked.k]
        rated = judged(ranking.hits)
        hits = [self._hit(hit, known[hit.path], rank, photo, ranking) for rank, hit in shown]
        for told, (_, hit) in zip(hits, shown, strict=True):
            told.verdict = verdict(hit) if rated else None
        return schemas.SearchAnswer(
            stage=ranking.stage,
            complete=not ranking.awaited,
            awaited=list(ranking.awaited),
            query=None if photo is None else self.photo_info(photo),
            text=asked.text,
            hits=hits,
            likely=sum(verdict(hit) != "similar" for hit in ranking.hits) if rated else None,
            more=len(ranked) > asked.offset + asked.k,
            seconds={stage: round(took, 5) for stage, took in ranking.seconds.items()},
        )

    def map_page(self, found: CollectionMap) -> str:
        """The map as JSON; an even sample of a huge collection."""
        step = max(1, -(-len(found.paths) // _POINTS))
        numbers = self.collection.numbers(found.paths[::step])
        shown = ("id", "name", "label", "taken", "position", "thumbnail")
        points = [
            {name: value for name, value in self._indexed(number).items() if name in shown}
            | {"x": round(float(x), 5), "y": round(float(y), 5)}
            for number, (x, y) in zip(numbers, found.points[::step], strict=True)
            if number is not None
        ]
        return json.dumps({"points": points, "total": len(found.paths), "method": found.method})

    def _hit(
        self, hit: Hit, number: int, rank: int, photo: VisiblePhoto | None, ranking: StageResult
    ) -> schemas.HitInfo:
        facts, label = self._indexed(number), None if photo is None else photo.label
        both = facts["label"] is not None and label is not None
        before = ranking.plain.get(hit.path)
        return schemas.HitInfo(
            **facts,
            score=round(hit.score, 6),
            rank=rank,
            same_label=facts["label"] == label if both else None,
            inliers=hit.inliers,
            same_scene=hit.same_scene,
            threshold=hit.threshold,
            probability=None if hit.probability is None else round(hit.probability, 4),
            moved=None if before is None or ranking.stage == "search" else before - rank,
        )

    def _gauges(self) -> None:
        show = partial(self.metrics.gauge, index=self.settings.name)
        show("solar_index_photos", "Photos indexed.", lambda: len(self.collection))
        show("solar_picture_bytes", "Memory of pictures kept.", lambda: self._pictures.bytes)
        show("solar_attention_bytes", "Memory of attention kept.", lambda: self.attention.nbytes)
        show("solar_why_bytes", "Memory of explanations kept.", lambda: self.explainer.nbytes)
        show("solar_match_bytes", "Memory of matches kept.", lambda: self.matching.nbytes)
        show("solar_ranking_bytes", "Memory of rankings kept.", lambda: self.searcher.bytes)


def model_name(index: PhotoIndex) -> str:
    """The name of an index's model for visitors: never the folder of its file."""
    model = index.spec.model
    if model.endswith((".safetensors", ".pth", ".pt")):
        return Path(model).stem
    return (Path(model).name if Path(model).is_absolute() else model) or "model"
