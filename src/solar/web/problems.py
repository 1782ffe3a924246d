"""Errors as visitors see them: a status and one sentence."""

HIDDEN = "Something went wrong on the server; see its log."
"""The sentence for a bug."""


class WebError(Exception):
    """A refusal: a status, and one sentence that says what was wrong and what to do."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, headers or {}


class BusyError(WebError):
    """The queue is full: a 503 with the seconds to wait."""

    def __init__(self, seconds: float) -> None:
        wait = min(max(round(seconds + 0.5), 1), 60)
        super().__init__(
            503,
            f"Too many searches are waiting: try again in {wait} s.",
            {"Retry-After": str(wait)},
        )
