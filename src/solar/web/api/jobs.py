"""Jobs that change the index, one after the other, in a thread of their own."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from solar.describe.progress import Progress
from solar.errors import SolarError
from solar.web.api.schemas import Job
from solar.web.cache import Cache
from solar.web.problems import HIDDEN

_KEPT = 200  # the latest, whose progress visitors can see

log = logging.getLogger("solar.web")


class StoppedError(SolarError):
    """The server is being stopped."""


class Jobs:
    """All jobs of an index; `told` makes a sentence for visitors of an error."""

    def __init__(self, told: Callable[[Exception], str]) -> None:
        self._told = told
        self._kept: Cache[str, Job] = Cache(_KEPT, lambda _: 1)
        self._thread = ThreadPoolExecutor(1, "job")
        self._closed = False
        self.waiting = 0
        """Jobs that wait or run."""

    def get(self, identity: str) -> Job | None:
        """A job by its id."""
        return self._kept.get(identity)

    def start(self, work: Callable[[Job, Progress], None], total: int = 0) -> str:
        """Have work done, with a callback that raises once the server stops; the job's id."""
        identity = secrets.token_urlsafe(9)
        job = Job(state="running", done=0, total=total, added=[], failed=[])
        self._kept.put(identity, job)
        self.waiting += 1
        self._thread.submit(self._run, job, work)
        return identity

    async def close(self) -> None:
        """Break the jobs off and wait for their ends."""
        self._closed = True
        await asyncio.to_thread(self._thread.shutdown)

    def _run(self, job: Job, work: Callable[[Job, Progress], None]) -> None:
        def progress(_: str, done: int, total: int) -> None:
            if self._closed:
                raise StoppedError("The server was stopped: do it again.")
            job.done, job.total = done, total

        try:
            work(job, progress)
        except SolarError as error:
            job.error = self._told(error)
        except Exception as error:
            log.error("a job failed", exc_info=error)
            job.error = HIDDEN
        finally:
            self.waiting -= 1
            job.state = "done"
