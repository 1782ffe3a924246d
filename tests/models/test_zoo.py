from __future__ import annotations

import dataclasses
import json
import os
import re
import socket
import stat
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
import torch
from support.file_server import FileServer, serve

from solar import weights
from solar.errors import SolarError
from solar.files import cache_directory
from solar.models import (
    PATCH_REDUCTIONS,
    REDUCTIONS,
    PatchConfig,
    PatchNet,
    RetrievalConfig,
    RetrievalNet,
    attention_at,
    load,
    zoo,
)
from solar.nn.l2net import PUBLISHED_LAYERS
from solar.training.patches.recipe import PatchRecipe
from solar.training.recipe import read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
WEIGHTS = b"\x80\x02weights"  # starts as a pickle does
BOX = "https://imperialcollegelondon.box.com/shared/static"
CIRTORCH = "http://cmp.felk.cvut.cz/cnnimageretrieval/data"
SFM = f"{CIRTORCH}/networks/retrieval-SfM-120k"
WHITEN = f"{CIRTORCH}/whiten/retrieval-SfM-120k"
PUBLISHED_URLS = {
    "solar-r101": f"{BOX}/fznpeayct6btel2og2wjjgvqw0ziqnk4.pth",
    "solar-local-345-liberty": f"{BOX}/4djweum6gs30os243zqzplhafxlys31z.pth",
    "gem-r101-gl18": f"{CIRTORCH}/networks/gl18/gl18-tl-resnet101-gem-w-a4d43db.pth",
    "gem-r50-sfm120k": f"{SFM}/rSfM120k-tl-resnet50-gem-w-97bf910.pth",
    "gem-vgg16-sfm120k-lw": f"{SFM}/retrievalSfM120k-vgg16-gem-b4dcdc6.pth",
    "imagenet-caffe-r152": f"{CIRTORCH}/networks/imagenet/"
    "imagenet-caffe-resnet152-features-1011020.pth",
    "whiten-r101-gem-sfm120k": f"{WHITEN}/retrieval-SfM-120k-resnet101-gem-whiten-22ab0c1.pth",
    "lwhiten-r101-sfm120k": f"{WHITEN}/retrieval-SfM-120k-resnet101-lwhiten-9f830ef.pth",
    "whiten-r101-gem-gl18": f"{CIRTORCH}/whiten/gl18/"
    "gl18-50perlid-resnet101-gem-whiten-0ea46be.pth",
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, none of the user's settings, and no way out of this machine."""
    monkeypatch.setenv("SOLAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    for name in ("SOLAR_MIRRORS", "SOLAR_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    look_up = socket.getaddrinfo

    def only_this_machine(host: str, *args: object, **kwargs: object) -> object:
        if host != "127.0.0.1":
            raise socket.gaierror(f"{host} is out of bounds in tests")
        return look_up(host, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", only_this_machine)
    return tmp_path / "cache"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serve() as running:
        yield running


def bottleneck_resnet(*depths: int) -> int:
    """Parameters of a ResNet-50/101/152 without its classifier, layer by layer."""
    total, channels = 3 * 64 * 7 * 7 + 2 * 64, 64
    for stage, depth in enumerate(depths):
        width = 64 * 2**stage
        for block in range(depth):
            total += channels * width + 9 * width * width + width * 4 * width
            total += 2 * (width + width + 4 * width)
            if block == 0:
                total += channels * 4 * width + 2 * 4 * width
            channels = 4 * width
    return total


def vgg16() -> int:
    channels = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    return sum(9 * a * b + b for a, b in pairwise(channels))


WHITENING = 2048 * 2048 + 2048
PARAMETERS = {
    "imagenet-caffe-r50": bottleneck_resnet(3, 4, 6, 3),
    "imagenet-caffe-r101": bottleneck_resnet(3, 4, 23, 3),
    "imagenet-caffe-r152": bottleneck_resnet(3, 8, 36, 3),
    "imagenet-caffe-vgg16": vgg16(),
    "gem-r50-gl18": bottleneck_resnet(3, 4, 6, 3) + 1 + WHITENING,
    "gem-r152-sfm120k": bottleneck_resnet(3, 8, 36, 3) + 1 + WHITENING,
    "gem-r101-sfm120k-lw": bottleneck_resnet(3, 4, 23, 3) + 1,
    "gem-vgg16-sfm120k-lw": vgg16() + 1,
    "solar-r101": bottleneck_resnet(3, 4, 23, 3) + 1_051_392 + 8_397_824 + 1 + WHITENING,
    "solar-r101-gldv2": bottleneck_resnet(3, 4, 23, 3) + 8_397_824 + WHITENING,
    "solar-local-345-liberty": 1_334_560 + 41_888,
    "whiten-r101-gem-sfm120k": WHITENING,
    "whiten-vgg16-gem-sfm120k": 512 * 512 + 512,
    "how-r50": bottleneck_resnet(3, 4, 6) + 1024 * 128 + 128,
    "delf-r50": bottleneck_resnet(3, 4, 6)
    + (1024 * 512 + 512 + 2 * 512 + 512 + 1)
    + (1024 * 128 + 128 + 128 * 1024 + 1024),
}


class TestEntries:
    def test_every_family_is_complete(self) -> None:
        counts = Counter(entry.task for entry in zoo.models())
        assert counts == {
            "retrieval": 12,
            "patches": 4,
            "local": 4,
            "backbone": 4,
            "whitening": 16,
        }

    @pytest.mark.parametrize(("name", "url"), PUBLISHED_URLS.items(), ids=list(PUBLISHED_URLS))
    def test_published_address_is_among_the_urls(self, name: str, url: str) -> None:
        assert url in zoo.find(name).urls

    @pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items(), ids=list(PARAMETERS))
    def test_parameters(self, name: str, parameters: int) -> None:
        assert zoo.find(name).parameters == parameters

    def test_cirtorch_files_are_checked_by_the_hash_in_their_name(self) -> None:
        for entry in zoo.models():
            if entry.urls and "cnnimageretrieval" in entry.urls[0]:
                assert re.search(r"-([0-9a-f]{7})\.pth$", entry.file)[1] == entry.sha256  # type: ignore[index]

    def test_solar_reports_what_its_readme_says(self) -> None:
        reported = zoo.find("solar-r101").reported
        assert reported["roxford5k"] == {"easy": 85.88, "medium": 69.9, "hard": 47.91}
        assert reported["rparis6k"] == {"easy": 92.95, "medium": 81.57, "hard": 64.45}

    def test_the_retrained_solar_says_what_its_figures_cannot_be_compared_with(self) -> None:
        entry = zoo.find("solar-r101-gldv2")
        assert entry.reported["roxford5k"] == {"medium": 79.7, "hard": 60.0}
        assert entry.reported["rparis6k+1m"] == {"medium": 73.2, "hard": 51.0}
        assert "36 of 70 ROxf and 38 of 70 RPar" in entry.caveat

    def test_gem_reports_the_papers_baseline(self) -> None:
        reported = zoo.find("gem-r101-gl18").reported
        assert reported == {
            "roxford5k": {"medium": 67.3, "hard": 44.3},
            "rparis6k": {"medium": 80.6, "hard": 61.5},
        }

    def test_results_name_their_source(self) -> None:
        assert all(bool(entry.reported) == bool(entry.source) for entry in zoo.models())

    def test_entries_can_be_written_as_json(self) -> None:
        assert json.dumps([dataclasses.asdict(entry) for entry in zoo.models()])

    def test_entries_can_be_keys(self) -> None:
        assert len(set(zoo.models())) == len(zoo.models())


class TestFind:
    def test_no_name_means_two_things(self) -> None:
        for entry in zoo.models():
            for name in (entry.name, entry.file, Path(entry.file).stem, *entry.aliases):
                assert zoo.find(name) is entry

    @pytest.mark.parametrize(
        ("asked", "name"),
        [
            ("SOLAR-R101", "solar-r101"),
            ("resnet101-solar-best.pth", "solar-r101"),
            ("resnet101-solar-best", "solar-r101"),
            ("solar-local-345", "solar-local-345"),
            ("local-solar-345-liberty.pth", "solar-local-345-liberty"),
            ("gl18-tl-resnet101-gem-w", "gem-r101-gl18"),
            ("gl18-tl-resnet101-gem-w-a4d43db", "gem-r101-gl18"),
            ("gem-vgg16-sfm120k", "gem-vgg16-sfm120k-lw"),
        ],
    )
    def test_accepted_names(self, asked: str, name: str) -> None:
        assert zoo.find(asked).name == name

    def test_the_models_in_the_box_come_first(self) -> None:
        names = [entry.name for entry in zoo.models() if entry.bundled]
        local = ["solar-local-345", "solar-local-small", "solar-local-none"]
        assert names == ["solar-lite0", "solar-r18", "how-r18-small", *local]
        assert [entry.name for entry in zoo.models()][: len(names)] == names

    def test_misspelt_name_suggests_the_right_one(self) -> None:
        with pytest.raises(
            SolarError,
            match=r'called "solr-r18" \(perhaps solar-r18 or solar-r101 or how-r18\?\)',
        ):
            zoo.find("solr-r18")

    def test_strange_name_suggests_none(self) -> None:
        with pytest.raises(SolarError) as caught:
            zoo.find("???")
        assert str(caught.value) == (
            'There is no model called "???"; "solar models" lists them all.'
        )


class TestCache:
    def test_home_in_the_setting_is_understood(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("SOLAR_CACHE", "~/models")
        assert cache_directory() == tmp_path / "models"

    def test_a_new_one_is_the_users_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOLAR_CACHE", str(tmp_path / "new"))
        before = os.umask(0o002)
        try:
            assert stat.S_IMODE(cache_directory().stat().st_mode) == 0o700
        finally:
            os.umask(before)

    def test_default_is_the_users_cache(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SOLAR_CACHE")
        monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / name))
        assert cache_directory() == tmp_path / "solar"

    def test_file_is_here_once_it_is_there(self, own_cache: Path) -> None:
        entry = zoo.find("solar-r101")
        assert not zoo.is_here(entry)
        own_cache.mkdir(exist_ok=True)
        zoo.path_of(entry).touch()
        assert zoo.is_here(entry)


class TestObtain:
    def test_downloads_from_a_mirror_by_the_published_name(
        self, server: FileServer, own_cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOLAR_MIRRORS", server.base)
        server.add("resnet101-solar-best.pth", WEIGHTS)
        path = zoo.obtain("solar-r101")
        assert path == own_cache / "resnet101-solar-best.pth"
        assert path.read_bytes() == WEIGHTS

    def test_wrong_bytes_are_refused(
        self, server: FileServer, own_cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOLAR_MIRRORS", server.base)
        server.add("gl18-tl-resnet101-gem-w-a4d43db.pth", b"not these weights")
        with pytest.raises(SolarError, match="gl18-tl"):
            zoo.obtain("gem-r101-gl18")
        assert not list(own_cache.glob("*.pth*part"))
        assert not zoo.is_here(zoo.find("gem-r101-gl18"))

    def test_file_that_is_here_needs_no_network(
        self, own_cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOLAR_OFFLINE", "1")
        own_cache.mkdir(exist_ok=True)
        (own_cache / "resnet101-solar-best.pth").write_bytes(b"put there by hand")
        assert zoo.obtain("solar-r101").read_bytes() == b"put there by hand"

    def test_poisoned_file_is_named_and_not_used(self, own_cache: Path) -> None:
        own_cache.mkdir(exist_ok=True)
        (own_cache / "gl18-tl-resnet101-gem-w-a4d43db.pth").write_bytes(b"poison")
        with pytest.raises(SolarError, match=r"a4d43db\.pth has sha256"):
            zoo.obtain("gem-r101-gl18")

    def test_file_that_changed_after_its_download_is_refused(
        self, server: FileServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOLAR_MIRRORS", server.base)
        server.add("resnet101-solar-best.pth", WEIGHTS)
        path = zoo.obtain("solar-r101")
        assert zoo.obtain("solar-r101") == path
        path.write_bytes(b"WEIGHTS")
        with pytest.raises(SolarError, match=r"noted in resnet101-solar-best\.pth\.sha256"):
            zoo.obtain("solar-r101")

    def test_a_damaged_model_in_the_box_is_named_and_not_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = bytearray((weights.FOLDER / "solar-local-none.safetensors").read_bytes())
        content[-1] ^= 1
        (tmp_path / "solar-local-none.safetensors").write_bytes(content)
        monkeypatch.setattr(weights, "FOLDER", tmp_path)
        with pytest.raises(SolarError, match=r"local-none\.safetensors .*install"):
            load("solar-local-none")

    def test_a_file_that_wants_a_browser_is_told_where_to_get_and_where_to_put(
        self, own_cache: Path
    ) -> None:
        with pytest.raises(SolarError) as caught:
            load("solar-r101-gldv2")
        place = own_cache / "solar-r101-gldv2.pth"
        assert "R101-SOLAR from https://github.com/MCC-WH/Token" in str(caught.value)
        assert str(caught.value).endswith(f"put it at {place}.")
        own_cache.mkdir(exist_ok=True)
        place.write_bytes(b"put there by hand")
        assert zoo.obtain("solar-r101-gldv2") == place

    def test_a_mirror_of_ones_own_may_have_what_wants_a_browser(
        self, server: FileServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOLAR_MIRRORS", server.base)
        server.add("solar-r101-gldv2.pth", WEIGHTS)
        assert zoo.obtain("solar-r101-gldv2").read_bytes() == WEIGHTS

    def test_offline_tells_what_to_do(
        self, own_cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOLAR_OFFLINE", "1")
        with pytest.raises(SolarError) as caught:
            zoo.obtain("solar-r101")
        for part in (PUBLISHED_URLS["solar-r101"], str(own_cache / "resnet101-solar-best.pth")):
            assert part in str(caught.value)


@pytest.mark.parametrize(
    "entry", [e for e in zoo.models() if e.task in ("retrieval", "patches")], ids=lambda e: e.name
)
def test_parameters_and_dimensions_are_those_of_the_network_we_build(entry: zoo.NamedModel) -> None:
    with torch.device("meta"):
        net: RetrievalNet | PatchNet
        if entry.task == "patches":
            attention = attention_at(entry.attention, PATCH_REDUCTIONS)
            layers = PUBLISHED_LAYERS
            if entry.architecture != "l2net":
                recipe = read_recipe(PatchRecipe, RECIPES / f"{entry.name}.yaml")
                layers = recipe.network.layers
            net = PatchNet(PatchConfig(attention, layers=layers))
        else:
            net = RetrievalNet(
                RetrievalConfig(
                    entry.architecture,
                    attention=attention_at(entry.attention, REDUCTIONS),
                    pooling=entry.pooling,
                    whitening=entry.whitening == "end-to-end",
                    dim=entry.dim if entry.bundled else None,
                )
            )
    assert sum(p.numel() for p in net.parameters()) == entry.parameters
    assert net.dim == entry.dim


@pytest.mark.parametrize(
    ("names", "tasks"),
    [(zoo.RetrievalName, {"retrieval", "backbone", "local"}), (zoo.PatchName, {"patches"})],
)
def test_type_checkers_know_every_name(names: object, tasks: set[str]) -> None:
    assert list(get_args(names)) == [e.name for e in zoo.models() if e.task in tasks]
