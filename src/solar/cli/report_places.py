"""Where `solar groups` and `solar duplicates` write their reports, and how to look at them."""

import shlex
from pathlib import Path

from solar.search.index import is_folder, report_place
from solar.search.metadata import is_index


def default_place(source: str, kind: str) -> Path:
    """Where a report is written if nobody says: beside an index, whose server looks there."""
    index = is_folder(source) and is_index(Path(source))
    return report_place(source, kind) if index else Path(f"{kind}.json")


def how_to_look(source: str, kind: str, output: Path) -> str | None:
    """A sentence with the command that shows a report in the web app; None without an index."""
    if is_folder(source) and not is_index(Path(source)):
        return None
    command = f"solar serve {shlex.quote(source)}"
    if not is_folder(source) or output.absolute() != report_place(source, kind):
        command += f" --{kind} {shlex.quote(str(output))}"
    return f"`{command}` shows them in the browser."
