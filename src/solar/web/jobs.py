"""What is done for visitors behind their backs, by an id that they can ask for."""

import re
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from solar.web.problems import WebError
from solar.web.schemas import Job

_KEPT = 200
_ABSOLUTE = re.compile(r"(?<![^\s'\"(`])/(?:[^\s/'\"`]+/)+(?=[^\s/])")


class Jobs:
    """The latest jobs, running and done."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def add(self, job: Job, identity: str | None = None) -> str:
        """Keep a job, and give the id that it is known by: a new one if it has none."""
        identity = identity or new_identity()
        self._jobs[identity] = job
        while len(self._jobs) > _KEPT:
            self._jobs.popitem(last=False)
        return identity

    def get(self, identity: str) -> Job:
        """How far a job is; a WebError where there is none, or it was long ago."""
        if identity not in self._jobs:
            raise WebError(404, "There is no such job.")
        return self._jobs[identity]


def new_identity() -> str:
    """An id that nobody can guess, and that may be part of a file's name."""
    return secrets.token_urlsafe(9)


def without_places(sentence: str, places: Iterable[str]) -> str:
    """A sentence for visitors, who need not know where things are on this machine.

    Args:
        sentence: It may name folders by their whole paths.
        places: Those that are known; the last parts of their paths stay.
    """
    for place in sorted(places, key=len, reverse=True):
        sentence = sentence.replace(place, Path(place).name) if Path(place).name else sentence
    return _ABSOLUTE.sub("", sentence)
