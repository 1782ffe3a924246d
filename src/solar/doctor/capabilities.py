"""What is tried out in a process of its own; see `probe.py`. Every result is ready for JSON."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.errors import SolarError

if TYPE_CHECKING:
    from solar.models import RetrievalNet


def devices() -> dict[str, Any]:
    """What torch can compute on."""
    from importlib.util import find_spec

    import torch

    from solar.models.inference import best_device

    return {
        "used": best_device(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
        "gpus": [_gpu(number) for number in range(torch.cuda.device_count())],
        "attention": _attention_kernels(best_device()),
        "triton": find_spec("triton") is not None,
    }


def _gpu(number: int) -> dict[str, Any]:
    import torch

    facts = torch.cuda.get_device_properties(number)
    return {
        "name": facts.name,
        "memory": facts.total_memory,
        "capability": f"{facts.major}.{facts.minor}",
    }


def _attention_kernels(device: str) -> list[str]:
    """The kernels of fused attention that run, found out by running them."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    tokens = torch.zeros(1, 1, 64, 64, device=device, dtype=dtype)
    kernels = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "plain": SDPBackend.MATH,
    }
    running = []
    for name, kernel in kernels.items():
        try:
            with sdpa_kernel(kernel):
                scaled_dot_product_attention(tokens, tokens, tokens)
        except RuntimeError:
            continue
        running.append(name)
    return running


def photo_formats() -> dict[str, str]:
    """Formats of photos that depend on how Pillow was built or extended, and what reads them."""
    from importlib.metadata import PackageNotFoundError, version

    from PIL import features

    readers = {"JPEG": "libjpeg_turbo", "WebP": "webp", "AVIF": "avif"}
    found = {
        name: f"{library} {features.version(library)}"
        for name, library in readers.items()
        if features.check(library)
    }
    with suppress(PackageNotFoundError):
        found["HEIC"] = f"pillow-heif {version('pillow-heif')}"
    return found


def self_test() -> str:
    """Describe two generated photos, index them, and find one of them again.

    Returns what was done, with which model and where; a SolarError if something else was found.
    """
    import tempfile
    from time import perf_counter

    from solar.demo.toy import landmark
    from solar.search import Index

    started = perf_counter()
    name, net = _network()
    vectors = net.describe([landmark(0, 0), landmark(1, 0)], size=224, scales=(1.0,))
    with tempfile.TemporaryDirectory() as folder:
        index = Index.create(Path(folder) / "toy.solar", vectors, ["0.jpg", "1.jpg"])
        [[best]] = index.engine.search(vectors[1:], 1)
        index.close()
    if best.path != "1.jpg" or abs(best.score - 1) > 1e-3:
        raise SolarError(
            f"The search for 1.jpg found {best.path} with the score {best.score:.4f} instead of 1."
        )
    seconds = perf_counter() - started
    where = f"with {name} on {net.device.type}"
    return f"Described two photos {where} and found one of them again, in {seconds:.1f} s."


def _network() -> tuple[str, "RetrievalNet"]:
    """A model that comes with the package; where none does, a network with drawn weights."""
    import torch

    from solar.doctor.stored_models import models
    from solar.models import RetrievalConfig, RetrievalNet, load

    for model in models():
        if model.state == "bundled" and model.task == "retrieval":
            net = load(model.name)
            assert isinstance(net, RetrievalNet)
            return model.name, net
    torch.manual_seed(0)
    return "random weights", RetrievalNet(RetrievalConfig("resnet18", {4: 4, 5: 2})).eval()
