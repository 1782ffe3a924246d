"""Distributed training by processes of `torchrun`; all functions also work in a single process."""

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from solar.errors import SolarError
from solar.models.inference import best_device

_TIMEOUT = timedelta(hours=1)  # of a process that waits for the others


@dataclass(frozen=True)
class World:
    """Place of this process among those of all machines."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Number of this process on its own machine, and of the GPU it uses."""

    @property
    def leads(self) -> bool:
        """Whether this process decides, prints and writes files."""
        return self.rank == 0


def world() -> World:
    """Place of this process; alone unless `start` joined a group."""
    if not _together():
        return World()
    local_rank = int(os.environ.get("LOCAL_RANK", dist.get_rank()))
    return World(dist.get_rank(), dist.get_world_size(), local_rank)


def start(device: str | None = None) -> World:
    """Join the group that `torchrun` describes in the environment, if any; end with `stop`.

    `cuda` communicates through NCCL and makes this process's GPU the current device, `cpu` through
    gloo; by default a GPU if there is one. A SolarError if there are too few GPUs.
    """
    if started_processes() == 1 or _together():
        return world()
    device = device or best_device()
    if device.startswith("cuda"):
        gpu = _own_gpu()
        torch.cuda.set_device(gpu)
        dist.init_process_group("nccl", timeout=_TIMEOUT, device_id=gpu)
    else:
        dist.init_process_group("gloo", timeout=_TIMEOUT)
    return world()


def started_processes() -> int:
    """Number of processes of `torchrun`, whether or not they have joined yet."""
    return int(os.environ.get("WORLD_SIZE", 1))


def stop() -> None:
    """Leave the group, if this process is in one."""
    if _together():
        dist.destroy_process_group()


def gather(x: Tensor) -> Tensor:
    """Rows (b, …) of every process by rank, with gradients: (b × processes, …).

    For a loss of the whole batch: if every process computes it from the gathered rows, the mean of
    the parameters' gradients, which `DistributedDataParallel` forms, is the gradient that a single
    process would find with all rows. All processes must have equally many.
    """
    here = world()
    if here.size == 1:
        return x
    parts = _all_gathered(x.detach())
    # The gradient is multiplied by the number of processes, as the mean divides by it.
    parts[here.rank] = x.detach() + (x - x.detach()) * here.size
    return torch.cat(parts)


def share(x: Tensor) -> Tensor:
    """A copy of rank 0's tensor, without gradient; elsewhere `x` has its shape, type and device."""
    x = x.detach().clone(memory_format=torch.contiguous_format)
    if _together():
        dist.broadcast(x, src=0)
    return x


def part(count: int) -> slice:
    """This process's share of `count` items; shares differ by at most one."""
    here = world()
    return slice(count * here.rank // here.size, count * (here.rank + 1) // here.size)


def collect(x: Tensor) -> Tensor:
    """Rows (b, …) of every process by rank, without gradients: (sum of all b, …).

    The inverse of `part`: unlike in `gather`, numbers of rows may differ.
    """
    if world().size == 1:
        return x.detach()
    counts = torch.cat(_all_gathered(torch.tensor([len(x)], device=x.device))).tolist()
    padded = x.new_zeros(max(counts), *x.shape[1:])
    padded[: len(x)] = x.detach()
    parts = zip(_all_gathered(padded), counts, strict=True)
    return torch.cat([rows[:count] for rows, count in parts])


def _together() -> bool:
    return dist.is_available() and dist.is_initialized()


def _all_gathered(x: Tensor) -> list[Tensor]:
    x = x.contiguous()
    parts = [torch.empty_like(x) for _ in range(world().size)]
    dist.all_gather(parts, x)
    return parts


def _own_gpu() -> torch.device:
    number, there = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if number >= there:
        raise SolarError(
            f"Process {number} of this machine needs a GPU of its own, but there are {there}: give"
            f" torchrun --nproc-per-node {there}."
        )
    return torch.device("cuda", number)
