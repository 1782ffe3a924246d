"""Runtimes that run an exported network on a CPU, and a child process that tries one out.

As a program, `python runtime.py RUNTIME FILE THREADS CAP IN.npz OUT.npz` runs every array of IN and
writes what comes out: if the runtime dies, only this process dies with it. It starts fast because
nothing else of solar is imported here.
"""

import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]
Run = Callable[[Array], Array]

# Some processors advertise AMX and then die of an illegal instruction in it. oneDNN, which
# OpenVINO computes with, obeys this variable if it is set before its first computation.
CAP = ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_VNNI")


PHOTO = (1, 3, 64, 64)


def start(
    runtime: str,
    file: Path,
    threads: int,
    *,
    cap: bool = False,
    shape: tuple[int, ...] = PHOTO,
) -> Run:
    """Load an ONNX file as a function: float32 (b, 3, h, w) to (b, dim), one thread at a time.

    May raise anything, and may end the process: try it in a child first. `cap` keeps oneDNN from
    instructions beyond AVX-512 VNNI; `shape` is one that the file takes.
    """
    with _capped(cap):
        run = _RUNTIMES[runtime](file, threads)
        run(np.zeros(shape, np.float32))  # oneDNN reads the cap when it first computes
    return run


def _onnxruntime(file: Path, threads: int) -> Run:
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    (taken,) = session.get_inputs()
    return lambda images: session.run(None, {taken.name: images})[0]


def _openvino(file: Path, threads: int) -> Run:
    import openvino  # type: ignore[import-untyped]

    settings = {
        # Its own choice would be bf16 where the processor claims to have it.
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
    }
    # Sizes stay open: compiled once for each size it was measured no faster.
    request = openvino.Core().compile_model(file, "CPU", settings).create_infer_request()
    return lambda images: request.infer([images], share_inputs=True)[0]


_RUNTIMES: dict[str, Callable[[Path, int], Run]] = {
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}


@contextmanager
def _capped(cap: bool) -> Iterator[None]:
    """Set `CAP` in the environment inside the block, unless the user has chosen one."""
    name, value = CAP
    if not cap or name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def processor() -> str:
    """The processor's name and features, as far as the system reports them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    facts = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
    return "\n".join(sorted(set(facts))) or platform.machine()


def main(arguments: list[str]) -> None:
    """Run the arrays of one file through a runtime and write another."""
    runtime, file, threads, cap, source, destination = arguments
    with np.load(source, allow_pickle=False) as batches:
        shape = (1, *batches[batches.files[0]].shape[1:])
        run = start(runtime, Path(file), int(threads), cap=cap == "1", shape=shape)
        descriptors: dict[str, Any] = {name: run(batches[name]) for name in batches.files}
    np.savez(destination, **descriptors)


if __name__ == "__main__":
    main(sys.argv[1:])
