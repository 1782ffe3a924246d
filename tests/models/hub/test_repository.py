"""Requests to the hub, made by the real client in processes of their own.

`huggingface_hub` reads its environment variables when it is imported.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hub_server import Hub, Repository, etag, serve

from solar import weights
from solar.errors import SolarError
from solar.models.hub import repository as hub

# Fetches every repository that is named, and prints the folder or the complaint for each.
FETCH = """
import json, sys
from solar.errors import SolarError
from solar.models.hub import repository as hub

def fetch(name):
    try:
        return str(hub.snapshot(name))
    except SolarError as error:
        return f"complaint: {error}"

print(json.dumps([fetch(name) for name in sys.argv[1:]]))
assert "torch" not in sys.modules
"""
PLAIN = {"config.json": b'{"model_type": "dinov2"}', "model.safetensors": bytes(range(256))}
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = json.dumps({"weight_map": {"a": SHARDS[0], "b": SHARDS[1]}}).encode()
SHARDED = {"config.json": b"{}", "model.safetensors.index.json": INDEX, SHARDS[0]: b"a"}
NOBODY = "http://127.0.0.1:9"
UNWANTED = {"pytorch_model.bin": b"pickle", "modeling.py": b"print()", "onnx/model.onnx": b"o"}


def child(code: str, *arguments: str, server: str, home: Path, **variables: str) -> str:
    """Standard output of a process that runs the code against a server, nothing on the other."""
    own = ("HF_", "SOLAR_OFFLINE")  # tests are offline unless they say otherwise
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    environment = {
        **kept,
        "HF_ENDPOINT": server,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",  # large files by git-lfs: the other protocol is not a simple one
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fetch(*names: str, server: str, home: Path, **variables: str) -> list[str]:
    answers: list[str] = json.loads(
        child(FETCH, *names, server=server, home=home, **variables).splitlines()[-1]
    )
    return answers


@pytest.fixture(scope="module")
def server() -> Iterator[Hub]:
    with serve() as running:
        running.repositories |= {
            "org/plain": Repository({**PLAIN, **UNWANTED, "tokenizer.json": b"{}"}),
            "org/text": Repository({**PLAIN, "tokenizer.json": b"{}", "merges.txt": b"a b"}),
            "org/sharded": Repository({**SHARDED, SHARDS[1]: b"b"}),
            "org/half-sharded": Repository(SHARDED),
            "org/gated": Repository(PLAIN, gated=True),
            "org/pickled": Repository({"config.json": b"{}", **UNWANTED}),
            "org/photos": Repository({"a.jpg": b"jpeg", **UNWANTED}),
            "org/lost": Repository(PLAIN, listed_only={"model.safetensors"}),
            "org/altered": Repository(PLAIN, altered={"model.safetensors": bytes(256)}),
            "org/altered-settings": Repository(PLAIN, altered={"config.json": b"{}"}),
        }
        yield running


NAMES = (
    "hf:org/plain",
    "org/text",
    "hf://org/sharded",
    "hf:org/half-sharded",
    "hf:org/gated",
    "hf:org/pickled",
    "hf:org/photos",
    "hf:org/lost",
    "hf:org/altered",
    "hf:org/altered-settings",
    "hf:org/nothing",
    "hf://org/plain@v2",
    "hf://a/b/c",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def answers(server: Hub, home: Path) -> dict[str, str]:
    return dict(zip(NAMES, fetch(*NAMES, server=server.address, home=home), strict=True))


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("hf:org/plain", {*PLAIN, "tokenizer.json"}),
        ("org/text", {*PLAIN, "tokenizer.json", "merges.txt"}),
        ("hf://org/sharded", {*SHARDED, SHARDS[1]}),
    ],
)
def test_fetches_what_is_needed_and_nothing_else(
    name: str, files: set[str], answers: dict[str, str], server: Hub
) -> None:
    folder = Path(answers[name])
    held = {file.name: file.read_bytes() for file in folder.iterdir()}
    repository = server.repositories[name.removeprefix("hf:").removeprefix("//")]
    assert held == {file: repository.files[file] for file in files}
    asked = {path.rpartition("/")[2] for method, path, _ in server.requests if method == "GET"}
    assert not asked & {"pytorch_model.bin", "modeling.py", "model.onnx"}


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("hf:org/half-sharded", f"lacks {SHARDS[1]}, which its model.safetensors.index.json names"),
        ("hf:org/gated", "org/gated is gated: ask for access at http://127.0.0.1"),
        ("hf:org/gated", "/org/gated, then log in with `hf auth login` or set HF_TOKEN."),
        ("hf:org/pickled", "org/pickled has no safetensors"),
        ("hf:org/photos", "org/photos has no config.json"),
        ("hf:org/lost", "org/lost lists model.safetensors, but http://127.0.0.1"),
        ("hf:org/altered", "instead of"),
        ("hf:org/altered", f"blobs/{etag('model.safetensors', PLAIN['model.safetensors'])} has"),
        ("hf:org/altered-settings", "(config.json) is damaged: delete it to download it again."),
        ("hf:org/nothing", "There is no repository org/nothing at http://127.0.0.1"),
        ("hf://org/plain@v2", 'org/plain has no revision "v2"'),
        ("hf://a/b/c", '"a/b/c" cannot be the name of a repository: write hf:org/name.'),
    ],
)
def test_every_failure_is_a_sentence(name: str, complaint: str, answers: dict[str, str]) -> None:
    assert answers[name].startswith("complaint: ")
    assert complaint in answers[name]


def test_a_file_that_was_damaged_arrives_anew_once_it_is_deleted(
    answers: dict[str, str], server: Hub, home: Path
) -> None:
    damaged = answers["hf:org/altered"].removeprefix("complaint: ").partition(" has ")[0]
    Path(damaged).unlink()
    server.repositories["org/altered"].altered.clear()
    (folder,) = fetch("hf:org/altered", server=server.address, home=home)
    assert (Path(folder) / "model.safetensors").read_bytes() == PLAIN["model.safetensors"]


def test_access_that_was_granted_is_used(server: Hub, tmp_path: Path) -> None:
    names = ("hf:org/gated", "hf:org/plain")
    answers = fetch(*names, server=server.address, home=tmp_path, HF_TOKEN=server.token)
    assert all((Path(folder) / "config.json").is_file() for folder in answers)


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "SOLAR_OFFLINE"])
def test_offline_takes_what_the_cache_has(
    variable: str, answers: dict[str, str], server: Hub, home: Path
) -> None:
    before = len(server.requests)
    names = ("hf:org/plain", "hf:org/lost", "hf:org/nothing")
    plain, *missing = fetch(*names, server=server.address, home=home, **{variable: "1"})
    assert plain == answers["hf:org/plain"]
    assert all(f"complaint: {variable} is set, and " in answer for answer in missing)
    assert [path for _, path, _ in server.requests[before:] if "org/" in path] == []


def test_without_a_network_the_cache_is_enough(answers: dict[str, str], home: Path) -> None:
    plain, nothing = fetch("hf:org/plain", "hf:org/nothing", server=NOBODY, home=home)
    assert plain == answers["hf:org/plain"]
    assert nothing.startswith(f"complaint: Could not get org/nothing from {NOBODY}: ")
    assert "check the connection" in nothing


def test_a_dropped_download_goes_on_where_it_was(server: Hub, tmp_path: Path) -> None:
    piece = 10 << 20  # the client keeps pieces of this size
    content = bytes(piece) + b"the rest"
    server.repositories["org/long"] = Repository(
        {**PLAIN, "model.safetensors": content}, sends={"model.safetensors": [piece + 3]}
    )
    (folder,) = fetch("hf:org/long", server=server.address, home=tmp_path)
    assert (Path(folder) / "model.safetensors").read_bytes() == content
    asked = [
        headers.get("range")
        for method, path, headers in server.requests
        if method == "GET" and path.startswith("/org/long/") and path.endswith(".safetensors")
    ]
    assert asked == [None, f"bytes={piece}-"]


# Loads a network of ours from the hub.
LOAD = """
import solar
from solar.models import fingerprint

there = solar.load("hf:org/ours")
print(there.source, fingerprint(there) == fingerprint(solar.load("solar-local-345")))
"""


def test_a_file_of_ours_on_the_hub_needs_no_settings(server: Hub, tmp_path: Path) -> None:
    ours = (weights.FOLDER / "solar-local-345.safetensors").read_bytes()
    server.repositories["org/ours"] = Repository({"model.safetensors": ours, **UNWANTED})
    said = child(LOAD, server=server.address, home=tmp_path)
    assert said.splitlines()[-1] == "hf:org/ours True"


def test_without_the_library_a_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SolarError, match=r'pip install "solar-retrieval\[backbones\]"'):
        hub.snapshot("hf:org/plain")


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"architectures": ["BertModel"], "model_type": "bert"}, "BertModel (bert)"),
        ({"architecture": "vit_small_patch16_224"}, "vit_small_patch16_224"),
        ({}, "of an architecture that its config.json does not name"),
        ({"architectures": "odd", "model_type": "clip"}, "clip"),
    ],
)
def test_what_a_model_seems_to_be(config: dict[str, object], sentence: str) -> None:
    assert hub.architecture(config) == sentence
