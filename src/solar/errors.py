"""Errors that users can fix, and text that is safe to print."""

import errno
import re
from collections.abc import Collection
from importlib import import_module
from typing import Any

# Controls, line breaks, changes of direction and lone surrogates, which file names may hold.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class SolarError(ValueError):
    """An error that the user can fix; the command line prints it without a traceback."""


class PassingError(SolarError):
    """An error of the machine, not of a photo: the same call may succeed later."""


PASSING = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EAGAIN, errno.EBUSY, errno.ENODEV}
    | {getattr(errno, name, errno.EIO) for name in ("ESTALE", "ENOTCONN", "ETIMEDOUT", "ENOLINK")}
)
"""Numbers of system errors that are no fault of the file."""


def printable(text: object) -> str:
    r"""Text on one line that does nothing to a terminal; accents, CJK and emoji stay.

    Control characters become escapes (`\n`, `\x1b`), bytes of a name that is not UTF-8 as well
    (`\xff`).
    """
    return _UNPRINTABLE.sub(_escaped, str(text))


def optional(module: str, extra: str) -> Any:
    """Import a module that an extra of this package brings; a SolarError if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SolarError(
            f'{module} is not installed: pip install "solar-retrieval[{extra}]".'
        ) from error


def and_more(errors: Collection[object]) -> str:
    """The first of some errors in alphabetical order, and the number of others."""
    more = f" And {len(errors) - 1} more." if len(errors) > 1 else ""
    return f"{min(map(str, errors))}{more}"


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return found[0].encode("unicode_escape").decode("ascii")
