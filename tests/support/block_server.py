"""Runs pages of the documentation quickly: a process that has torch loaded and forks for each job.

A page's blocks run in a fork of this process, Python in one namespace, shell in bash. There `solar`
and `python` are small programs that ask this process for another fork, so that a command costs
milliseconds instead of the seconds that loading torch takes. Three things differ from what a reader
gets: training is short, drawn weights pass for the published ones, whose hash they have not, and
`solar serve` goes to the background once it listens, on a free port.
Started as a program: `block_server.py SOCKET`.
"""

import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from support import fork_server

import solar
from solar import download, weights

# A program on the PATH of the pages: passes its arguments, folder, environment and streams on.
ASK = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
job = dict(kind={kind!r}, arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ))
server.sendall(json.dumps(job).encode() + b"\\n")
socket.send_fds(server, [b"!"], [0, 1, 2])
answers = server.makefile()
answers.readline()
sys.exit(int(answers.readline() or 139))
"""

# What single pages need; a fork would load it for every command.
MORE = ("matplotlib.pyplot", "transformers.models.dinov2.modeling_dinov2")

# Settings that end a training run before it has learnt anything.
SHORT = {
    "retrieval": "epochs=1 steps=1 batch=2 images.size=64 validation.size=64 mining.queries=8 "
    "mining.pool=12 mining.negatives=1 mining.size=64",
    "places": "epochs=1 steps=1 batch=2 images.size=64 validation.size=64 schedule.warmup=0",
    "patches": "steps=1 batch=8 data.per_photo=4 schedule.warmup=0",
    "distill": "steps=1 batch=2 sizes=[64] data.size=64 data.cache=host student.whitening=none",
}


def serve(path: str) -> None:
    """Fork for every job until this process is ended."""
    import torch

    torch.set_num_threads(1)
    _train_shortly()
    download.checked = lambda path, *_, **__: path
    # After the changes above, so that no module keeps what was there before.
    fork_server.load(*fork_server.LOADED, *MORE, *_modules())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        while True:
            asked, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _work(asked)
            asked.close()


def _modules() -> list[str]:
    """The names of all modules of solar that do nothing when they are imported."""
    found = pkgutil.walk_packages(solar.__path__, "solar.")
    return [module.name for module in found if not module.name.endswith("__main__")]


def _work(asked: socket.socket) -> None:
    """Do one job in this fork, and tell its process and, in the end, its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reader = asked.makefile("rb", buffering=0)
    job = json.loads(reader.readline())
    _, streams, _, _ = socket.recv_fds(asked, 1, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    _reopen_output()
    environment = job["environment"]
    # All processes of a page are in one group, which ends with the page.
    os.setpgid(0, int(environment.get("PAGE_GROUP", 0)))
    environment.setdefault("PAGE_GROUP", str(os.getpid()))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(job["folder"])
    weights.FOLDER = Path(environment["PAGE_BOX"])
    asked.sendall(f"{os.getpid()}\n".encode())
    if job["kind"] == "solar" and job["arguments"][:1] == ["serve"]:
        _serve_behind(job["arguments"], asked)
    code = 1
    try:
        JOBS[job["kind"]](job["arguments"])
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        asked.sendall(f"{code}\n".encode())
        os._exit(code)


def _reopen_output() -> None:
    """Have Python find out anew what standard output is: it remembers whether that can seek."""
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)


def _serve_behind(arguments: list[str], asked: socket.socket) -> None:
    """Return from here in a process that serves; tell whoever asked once it listens."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.dup2(write, sys.stdout.fileno())
        os.close(read)
        _reopen_output()
        if "--port" not in arguments:
            arguments += ["--port", os.environ["PAGE_PORT"]]
        return
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as said:
        listens = any("http://" in line for line in said)
        asked.sendall(b"0\n" if listens else b"1\n")
        asked.close()
        said.read()  # until it ends: whoever writes needs a reader
    os._exit(0)


def _train_shortly() -> None:
    """Let every training end after a step, whoever calls it."""
    import solar.training
    from solar.training.distill import recipe as distill_recipe

    train, read = solar.training.train, distill_recipe.command_recipe

    def short_train(recipe: Any, overrides: Any = (), **options: Any) -> Any:
        tasks = {"local": "patches", "places": "places"}
        task = next((task for word, task in tasks.items() if word in str(recipe)), "retrieval")
        return train(recipe, [*overrides, *SHORT[task].split()], **options)

    def short_recipe(arguments: Any, options: Any) -> Any:
        return read([*arguments, *SHORT["distill"].split()], options)

    solar.training.train, distill_recipe.command_recipe = short_train, short_recipe


def _page(arguments: list[str]) -> None:
    """Run the blocks of a page, given as the path of a JSON file; stop at the first that fails."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in json.loads(Path(arguments[0]).read_bytes()):
        place = f"{block['page']}:{block['line']}"
        sys.stdout.write(f"--- {place}\n")
        sys.stdout.flush()
        if block["language"] == "python":
            # Empty lines before it give a traceback the lines of the page.
            code = "\n" * (block["line"] - 1) + block["code"]
            exec(compile(code, block["page"], "exec"), names)
            continue
        shell = ["bash", "-euxo", "pipefail", "-c", block["code"]]
        done = subprocess.run(shell, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            sys.stdout.write(f"{place} ended with exit code {done.returncode}\n")
            sys.exit(1)


def _solar(arguments: list[str]) -> None:
    from solar.cli import main

    sys.argv = ["solar", *arguments]
    main()


JOBS = {"page": _page, "solar": _solar, "python": fork_server.run}

if __name__ == "__main__":
    serve(sys.argv[1])
