"""Errors as visitors see them: a status and one sentence."""

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

HIDDEN = "Something went wrong on the server; see its log."
"""The sentence for a bug."""


class WebError(HTTPException):
    """A refusal: a status, and one sentence that says what was wrong and what to do.

    `wait` seconds, after which the same request may succeed, are added to the sentence.
    """

    def __init__(
        self, status: int, sentence: str, *, wait: int = 0, headers: Mapping[str, str] | None = None
    ) -> None:
        if wait:
            sentence, headers = f"{sentence}: try again in {wait} s.", {"Retry-After": str(wait)}
        super().__init__(status, sentence, headers)

    def __str__(self) -> str:
        return self.detail


def refusal(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer to a request that failed."""
    return JSONResponse({"error": sentence}, status, headers)
