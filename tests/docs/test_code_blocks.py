"""What README and documentation show must run: see `code_blocks` and `block_server` for how."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from support.block_server import ASK
from support.code_blocks import (
    REPOSITORY,
    RUN,
    SHELLS,
    SHOWN,
    Block,
    blocks,
    inline_commands,
    pages,
    unknown_words,
)
from support.docs_workspace import BOX, fill

SUPPORT = REPOSITORY / "tests" / "support"

PAGES = pages()
SECONDS = 1800  # for a page, on a busy machine


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in RUN and block.reason is None]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    fill(folder)
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[Path]:
    """A process to run pages with: the socket at which it is reached."""
    # Sockets have short names, which pytest's folders are too long for.
    with tempfile.TemporaryDirectory(prefix="solar-") as folder:
        place = Path(folder) / "server"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(SUPPORT.parent)]),
            "OMP_NUM_THREADS": "1",
            "NO_COLOR": "1",
            "COLUMNS": "120",
        }
        program = [sys.executable, SUPPORT / "block_server.py", place]
        process = subprocess.Popen(program, env=environment, start_new_session=True)
        try:
            until_there(place, process)
            yield place
        finally:
            process.terminate()
            process.wait()


def until_there(place: Path, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + SECONDS
    while not place.exists():
        assert process.poll() is None, "The server of pages did not start."
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("language", "wrong", "told"),
    [
        ("sh", "solar search nowhere.solar a.jpg", "page.md:7 ended with exit code 2"),
        ("sh", 'pip install "solar-retrieval[nothing]"', "There is no extra nothing."),
        ("python", "nothing_of_the_kind()", 'File "page.md", line 7'),
    ],
)
def test_a_block_that_fails_is_noticed(
    language: str, wrong: str, told: str, workspace: Path, server: Path, tmp_path: Path
) -> None:
    shown = [
        Block("page.md", 3, "sh", "test -f a.jpg"),
        Block("page.md", 7, language, wrong),
        Block("page.md", 9, "sh", "echo went on"),
    ]
    code, said = run(shown, workspace, server, tmp_path)
    assert code == 1
    assert told in said
    assert "went on" not in said


def run(shown: list[Block], workspace: Path, server: Path, scratch: Path) -> tuple[int, str]:
    """Run the blocks of a page one after the other: its exit code, and all that it printed."""
    folder = scratch / "here"
    # Links, not copies: what a reader has is not for programs to change.
    shutil.copytree(workspace, folder, copy_function=os.link)
    programs(scratch / "bin", server)
    port = str(free_port())
    blocks = [asdict(block) for block in shown]
    for block in blocks:
        block["code"] = block["code"].replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    plan = scratch / "blocks.json"
    plan.write_text(json.dumps(blocks))
    environment = {
        **os.environ,
        "PATH": f"{scratch / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SOLAR_CACHE": str(folder / "cache"),
        "SOLAR_OFFLINE": "1",
        "PAGE_BOX": str(folder / BOX),
        "PAGE_PORT": port,
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }
    job = {
        "kind": "page",
        "arguments": [str(plan)],
        "folder": str(folder),
        "environment": environment,
    }
    return ask(server, job, scratch / "output")


def ask(server: Path, job: dict[str, object], output: Path) -> tuple[int, str]:
    """Let the server do a job, and end what that leaves running."""
    with output.open("w") as log, socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(SECONDS)
        asked.connect(str(server))
        asked.sendall(json.dumps(job).encode() + b"\n")
        with Path(os.devnull).open() as nothing:
            socket.send_fds(asked, [b"!"], [nothing.fileno(), log.fileno(), log.fileno()])
        answers = asked.makefile()
        group = int(answers.readline())
        try:
            code = int(answers.readline() or 139)
        except TimeoutError:
            code = 124
        finally:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
    return code, output.read_text(encoding="utf-8", errors="replace")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def programs(folder: Path, server: Path) -> None:
    """What the shell finds instead of the real programs."""
    folder.mkdir()
    stand_ins = {
        **{
            kind: ASK.format(python=sys.executable, socket=str(server), kind=kind)
            for kind in ("solar", "python")
        },
        # Whether there is such a target, without making it.
        "make": f'#!/bin/sh\nexec "{shutil.which("make")}" -C "{REPOSITORY}" -n "$@" >/dev/null\n',
        "pip": f'#!/bin/sh\nexec "{sys.executable}" "{SUPPORT}/pip_stand_in.py" "$@"\n',
    }
    for name, text in stand_ins.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


NOT_RUN = [block for page in PAGES for block in blocks(page) if block.reason is not None]


@pytest.mark.parametrize("block", NOT_RUN, ids=lambda block: block.place)
def test_what_is_not_run_says_why(block: Block) -> None:
    """Skipped, so that every test run lists the reasons."""
    assert block.language in RUN, "Only programs need a reason."
    assert len(str(block.reason)) > 10
    pytest.skip(f"{block.place} is not run: {block.reason}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    allowed = (*RUN, *SHOWN)
    assert [block.place for block in blocks(page) if block.language not in allowed] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_options_exist_also_where_nothing_is_run(page: Path) -> None:
    shown = [block for block in blocks(page) if block.language in SHELLS] + inline_commands(page)
    wrong = [(block.place, word) for block in shown for word in unknown_words(block.code)]
    assert wrong == []


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("solar search photos.solar a.jpg --boxx 1,2,3,4", ["--boxx (no such option of search)"]),
        ("solar seek photos.solar", ["seek (no such command)"]),
        ("cd here && solar index grow photos.solar", ["grow (no such command)"]),
        ("torchrun -m solar train r.yaml --go-on", ["--go-on (no such option of train)"]),
        ("solar index add|remove|info", []),
        ("solar search photos.solar - -k 5 --no-rerank --json < a.jpg", []),
    ],
)
def test_words_that_solar_does_not_know_are_found(code: str, wrong: list[str]) -> None:
    assert list(unknown_words(code)) == wrong


def test_a_reason_belongs_to_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.code_blocks.REPOSITORY", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: no photos here -->\n\n```sh\nsolar models\n```\n")
    [block] = blocks(page)
    assert (block.line, block.code, block.reason) == (4, "solar models\n", "no photos here")
    page.write_text("<!-- not run: no photos here -->\n\nText.\n\n```sh\nsolar models\n```\n")
    with pytest.raises(ValueError, match="no block follows"):
        blocks(page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_data_that_is_shown_can_be_read(page: Path) -> None:
    readers = {"json": json.loads, "yaml": yaml.safe_load}
    for block in blocks(page):
        if block.language in readers:
            readers[block.language](block.code)


def test_outputs_are_not_pasted() -> None:
    """A console shows commands: what they print is seen by whoever runs them."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for console in text.split("```console\n")[1:]:
            lines = console.split("```")[0].replace("\\\n", " ").splitlines()
            assert [line for line in lines if line and not line.startswith("$ ")] == [], page


def test_the_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) < 150


# Last, so that several processes share them evenly.
@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name_of)
def test_the_blocks_of_a_page_run(
    page: Path, workspace: Path, server: Path, tmp_path: Path
) -> None:
    code, said = run(runnable(page), workspace, server, tmp_path)
    assert code == 0, f"{name_of(page)} does not run:\n{said[-6000:]}"
