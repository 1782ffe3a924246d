"""The shell asks the command itself what could come next, by environment variables."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.running import python

from solar.models import zoo

CODE = "from solar.cli import main; main()"


def ask(shell: str, words: str, **more: str) -> list[str]:
    """What may follow these words."""
    environment = {
        **os.environ,
        "_SOLAR_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": words,
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        **more,
    }
    done = subprocess.run([*python(), "-c", CODE], env=environment, capture_output=True)
    return [line for line in done.stdout.decode().splitlines() if line]


def test_commands_are_offered() -> None:
    assert {"describe", "doctor", "index", "search"} <= set(ask("bash", "solar "))


def test_options_are_offered() -> None:
    assert ask("bash", "solar describe --mo") == ["--model"]


@pytest.mark.parametrize(
    "words",
    [
        "solar describe a.jpg --model ",
        "solar index build photos --model ",
        "solar attention a.jpg --model ",
        "solar evaluate photos --model ",
        "solar search photos.solar a.jpg --model ",
        "solar serve photos.solar --model ",
        "solar serve photos.solar --compare-model ",
        "solar distill photos --teacher ",
    ],
)
def test_models_that_describe_photos_are_offered(words: str) -> None:
    names = [entry.name for entry in zoo.models() if entry.task == "retrieval"]
    assert ask("bash", words) == names


@pytest.mark.parametrize(
    "words",
    [
        "solar match a.jpg b.jpg --local-features ",
        "solar search photos.solar a.jpg --local-features ",
        "solar index build photos --local-features ",
        "solar data build photos --local-features ",
    ],
)
def test_what_describes_keypoints_is_offered(words: str) -> None:
    names = [entry.name for entry in zoo.models() if entry.task in ("patches", "local")]
    assert ask("bash", words) == ["rootsift", "sift", "orb", "akaze", *names]


@pytest.mark.parametrize(
    "words",
    [
        "solar reproduce table1 --rows solar-",
        "solar convert solar-",
        "solar export onnx solar-",
        "solar models solar-",
    ],
)
def test_names_that_begin_so_are_offered(words: str) -> None:
    names = [entry.name for entry in zoo.models() if entry.name.startswith("solar-")]
    assert ask("bash", words) == names


def test_bundled_recipes_are_offered() -> None:
    assert ask("bash", "solar train how-") == ["how-r18", "how-r18-small", "how-r50"]


@pytest.mark.parametrize(
    "words", ["solar search ph", "solar describe ph", "solar describe a.jpg --model ./ph"]
)
def test_where_nothing_is_offered_the_shell_offers_files(words: str) -> None:
    assert ask("bash", words) == []
    assert ask("zsh", words) == ["_files"]
    assert ask("fish", words, _TYPER_COMPLETE_FISH_ACTION="get-args") == []


def test_zsh_and_fish_are_told_what_a_model_is() -> None:
    words = "solar describe a.jpg --model gem-r101-gl18"
    about = "resnet101, trained on Google Landmarks 2018"
    assert ask("zsh", words) == [f'_arguments \'*: :(("gem-r101-gl18":"{about}"))\'']
    assert ask("fish", words, _TYPER_COMPLETE_FISH_ACTION="get-args") == [f"gem-r101-gl18\t{about}"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(shell: str) -> None:
    environment = {**os.environ, "_SOLAR_COMPLETE": f"source_{shell}"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True)
    assert f"_SOLAR_COMPLETE=complete_{shell}" in done.stdout.decode()


def test_nobody_waits_for_torch() -> None:
    code = f"import sys, atexit\natexit.register(lambda: print('torch' in sys.modules))\n{CODE}"
    words = "solar describe a.jpg --model gem-r101-gl18"
    environment = {
        **os.environ,
        "_SOLAR_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": "4",
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.stdout.decode().split() == ["gem-r101-gl18", "False"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_a_model_after_taking_the_script_as_documented(tmp_path: Path) -> None:
    command = tmp_path / "solar"
    command.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{CODE}' \"$@\"\n")
    command.chmod(command.stat().st_mode | stat.S_IEXEC)
    script = """
        eval "$(solar --show-completion)"
        COMP_WORDS=(solar describe --model gem-r152-g) COMP_CWORD=3
        _solar_completion solar
        echo "${COMPREPLY[@]}"
    """
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "gem-r152-gl18\n", done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_completion_is_installed_in_the_home_folder(tmp_path: Path) -> None:
    script = f"'{sys.executable}' -c '{CODE}' --install-completion; exit $?"
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(["bash", "--norc", "-c", script], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "solar" in (tmp_path / ".bashrc").read_text()
