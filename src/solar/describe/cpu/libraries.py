"""Runtimes that run an exported network on a CPU, and a child process that tries one out.

As a program, `python libraries.py RUNTIME FILE THREADS CAP IN.npz OUT.npz` runs every array of
IN and writes what comes out: if the runtime dies, only this process dies with it. It starts fast
because nothing else of solar is imported here.
"""

import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]
Run = Callable[[Array], Array]

# Some processors advertise AMX and then die of an illegal instruction in it. oneDNN, which
# OpenVINO computes with, obeys this variable if it is set before its first computation.
CAP = "ONEDNN_MAX_CPU_ISA"


def start(
    runtime: str,
    file: Path,
    threads: int,
    *,
    cap: bool = False,
    example: Any = None,
) -> Run:
    """Load a file as a function from what it takes to descriptors (b, dim), one thread at a time.

    May raise anything, and may end the process: try it in a child first. `cap` keeps oneDNN from
    instructions beyond AVX-512, such as AMX; `example` is an input of the file's type.
    """
    with _capped(cap, bf16=runtime.endswith("bf16")):
        run = _RUNTIMES[runtime](file, threads)
        if cap and example is not None:
            run(np.zeros_like(example))  # oneDNN reads the cap when it first computes
    return run


def compiled(
    name: str,
    file: Path,
    threads: int,
    *,
    cap: bool = False,
    streams: int = 1,
    cache: Path | None = None,
) -> Any:
    """Load a graph of bytes, (b, h, w, 3), for OpenVINO, kept compiled in the folder `cache`."""
    with _capped(cap, bf16=name.endswith("bf16")):
        graph = _compiled(file, threads, name == "openvino-bf16", streams, cache)
        if cap:
            graph([np.zeros((1, 64, 64, 3), np.uint8)])
    return graph


def _onnxruntime(file: Path, threads: int) -> Run:
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    (taken,) = session.get_inputs()
    return lambda images: session.run(None, {taken.name: images})[0]


def _openvino(file: Path, threads: int, *, bf16: bool = False) -> Run:
    request = _compiled(file, threads, bf16).create_infer_request()
    return lambda images: request.infer([images], share_inputs=True)[0]


# Two threads that give OpenVINO its first arrays at once may wait for each other for ever: its
# bindings look up numpy with a lock of their own held. So they do it here first, in one thread.
_STARTING = threading.Lock()


def _compiled(
    file: Path, threads: int, bf16: bool, streams: int = 1, cache: Path | None = None
) -> Any:
    import openvino

    settings: dict[str, Any] = {
        # Its own choice would be bf16 where the processor claims to have it.
        "INFERENCE_PRECISION_HINT": "bf16" if bf16 else "f32",
        "NUM_STREAMS": streams,
        "INFERENCE_NUM_THREADS": threads,
    }
    if cache is not None:
        settings["CACHE_DIR"] = str(cache)
    with _STARTING:
        openvino.Tensor(np.zeros(1, np.float32))
    # Sizes stay open: compiled once for each size it was measured no faster.
    return openvino.Core().compile_model(file, "CPU", settings)


_RUNTIMES: dict[str, Callable[[Path, int], Run]] = {
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "openvino-bf16": partial(_openvino, bf16=True),
}


@contextmanager
def _capped(cap: bool, *, bf16: bool) -> Iterator[None]:
    """Set `CAP` in the environment inside the block, unless the user has chosen one."""
    if not cap or CAP in os.environ:
        yield
        return
    os.environ[CAP] = "AVX512_CORE_BF16" if bf16 else "AVX512_CORE_VNNI"
    try:
        yield
    finally:
        del os.environ[CAP]


def processor() -> str:
    """The processor's name and features, as far as the system reports them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    facts = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
    return "\n".join(sorted(set(facts))) or platform.machine()


def has_bf16() -> bool:
    """Whether the processor says that it multiplies matrices in bf16."""
    flags = set(processor().split())
    return not flags.isdisjoint({"avx512_bf16", "amx_bf16", "bf16"})


def main(arguments: list[str]) -> None:
    """Run the arrays of one file through a runtime and write another."""
    runtime, file, threads, cap, source, destination = arguments
    with np.load(source, allow_pickle=False) as batches:
        example = batches[batches.files[0]][:1]
        run = start(runtime, Path(file), int(threads), cap=cap == "1", example=example)
        descriptors: dict[str, Any] = {name: run(batches[name]) for name in batches.files}
    np.savez(destination, **descriptors)


if __name__ == "__main__":
    main(sys.argv[1:])
