"""What a release is deployed with: what the files name exists, and their programs accept them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer.main
import yaml

from solar import __version__
from solar.cli import app
from solar.client import Client
from solar.demo import toy

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def commands() -> list[list[str]]:
    """Every `solar serve` and `solar index …` that the files or their page name, as words."""
    found = []
    for file in (*sorted(DEPLOY.iterdir()), ROOT / "docs" / "deploy.md"):
        text = file.read_text().replace("\\\n", " ")
        lines = re.findall(r"\bsolar ((?:serve|index \w+|search) [^\n#`]*)", text)
        found += [shlex.split(line) for line in lines]
    for file in ("compose.yml", "compose-milvus.yml"):
        found.append(compose(file)["services"]["solar"]["command"])
    [command] = re.findall(r"^CMD \[(.*)\]$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    return [*found, [word.strip('" ') for word in command.split(",")]]


def compose(file: str) -> dict:
    return yaml.safe_load((DEPLOY / file).read_text())


def test_commands_have_the_options_that_they_are_given() -> None:
    every = commands()
    assert len(every) > 8
    for name, *words in every:
        command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
        if name == "index":
            command = command.commands[words[0]]
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        assert {word for word in words if re.match("--?[a-z]", word)} <= known, words


def test_the_image_is_built_from_what_is_there() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    sent = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert all((ROOT / name).exists() for name in sent)
    recipe = (DEPLOY / "Dockerfile").read_text()
    [torch] = re.findall(r"torch==(\S+)", recipe)
    assert f"torch=={torch}\n" in (ROOT / "constraints.txt").read_text()
    assert recipe.index("USER 1000") < recipe.index("ENTRYPOINT")


def test_the_dockerfile_passes_its_linter() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        pytest.skip('pip install "solar-retrieval[dev]"; it has no wheel for Windows')
    run = [linter, "--no-color", DEPLOY / "Dockerfile"]
    assert subprocess.run(run, capture_output=True, text=True, check=False).stdout == ""


def test_services_open_no_port_to_the_network() -> None:
    for file in ("compose.yml", "compose-milvus.yml", "milvus-compose.yml"):
        for service in compose(file)["services"].values():
            assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["version"] == built["version"] == __version__
    assert cited["license"] == built["license"]


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("There is no systemd here.")
    unit = tmp_path / "solar.service"
    text = (DEPLOY / "solar.service").read_text()
    unit.write_text(text.replace("/opt/solar/bin/solar", shutil.which("true") or "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if "solar.service" in line]
    assert (done.returncode, said) == (0, [])


def test_docker_builds_the_image_and_serves_a_folder(tmp_path: Path) -> None:
    if not shutil.which("docker"):
        pytest.skip("There is no Docker.")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        pytest.skip("No Docker engine runs here.")
    toy.write(tmp_path / "photos", landmarks=2, views=2, distractors=0, size=(160, 120))

    def docker(*words: str) -> None:
        start = ["docker", "compose", "--project-name", "solar-test", "--file"]
        given = os.environ | {"PHOTOS": str(tmp_path / "photos")}
        subprocess.run([*start, DEPLOY / "compose.yml", *words], check=True, env=given)

    try:
        docker("build")
        docker("run", "--rm", "solar", "index", "build", "/photos", "-o", "/data/photos.solar")
        docker("up", "--detach", "--wait")
        query = tmp_path / "photos" / "landmark-000" / "view-001.jpg"
        assert (
            Client("http://127.0.0.1:8000").search(query, k=1)[0].path.startswith("landmark-000/")
        )
    finally:
        docker("down", "--volumes")
