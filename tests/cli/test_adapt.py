import json
from pathlib import Path

import numpy as np
import pytest
from support.filled import index_of
from support.running import solar as run

import solar
from solar.cli import app
from solar.models import fingerprint

PLACES, VIEWS, DIM = 14, 6, 512


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Descriptors as solar-r18 makes them, in which one direction in two tells nothing."""
    random = np.random.default_rng(0)
    of_place = np.repeat(np.arange(PLACES), VIEWS)
    x = 0.01 * random.standard_normal((len(of_place), DIM))
    x[:, :6] += random.standard_normal((PLACES, 6))[of_place]
    x[:, 6:12] += 2 * random.standard_normal((len(of_place), 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    names = [f"{number}.jpg" for number in range(len(x))]
    facts = {"model": "solar-r18", "fingerprint": fingerprint(solar.load("solar-r18"))}
    folder = tmp_path_factory.mktemp("adapt")
    index_of(folder / "photos.solar", names, x.astype(np.float32), facts).close()
    labels = "".join(f"{name},{place}\n" for name, place in zip(names, of_place, strict=True))
    (folder / "labels.csv").write_text(labels)
    return folder / "photos.solar"


def test_a_model_is_written_and_its_gain_told(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, output = index.with_name("labels.csv"), tmp_path / "mine.safetensors"
    command = ["adapt", index, "--labels", labels, "-o", output, "--epochs", 30, "--dim", 64]
    app([*map(str, command), "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert 0 < told["low"] < told["gain"] < told["high"]
    assert (told["places"], told["photos"], told["dim"]) == (PLACES, PLACES * VIEWS, 64)
    assert solar.load(output).dim == 64
    app(list(map(str, command)), standalone_mode=False)
    lines = capsys.readouterr().err.splitlines()
    assert f"mAP {told['before']:.1f} → {told['after']:.1f} on places" in lines[-2]
    assert lines[-1] == f"Trained on all {PLACES * VIEWS} labelled photos → {output}"


def test_a_refusal_is_one_sentence_and_no_file(index: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0).integers(0, PLACES, PLACES * VIEWS).tolist()
    labels, output = tmp_path / "wrong.json", tmp_path / "mine.safetensors"
    labels.write_text(json.dumps({f"{row}.jpg": label for row, label in enumerate(random)}))
    told = run("adapt", index, "--labels", labels, "-o", output, expect=2).stderr.splitlines()
    assert told[-1].startswith("solar: On places it was not trained on, a layer takes mAP from")
    assert not output.exists()
