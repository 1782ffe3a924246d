"""What visitors search with is described as the index describes it, and as another does."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from support.filled import filled
from support.web_visits import Home, Open, numbers, search, upload

from solar.describe import Throughput
from solar.errors import SolarError
from solar.index import Index
from solar.web.api.searching import Wanted
from solar.web.guard.thread_pools import NetworkThread
from solar.web.served_model import ServedModel


def test_index_app_and_store_describe_a_photo_alike(
    home: Home, open_app: Open, photo: bytes, tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "photo.jpg").write_bytes(photo)
    model = str(home / "model.safetensors")
    alone = Throughput(decoders=0, batch=1)
    made = filled(tmp_path / "one", tmp_path / "s", model=model, throughput=alone)
    [stored] = np.asarray(made.vectors)
    with Index.open(home / "model.solar") as index:
        asked = index.describe(photo)
    client = open_app()
    service = client.app.state.service
    wanted = Wanted([(service.visible(upload(client, photo)), None)], service.model(None))
    served = client.portal.call(service.searcher.vector, wanted)
    np.testing.assert_array_equal(asked, stored)
    np.testing.assert_array_equal(served, stored)


def test_a_model_that_cannot_be_loaded_says_so_to_those_who_need_it(
    home: Home, open_app: Open, photo: bytes, tmp_path: Path
) -> None:
    with Index.open(home / "model.solar") as index:
        vectors = np.stack([index.describe(photo), -index.describe(photo)])
    names = ["landmark-002/view-001.jpg", "landmark-001/view-001.jpg"]
    Index.create(tmp_path / "i.solar", vectors, names).close()
    client = open_app(index=tmp_path / "i.solar", photos=home / "photos")
    assert client.get("/api/v1/info").json()["models"] == [
        {"name": "model", "attention": [], "why": False, "text": False}
    ]
    assert client.get("/readyz").status_code == 200
    indexed = numbers(client)[names[0]]
    found = search(client, indexed, include_self=True)
    assert [hit["name"] for hit in found["hits"]] == names
    refused = client.post("/api/v1/search", json={"photo": upload(client, photo)})
    assert refused.status_code == 422
    assert refused.json()["error"].startswith("The index does not record its model")


def test_the_encoder_is_waited_for(home: Home) -> None:
    async def visit(index: Index) -> None:
        model, network = ServedModel("m", index), NetworkThread()
        waiting = asyncio.create_task(model.encoder())
        await asyncio.sleep(0)
        assert not model.ready
        assert not waiting.done()
        await model.load(network)
        assert model.ready
        assert (await waiting) is index.encoder
        assert (await model.info()).attention == [4, 5]
        network.close()

    with Index.open(home / "model.solar") as index:
        asyncio.run(visit(index))


def test_another_network_than_the_indexs_is_no_encoder(home: Home) -> None:
    with (
        Index.open(home / "model.solar", model=str(home / "other.safetensors")) as index,
        pytest.raises(SolarError, match="model"),
    ):
        index.describe(np.zeros((20, 20, 3), np.uint8))
