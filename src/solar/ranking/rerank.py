"""The table of re-ranking methods.

A new method is a module with a function from `SearchResults` to `SearchResults`, and an entry here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from solar.errors import SolarError

if TYPE_CHECKING:
    from solar.ranking.results import SearchResults


@dataclass(frozen=True)
class Reranker:
    """A re-ranking method."""

    label: str
    summary: str  # one sentence
    needs: Literal["vectors", "photos"]  # an ASMK index has no vectors
    module: str  # imported when it is first used
    function: str = "rerank"
    stage: str = ""  # the web app's name for this step, if not that of the method

    def rerank(self, results: SearchResults) -> SearchResults:
        """Rank results again."""
        ranked: SearchResults = getattr(import_module(self.module), self.function)(results)
        return ranked


METHODS: dict[str, Reranker] = {
    "average": Reranker(
        "Average query expansion",
        "Search again with the mean of the query and its 9 best results.",
        "vectors",
        "solar.ranking.expand",
        "average",
        "expand",
    ),
    "alpha": Reranker(
        "Weighted query expansion",
        "Search again with the query and its 50 best results, weighted by their similarity cubed.",
        "vectors",
        "solar.ranking.expand",
        "alpha",
        "expand",
    ),
    "dba": Reranker(
        "Database-side augmentation",
        "Average each of the best 400 with its 20 nearest neighbours among them; rank again.",
        "vectors",
        "solar.ranking.expand",
        "dba",
    ),
    "diffusion": Reranker(
        "Diffusion",
        "Spread similarity among the best 1,000 along a graph of mutual neighbours.",
        "vectors",
        "solar.ranking.diffuse",
    ),
    "superglobal": Reranker(
        "SuperGlobal",
        "Refine each of the best 400 with its neighbours; form a second query from the best.",
        "vectors",
        "solar.ranking.superglobal",
    ),
    "verify": Reranker(
        "Geometric verification",
        "Match keypoints of the best 50 photos with the query, and re-rank them.",
        "photos",
        "solar.ranking.verify",
    ),
}

AUTO = "auto"
"""Instead of names: the methods of `PhotoIndex.default_rerank`."""


def chosen(rerank: str | Iterable[str] | None) -> list[str]:
    """The names of methods in their order, each once, from a list or a text with commas."""
    given = rerank.split(",") if isinstance(rerank, str) else rerank or ()
    names = list(dict.fromkeys(name.strip() for name in given))
    for name in names:
        if name not in METHODS:
            raise SolarError(
                f"There is no re-ranking method {name!r}: choose from {', '.join(METHODS)}."
            )
    return names


def check_needs(names: Iterable[str], *, vectors: bool) -> None:
    """Raise a SolarError if a method needs embeddings and there are none."""
    for name in names:
        if METHODS[name].needs == "vectors" and not vectors:
            raise SolarError(
                f"Re-ranking methods such as {name} need embeddings, and this index "
                "holds local features (ASMK): search without them, or build an index "
                "with --model."
            )
