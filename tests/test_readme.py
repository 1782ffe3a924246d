"""What the README shows must run, with the published weights replaced by drawn ones."""

import re
import shlex
from pathlib import Path

import pytest
import torch
from boxed import needs_weights
from drawn import drawn_checkpoint

from solar.cli import app
from solar.datasets import toy
from solar.models import RetrievalConfig, RetrievalNet, zoo

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the photos and the weights that the README speaks of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOLAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    for folder in ("photos", "new-photos", "photos-by-landmark"):
        toy.write(tmp_path / folder, landmarks=2, views=2, size=(288, 216), first=len(folder))
    for i, name in enumerate(("a.jpg", "b.jpg", "query.jpg")):
        toy.landmark(i, 0, size=(288, 216)).save(tmp_path / name)
    net = RetrievalNet(RetrievalConfig("resnet18", attention={4: 4, 5: 2}))
    torch.save(drawn_checkpoint(net), zoo.path_of(zoo.find("solar-r101")))
    torch.save(drawn_checkpoint(net), tmp_path / "published.pth")
    return tmp_path


@needs_weights
def test_the_python_of_the_readme_runs(somewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [code] = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "similarity: " in printed
    assert "landmark-" in printed


def test_the_commands_of_the_readme_run(somewhere: Path) -> None:
    from typer.testing import CliRunner

    lines = [line for block in blocks("sh") for line in block.splitlines() if line]
    commands = [shlex.split(line, comments=True) for line in lines]
    assert [words[1] for words in commands if words[0] == "make"] == ["demo", "test"]
    for words in commands:
        if words[0] == "solar":
            result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
            assert result.exit_code == 0, (words, result.output)
    assert (somewhere / "found.html").exists()
    assert (somewhere / "ours.safetensors").exists()


def test_the_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", README.read_text(encoding="utf-8"))
    assert links
    assert all((README.parent / link).exists() for link in links)


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) < 150
