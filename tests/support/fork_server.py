"""A process that has the large packages loaded and forks for every program it is asked to run.

Loading torch takes Python two seconds, a fork milliseconds. The fork has arguments, folder,
environment, streams and exit code of its own, loads the modules of solar itself, and waits at its
end for its threads as any interpreter does. Three things differ from a start: the packages in
LOADED are in memory before solar asks for them; what they and Python read from the environment when
they are loaded (OMP_NUM_THREADS, PYTHONIOENCODING) is what this process was given; and modules are
not taken apart at the end, which would be most of what a fork costs.
A second process, for commands, has also done what each of them begins with: `import solar.cli`, and
loaded what most go on with.
Started by `running._server` as `fork_server.py SOCKET SOCKET_FOR_COMMANDS`, two file numbers; both
end with whoever started them.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

# The optimisers of torch import torch._dynamo, which takes longer than torch itself.
LOADED = ("torch", "torch._dynamo", "cv2", "faiss", "PIL.Image", "safetensors.torch")
LOADED += ("typer", "rich.progress", "pydantic", "sqlite3", "fastapi", "uvicorn")

# A program to start instead of Python. It passes on what it was given, signals too, and ends as the
# fork does; the fork ends with it. Only the fork keeps the streams.
ASK = """
import json, os, signal, socket, sys
passed = (signal.SIGINT, signal.SIGTERM)
signal.pthread_sigmask(signal.SIG_BLOCK, passed)
server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
job = dict(arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ))
server.sendall(json.dumps(job).encode() + b"\\n")
socket.send_fds(server, [b"!"], [0, 1, 2])
answers = server.makefile()
fork = int(answers.readline())
os.closerange(0, 3)
for number in passed:
    signal.signal(number, lambda number, _: os.kill(fork, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, passed)
code = int(answers.readline())
if code < 0:
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def load(*packages: str) -> None:
    """Import what is installed, before any fork."""
    for package in packages:
        with suppress(ImportError):
            import_module(package)
    gc.freeze()  # forks share what they need not look at


def serve(listener: socket.socket) -> list[str]:
    """Fork for every program. Returns in forks only: the arguments of the program to run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:  # closed, because whoever started this has ended
            os.killpg(0, signal.SIGKILL)
        asked, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _answered(asked)
        asked.close()


def _answered(asked: socket.socket) -> list[str]:
    """Fork again: the new process returns, this one tells its number and how it ended."""
    job = json.loads(asked.makefile("rb", buffering=0).readline())
    _, streams, _, _ = socket.recv_fds(asked, 1, 3)
    program = os.fork()
    if program == 0:
        asked.close()
        return _prepared(job, streams)
    for stream in (0, 1, 2, *streams):
        os.close(stream)
    asked.sendall(b"%d\n" % program)
    threading.Thread(target=_end_with, args=(asked, program), daemon=True).start()
    _, status = os.waitpid(program, 0)
    with suppress(OSError):
        asked.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _end_with(asked: socket.socket, program: int) -> None:
    """Kill the program once whoever asked for it is gone."""
    asked.recv(1)
    with suppress(ProcessLookupError):
        os.kill(program, signal.SIGKILL)


def _prepared(job: dict[str, Any], streams: list[int]) -> list[str]:
    """Make this process the one that was asked for, and return its arguments."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.dup2(streams[number], number)
        os.close(streams[number])
        old = getattr(sys, name)
        lines = name == "stderr" or os.isatty(number)
        settings = {"encoding": old.encoding, "errors": old.errors, "closefd": False}
        setattr(sys, name, os.fdopen(number, old.mode, 1 if lines else -1, **settings))
    # Whoever runs all tests in the background has it ignored, and so had every program.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in paths if path and path not in sys.path]
    arguments: list[str] = job["arguments"]
    return arguments


def run(arguments: list[str]) -> None:
    """What Python does with `FILE …`, `-m MODULE …`, `-c CODE …`, or a program on its input."""
    match arguments:
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            _execute(compile(code, "<string>", "exec"))
        case [] | ["-"]:
            _execute(compile(sys.stdin.read(), "<stdin>", "exec"))
        case [file, *rest]:
            sys.argv = [file, *rest]
            sys.path.insert(0, os.path.dirname(os.path.realpath(file)))  # noqa: PTH120
            runpy.run_path(file, run_name="__main__")


def _execute(code: Any) -> None:
    sys.modules["__main__"] = ModuleType("__main__")
    exec(code, vars(sys.modules["__main__"]))


def _leave(code: int) -> None:
    """End as Python does, but for what it frees."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.path[0] = ""  # as where code is given
    load(*LOADED)
    programs, commands = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    for_commands = os.fork() == 0
    if for_commands:
        load("solar.cli", "solar.models", "solar.index.index", "solar.describe.pipeline")
    own, other = (commands, programs) if for_commands else (programs, commands)
    other.close()
    try:
        run(serve(own))
    except SystemExit as end:
        if isinstance(end.code, int | None):
            _leave(end.code or 0)
        raise
    _leave(0)
