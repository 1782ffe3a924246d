"""Which parts of a network learn, and at which rate."""

from typing import Any

from torch import nn

from solar.errors import SolarError
from solar.models import RetrievalNet
from solar.training.retrieval.recipe import RetrievalOptimiser


def parameter_groups(net: RetrievalNet, settings: RetrievalOptimiser) -> list[dict[str, Any]]:
    """Freeze what does not learn; returns named groups of the rest for a torch optimiser.

    The published groups are soa4, soa5, pool (a hundred times the rate, no decay) and whiten. A
    SolarError if `backbone` names an unknown stage, or nothing learns.
    """
    net.requires_grad_(False)
    net.freeze_batch_norm = settings.batch_norm == "frozen"  # from the next `net.train()` on
    layers = net.backbone.layers()
    plain = [name for name in layers if not name.startswith("soa")]
    factors = dict(settings.backbone)
    if "all" in factors:
        factors = {**dict.fromkeys(plain, factors.pop("all")), **factors}
    if unknown := [name for name in factors if name not in plain]:
        there = ", ".join(plain)
        raise SolarError(f"optimiser.backbone: there is no {unknown[0]!r}; choose all, {there}.")
    for later, name in enumerate(reversed(plain)):
        factors[name] = factors.get(name, 0.0) * settings.layer_decay**later
    wanted = [
        (name, parameters, factors.get(name, settings.attention))
        for name, parameters in layers.items()
    ]
    for name, part, factor in (
        ("local_whiten", net.local_whiten, settings.whitening),
        ("pool", net.pool, settings.pooling),
        ("whiten", net.whiten, settings.whitening),
    ):
        wanted.append((name, [] if part is None else list(part.parameters()), factor))
    groups = []
    for name, parameters, factor in wanted:
        if parameters and factor:
            for parameter in parameters:
                parameter.requires_grad_(True)
            group = {"name": name, "params": parameters, "lr": settings.lr * factor}
            groups.append({**group, "weight_decay": settings.weight_decay * (name != "pool")})
    if not groups:
        raise SolarError("Nothing is trained: no part of the network has a factor above zero.")
    return groups


def learns(module: nn.Module) -> bool:
    """Whether any parameter of a module has a gradient."""
    return any(parameter.requires_grad for parameter in module.parameters())


def frozen_stages(net: RetrievalNet) -> list[str]:
    """Frozen stages of the backbone, without attention."""
    stages = net.backbone.stages()
    return [name for name, part in stages if not name.startswith("soa") and not learns(part)]
