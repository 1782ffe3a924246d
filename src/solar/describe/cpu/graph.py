"""A network as one graph for OpenVINO: bytes of photos in, embeddings out, without torch.

Normalising, the scales and their average are part of the graph. It is made from the network once,
which takes seconds and torch, tried out in a child process (`solar.describe.cpu.trial`), and kept
in the cache folder. From then on nothing here imports torch.

What bf16 changes is in docs/performance.md.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import numpy as np

from solar.arrays import Floats, Pixels
from solar.describe.cpu import libraries
from solar.describe.cpu.trial import Verdict, kept_verdict, tried_out
from solar.describe.network import Network, graph_folder, keep_facts
from solar.errors import SolarError
from solar.files import LOCK, locked, make_folder

GRAPHS = ("openvino-bf16", "openvino")
"""How a graph runs, the fastest first."""

COSINE = {"openvino-bf16": 0.999, "openvino": 0.99999}
"""What a graph must reach to torch's float32 in the trial: such embeddings can be compared."""

MANY = 16
"""Photos for which a graph is made where there is none: fewer are described sooner by torch."""

_SIDES = ((160, 192), (240, 160), (128, 331))  # of the photos of the trial


class GraphNet:
    """A describer that runs a graph on the CPU, `jobs` photos at the same time.

    Several threads may use it.
    """

    device: Any = SimpleNamespace(type="cpu")  # without torch
    any_size = True

    def __init__(self, name: str, compiled: Any, jobs: int) -> None:
        self.backend, self._jobs = name, jobs
        # Not OpenVINO's own queue: its threads call Python, and may hang when it is deleted.
        self._idle: SimpleQueue[Any] = SimpleQueue()
        for _ in range(jobs):
            self._idle.put(compiled.create_infer_request())

    def __call__(self, pixels: Sequence[Pixels]) -> Floats:
        """Photos (h, w, 3) of any sizes, or of one size as an array, to (n, dim) float32."""
        jobs = min(self._jobs, len(pixels))
        if jobs == 1:
            return np.stack([self._described(photo) for photo in pixels])
        with ThreadPoolExecutor(jobs) as pool:
            return np.stack(list(pool.map(self._described, pixels)))

    def _described(self, photo: Pixels) -> Floats:
        request = self._idle.get()
        try:
            request.infer({0: np.ascontiguousarray(photo)[None]}, share_inputs=True)
            row: Floats = request.get_output_tensor().data[0].copy()
            return row
        finally:
            self._idle.put(request)


def open_graph(
    network: Network, scales: Sequence[float], names: Sequence[str], *, make: bool, many: bool
) -> tuple[GraphNet | None, str]:
    """The first of these ways to run a network as a graph that works; or why none does.

    `names` are some of `GRAPHS`. What is not in the cache yet is made and tried out if `make`.
    """
    file, threads = graph_file(network, scales), cores()
    reason = "OpenVINO is not installed"
    if importlib.util.find_spec("openvino") is None:
        return None, reason
    for name in names:
        if name == "openvino-bf16" and not libraries.has_bf16():
            reason = "the processor has no bf16"
            continue
        verdict = kept_verdict(name, file) if file.exists() else None
        if verdict is None and make:
            verdict = _tried(network, scales, name, file, threads)
        if verdict is None:
            reason = "it has not been tried out"
        elif not verdict.works:
            reason = verdict.reason
        else:
            jobs = threads if many else 1
            # 0.15 s less for a query, and nothing for many photos; it takes 100 MB.
            keep = not many and os.access(file.parent, os.W_OK)
            try:
                compiled = libraries.compiled(
                    *(name, file, threads),
                    cap=verdict.cap,
                    streams=jobs,
                    cache=file.parent / "compiled" if keep else None,
                )
            except RuntimeError as error:  # a damaged file
                reason = f"{file} cannot be read ({error})"
                continue
            return GraphNet(name, compiled, jobs), ""
    return None, reason


def graph_file(network: Network, scales: Sequence[float]) -> Path:
    """Where the graph of a network is kept."""
    digest = hashlib.sha256(repr([float(scale) for scale in scales]).encode()).hexdigest()
    return graph_folder() / f"{network.fingerprint[:20]}-{digest[:10]}.xml"


def can_be_graph(network: Network) -> str:
    """Why a network cannot be made a graph; empty if it can."""
    config = network.net.config
    if config.backbone_settings is not None:
        return "its backbone is of another library"
    if config.regional or config.pooling == "rmac":
        return "it pools by regions"
    return ""


def cores() -> int:
    """How many threads compute: OMP_NUM_THREADS, as for torch, else one for each core."""
    if (chosen := os.environ.get("OMP_NUM_THREADS", "")).isdecimal() and int(chosen):
        return int(chosen)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _tried(
    network: Network, scales: Sequence[float], name: str, file: Path, threads: int
) -> Verdict:
    from solar.models.export import quiet
    from solar.models.inference import inference

    if reason := can_be_graph(network):
        return Verdict(works=False, reason=reason)
    whole = _whole(network, scales).eval()
    try:
        make_folder(file.parent)
        # Several processes may start at once: one of them makes the files, the others find them.
        with locked(file.parent / LOCK), quiet(), inference(whole):
            if not file.exists():
                _make(whole, file)
            keep_facts(network)
            return tried_out(whole, name, file, _photos(), COSINE[name], threads)
    except (SolarError, OSError, RuntimeError) as error:  # no room, or nothing OpenVINO converts
        return Verdict(works=False, reason=f"no graph can be made ({error})")


def _whole(network: Network, scales: Sequence[float]) -> Any:
    from torch import Tensor, nn

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network.net

        def forward(self, pixels: Tensor) -> Tensor:
            return self.net.multiscale(self.net.normalise(pixels), scales)

    return Whole()


def _make(whole: Any, file: Path) -> None:
    import openvino
    import torch
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    # What `openvino.convert_model` does in three times as long, and without its telemetry.
    example = torch.zeros(1, 160, 192, 3, dtype=torch.uint8)
    traced = torch.jit.trace(whole, example, check_trace=False)  # type: ignore[no-untyped-call]
    decoder = TorchScriptPythonDecoder(traced)  # the converter does not keep it alive
    converter = FrontEndManager().load_by_framework("pytorch")
    model = converter.load(decoder)
    [pixels] = model.get_inputs()
    model.set_partial_shape(pixels, openvino.PartialShape([-1, -1, -1, 3]))
    model.set_element_type(pixels, openvino.Type.u8)
    graph = converter.convert(model)
    # Serialised under the names that OpenVINO wants, then moved: complete where its .xml is.
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder, file.name)
        openvino.serialize(graph, made)
        made.with_suffix(".bin").replace(file.with_suffix(".bin"))
        made.replace(file)


def _photos() -> list[Any]:
    """Drawn photos, smooth as photos are, (1, h, w, 3) bytes each."""
    random = np.random.default_rng(0)
    photos = []
    for height, width in _SIDES:
        coarse = random.integers(0, 256, (height // 16 + 1, width // 16 + 1, 3))
        smooth = coarse.repeat(16, axis=0).repeat(16, axis=1)[:height, :width]
        noisy = smooth + random.integers(-20, 21, smooth.shape)
        photos.append(noisy.clip(0, 255).astype(np.uint8)[None])
    return photos
