"""What must not stand in a text that is pasted in public: who and where somebody is."""

import getpass
import os
import platform
import re
from pathlib import Path


def shareable(text: str) -> str:
    """A text without the home folder, the user's name in other paths, and the machine's name."""
    for home in _homes():
        text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
    for user in _users():
        text = re.sub(rf"(?<=[/\\]){re.escape(user)}(?![\w.-])", "USER", text)
    host = platform.node()
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "HOST", text) if host else text


def _homes() -> list[str]:
    """The home folder as it is written and as it is, the longer one first."""
    try:
        home = Path.home()
    except RuntimeError:  # nobody's home
        return []
    written = {str(home), os.path.realpath(home)}
    return sorted((one for one in written if len(Path(one).parts) > 1), key=len, reverse=True)


def _users() -> set[str]:
    try:
        return {getpass.getuser()} - {""}
    except (ImportError, KeyError, OSError):  # a container's user may have no name
        return set()
