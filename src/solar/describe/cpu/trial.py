"""Trying out a runtime on this machine, once, in a child process that may crash."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar import __version__
from solar.describe.cpu import libraries
from solar.describe.cpu.libraries import CAP
from solar.files import replacing

if TYPE_CHECKING:
    from torch import nn

_TRIAL_SECONDS = 600


@dataclass(frozen=True)
class Verdict:
    """Whether a runtime runs a file here: `cap` says it needs `libraries.CAP` for that."""

    works: bool
    cap: bool = False
    reason: str = ""


def kept_verdict(runtime: str, file: Path) -> Verdict | None:
    """What a trial of a runtime with a file has shown on this machine; None before one."""
    try:
        return Verdict(**json.loads(_note(runtime, file).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def tried_out(
    model: nn.Module,
    runtime: str,
    file: Path,
    inputs: Sequence[Any],
    least: float,
    threads: int,
) -> Verdict:
    """Whether a runtime works with a file on this machine, tried out once."""
    if (kept := kept_verdict(runtime, file)) is not None:
        return kept
    amx = "amx_tile" in libraries.processor()
    # Where AMX is advertised oneDNN never gets to use it; elsewhere the cap is a second chance.
    attempts = (True,) if amx else (False, True)
    for cap in attempts:
        try:
            cosine = _cosine(model, inputs, run_in_child(runtime, file, inputs, threads, cap))
        except _DiedError as death:
            verdict = Verdict(works=False, cap=cap, reason=str(death))
            if not death.lasting:
                return verdict
            continue
        reason = f"its embeddings reach a cosine of only {cosine:.4f} to torch's, of {least}"
        works = cosine >= least
        verdict = Verdict(works, cap, "" if works else reason)
        break
    with replacing(_note(runtime, file)) as temporary:
        temporary.write_text(json.dumps(asdict(verdict)))
    return verdict


def _note(runtime: str, file: Path) -> Path:
    machine = [libraries.processor(), os.environ.get(CAP, "")]
    package = runtime.partition("-")[0]
    key = json.dumps([*machine, runtime, _version(package), file.name, __version__])
    return file.parent / f"{hashlib.sha256(key.encode()).hexdigest()[:20]}.json"


class _DiedError(Exception):
    """A child ended without a result; `lasting` if it would do so again."""

    def __init__(self, reason: str, *, lasting: bool) -> None:
        super().__init__(reason)
        self.lasting = lasting


def run_in_child(
    runtime: str, file: Path, inputs: Sequence[Any], threads: int, cap: bool
) -> list[Any]:
    """Run the inputs through a runtime in a child process, to survive its crash."""
    with tempfile.TemporaryDirectory() as folder:
        source, destination = Path(folder, "in.npz"), Path(folder, "out.npz")
        arrays: dict[str, Any] = {str(number): batch for number, batch in enumerate(inputs)}
        np.savez(source, **arrays)
        arguments = [runtime, str(file), str(threads), str(int(cap)), str(source), str(destination)]
        try:
            done = subprocess.run(
                # By path: the module needs nothing of solar, however that was found.
                [sys.executable, "-P", libraries.__file__, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TRIAL_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise _DiedError(f"a trial took over {_TRIAL_SECONDS} s", lasting=False) from None
        if done.returncode:
            raise _died(runtime, done.returncode, done.stderr)
        with np.load(destination, allow_pickle=False) as outputs:
            return [outputs[name] for name in arrays]


def _died(runtime: str, code: int, said: str) -> _DiedError:
    if code < 0:
        number = -code
        name = signal.Signals(number).name if number in list(signal.Signals) else str(number)
        crash = name in ("SIGILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGTRAP")
        return _DiedError(f"{runtime} died of {name} in a trial", lasting=crash)
    last = (said.strip().splitlines() or [f"exit code {code}"])[-1]
    return _DiedError(f"{runtime} failed in a trial ({last[:200].rstrip('.')})", lasting=False)


def _cosine(model: nn.Module, inputs: Sequence[Any], outputs: Sequence[Any]) -> float:
    """The smallest cosine between a runtime's descriptors and torch's."""
    import torch

    from solar.models.inference import inference

    with inference(model):
        ours = torch.cat([model(torch.from_numpy(batch)) for batch in inputs])
    theirs = torch.cat([torch.from_numpy(batch) for batch in outputs])
    return float(torch.nan_to_num(torch.cosine_similarity(ours, theirs)).min())


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
