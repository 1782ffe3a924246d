"""Figures in README and documentation are what was measured: pages are rendered again here."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
COMPOSE = REPOSITORY / "deploy" / "milvus-compose.yml"
BEYOND = REPOSITORY / "docs" / "beyond-one-machine.md"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))


def test_pages_show_what_was_measured() -> None:
    import readme_figures

    for path, text in readme_figures.pages().items():
        assert path.read_text(encoding="utf-8") == text, "Run benchmarks/readme_figures.py."


def test_a_network_is_compared_with_the_one_without_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import readme_figures

    gem = {"mAP": 61.26, "std": 0.14}
    solar = {"mAP": 62.24, "std": None, "against GeM": {"low": -0.16, "high": 1.14}}
    rows = [{"network": name} | dict.fromkeys(readme_figures.SETS, found)
            for name, found in (("GeM", gem), ("SOLAR", solar))]  # fmt: skip
    (tmp_path / "benchmarks/results").mkdir(parents=True)
    (tmp_path / "benchmarks/results/two.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(readme_figures, "ROOT", tmp_path)
    shown = readme_figures.ablation("two").replace("\N{NO-BREAK SPACE}", " ").splitlines()
    assert shown[2].startswith("| GeM | 61.3 ± 0.1 | ")
    assert shown[3].startswith("| SOLAR | 62.2 (−0.2 to +1.1) | ")


def facts(task: str, figures: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
    return {
        "task": task,
        "figures": figures,
        "beside": beside,
        "file": {"bytes": 2_500_000},
        "command": "measure",
    }


def test_figures_on_photos_go_before_those_of_the_toys() -> None:
    import readme_figures

    toy = {"toy": {"mAP": 90.0}}
    real = {**toy, "landmarks": {"mAP": 61.26}, "buildings": {"mAP": 55.0}}
    patches = facts("patches", {"toy": {"matching": 70.0}}, {"rootsift": {"toy": {"matching": 4}}})
    one = facts("retrieval", real, {"rootsift, ASMK*": {"landmarks": {"mAP": 50.0}}})
    shown = readme_figures.render({"a": one, "b": patches})
    assert "| bundled | landmarks val, mAP | buildings val, mAP | MB | command |" in shown
    assert "| **`a`** | 61.3 | 55.0 | 2.5 | `measure` |" in shown
    assert "| RootSIFT | 50.0 |  |  | the same |" in shown
    assert "| RootSIFT | 4.0 |  | the same |" in shown
    # A set on which one of the models was not measured compares nothing.
    shown = readme_figures.render({"a": one, "c": facts("retrieval", toy, {}), "b": patches})
    assert "| bundled | toy landmarks, mAP | MB | command |" in shown


def test_the_sizing_tables_follow_from_the_results() -> None:
    import sizing
    from lib.marked import fill

    page = BEYOND.read_text(encoding="utf-8")
    content = sizing.render(sizing.read())
    assert page == fill(page, sizing.MARK, content), "Run benchmarks/sizing.py."


def test_a_row_follows_from_bytes_and_seconds_a_photo() -> None:
    import sizing

    million = 1_000_000
    parts = {"vectors": 8192.0, "names": 408.0, "codes": 0.0}
    kinds = {"none": parts, "fp16": parts, "pq": {**parts, "codes": 256.0}}
    exact, codes = (0.205, 8192.0 * million), (0.012, 256.0 * million)
    for large, said in (({}, "42 min"), ({4: 3e-3}, "42 min | 50 min"), ({5: 1.0}, "42 min | –")):
        found = sizing.Measured({4: kinds}, {4: 2.5e-3}, large, {}, exact, codes, 1.0, "")
        table = sizing.photos_table(found, 4).replace(sizing.KEPT, " ")
        [row] = [line for line in table.splitlines() if line.startswith("| 1,000,000 ")]
        assert row.endswith(f"| 8.6 GB | 8.6 GB | 8.9 GB | 256 MB | – | {said} | 205 ms | 12 ms |")


@pytest.mark.parametrize(
    ("read", "said"), [(10.0, "< 2.0 s"), (100.0, "2.0 s"), (1000.0, "≈ 20 s"), (1e7, "≈ 2.3 days")]
)
def test_only_what_was_measured_is_said_without_a_sign(read: float, said: str) -> None:
    import sizing

    assert sizing.query(read, 2.0, 100.0).replace(sizing.KEPT, " ") == said


def test_marks_must_be_there() -> None:
    from lib.marked import fill

    with pytest.raises(ValueError, match="no place for nothing"):
        fill("text", "nothing", "content")


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    return found


def test_milvus_is_open_to_this_machine_only(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert [port for port in ports if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)] == []


def test_milvus_waits_for_what_it_needs_and_asks_for_a_password(services: dict[str, Any]) -> None:
    milvus = services["milvus"]
    needed = {name for name in milvus["depends_on"] if "healthcheck" in services[name]}
    assert needed == {"etcd", "minio"}
    assert milvus["environment"]["common.security.authorizationEnabled"] == "true"
    assert services["minio"]["environment"]["MINIO_ROOT_PASSWORD"].startswith("${MINIO_PASSWORD:?")


def test_versions_of_images_are_fixed_and_data_is_kept(services: dict[str, Any]) -> None:
    volumes = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["volumes"]
    for service in services.values():
        assert re.search(r":(v\d|RELEASE\.\d)", service["image"])
        assert [volume.partition(":")[0] in volumes for volume in service["volumes"]] == [True]
