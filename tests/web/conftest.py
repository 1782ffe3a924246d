import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi", reason='pip install "solar-retrieval[web]"')
pytest.importorskip("httpx", reason='pip install "solar-retrieval[dev]"')

from fastapi.testclient import TestClient
from support.filtered_photos import write_filtered
from support.tiny_backbone import register
from support.web_visits import DISTRACTORS, LANDMARKS, VIEWS, Home, Open

from solar.demo import toy
from solar.index import Index
from solar.index.build import build
from solar.models import RetrievalConfig, RetrievalNet, save
from solar.web import WebSettings, create_app


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A folder with `photos`, two models with drawn weights, and an index of each."""
    register()
    home = tmp_path_factory.mktemp("web")
    photos = {"landmarks": LANDMARKS, "views": VIEWS, "distractors": DISTRACTORS}
    toy.write(home / "photos", size=(160, 120), **photos)
    for seed, name in enumerate(("model", "other")):
        torch.manual_seed(seed)
        config = RetrievalConfig("tiny", attention={4: 4, 5: 2}, size=96, scales=(1.0,))
        save(RetrievalNet(config), home / f"{name}.safetensors")
        model = home / f"{name}.safetensors"
        build(home / "photos", home / f"{name}.solar", model=model).close()
    return home


@pytest.fixture(scope="session")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index that knows tags, times, places and two roots; no test changes it."""
    return write_filtered(tmp_path_factory.mktemp("filtered"))


@pytest.fixture
def open_app(home: Home) -> Iterator[Open]:
    """Opens an app with some settings; `index=` for another index, `models=` to compare with."""
    with _opener(home) as opener:
        yield opener


@pytest.fixture(scope="session")
def client(home: Home) -> Iterator[TestClient]:
    """An app that no test changes."""
    with _opener(home) as opener:
        yield opener()


@pytest.fixture
def photo(home: Home) -> bytes:
    return (home / "photos" / "landmark-002" / "view-001.jpg").read_bytes()


@pytest.fixture
def copy(home: Home, tmp_path: Path) -> Path:
    """An index of our own, and its photos in `photos` beside it."""
    shutil.copytree(home / "photos", tmp_path / "photos")
    shutil.copytree(home / "model.solar", tmp_path / "model.solar")
    return tmp_path


@pytest.fixture
def writable(open_app: Open, copy: Path) -> TestClient:
    """An app over that, which may change it."""
    return open_app(index=copy / "model.solar", photos=copy / "photos", writable=True)


@contextmanager
def _opener(home: Home) -> Iterator[Open]:
    with ExitStack() as closing:

        def open_one(
            *, index: Path | None = None, models: tuple[str, ...] = (), **given: Any
        ) -> TestClient:
            main = closing.enter_context(Index.open(index or home / "model.solar"))
            others = {
                name: closing.enter_context(Index.open(home / f"{name}.solar")) for name in models
            }
            settings = {"name": "toy", "attention_size": 96, "rate": 0.0, **given}
            app = create_app(main, models=others, settings=WebSettings(**settings))
            return closing.enter_context(TestClient(app, base_url="http://127.0.0.1:8000"))

        yield open_one
