"""Printing of results and messages, and writing of pictures and reports."""

import json
import shlex
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from solar.cli.help import with_options
from solar.errors import SolarError, printable
from solar.evaluation.table_text import RENDERERS, Table
from solar.files import replacing

if TYPE_CHECKING:
    from PIL.Image import Image


# Without a terminal, a table must not be cut at 80 columns.
_PIPE_WIDTH = 160

_SHOWN = 10  # lines about skipped photos

IMAGES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
"""Formats of pictures by suffix."""


def output() -> Console:
    """Standard output, for results."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(width=width, highlight=False, emoji=False)


def errors() -> Console:
    """Standard error, for progress and messages."""
    return Console(stderr=True, highlight=False, emoji=False)


def say(text: str, style: str | None = None) -> None:
    """Print one line, in which brackets are not markup, on standard error."""
    errors().print(printable(with_options(text)), style=style, markup=False, soft_wrap=True)


def show(text: str) -> None:
    """Print one line of a result on standard output."""
    output().print(printable(text), markup=False, soft_wrap=True)


def counted(count: int, noun: str) -> str:
    """1 photo, 1,200 photos."""
    return f"{count:,} {noun}{'s'[: count != 1]}"


def print_table(
    rows: Sequence[Sequence[Any]], headings: Sequence[str] = (), *, right: Collection[str] = ()
) -> None:
    """Print rows in aligned columns; those with the headings in `right` are right-aligned."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=any(headings), header_style="bold", pad_edge=False)
    for heading in headings:
        number = heading in right
        table.add_column(heading, justify="right" if number else "left", no_wrap=number)
    for row in rows:
        table.add_row(*(c if isinstance(c, Text) else Text(printable(c)) for c in row))
    output().print(table)


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    sys.stdout.write(json_text(value, sys.stdout.encoding))


def json_text(value: Any, encoding: str = "utf-8") -> str:
    """A value as indented JSON, ASCII if the encoding lacks a character, as for names."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(value, indent=2) + "\n"
    return text


def print_report(style: str, data: Any, table: Table) -> None:
    """Print a result as text, JSON, Markdown or LaTeX."""
    if style == "json":
        print_json(data)
    else:
        sys.stdout.write(RENDERERS[style](table) + "\n")


@contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Print warnings at the end of the block, without their place in the code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(warning.message) for warning in caught):
                say(text, "yellow")


def check_suffix(path: Path | None, known: Collection[str] = IMAGES) -> None:
    """Raise a SolarError if a file to be written has none of these suffixes."""
    if path is not None and path.suffix.lower() not in known:
        raise SolarError(f"The output {path} must end in {', '.join(known)}.")


def save_image(image: "Image", path: Path) -> None:
    """Write a picture atomically, and print its size."""
    with replacing(path) as part:
        image.save(part, IMAGES[path.suffix.lower()])
    say(f"{image.width} × {image.height} → {path}")


def print_summary(
    verb: str,
    done: int,
    skipped: Mapping[str, str],
    where: str = "",
    report: str = "--report FILE",
) -> None:
    """Print "Indexed 326 photos, skipped 12 → photos.solar", and the skipped with their reasons."""
    also = f", skipped {len(skipped):,}" if skipped else ""
    say(f"{verb} {counted(done, 'photo')}{also}{where and ' → '}{where}")
    print_skipped(skipped, report)


def print_skipped(skipped: Mapping[str, str], report: str = "--report FILE") -> None:
    """Print a line for each reason for which photos were skipped; see `print_summary`."""
    groups: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        groups.setdefault(_without_path(name, reason), []).append(name)
    for reason, names in list(groups.items())[:_SHOWN]:
        say(f"  {names[0] if len(names) == 1 else counted(len(names), 'file')}: {reason}", "yellow")
    rest = sum(len(names) for names in list(groups.values())[_SHOWN:])
    if rest:
        say(f"  … and {rest:,} more: {report} lists them all.", "yellow")


def write_report(
    path: Path | None, done: int, skipped: Mapping[str, str], verb: str = "indexed", **more: Any
) -> None:
    """Write the file of `--report`: `{"indexed": 3, "skipped": [{"path": …, "reason": …}], …}`."""
    if path is None:
        return
    left_out = [{"path": name, "reason": _without_path(name, why)} for name, why in skipped.items()]
    with replacing(path) as part:
        text = json_text({verb: done, "skipped": left_out, **more})
        part.write_text(text, encoding="utf-8")


def _without_path(name: str, reason: str) -> str:
    """Turn "photos/rome/1.jpg is empty" into "it is empty", which other photos share."""
    folder, found, rest = reason.partition(f"{name.rpartition('/')[2]} ")
    return f"it {rest}" if found and (not folder or folder.endswith("/")) else reason


def default_place(source: str, kind: str) -> Path:
    """The default file of a report: beside an index, where `solar serve` finds it."""
    from solar.index.index import is_folder, report_place
    from solar.storage.catalogue import is_index

    index = is_folder(source) and is_index(Path(source))
    return report_place(source, kind) if index else Path(f"{kind}.json")


def how_to_look(source: str, kind: str, file: Path) -> str | None:
    """A sentence with the command that shows a report in the web app; None without an index."""
    from solar.index.index import is_folder, report_place
    from solar.storage.catalogue import is_index

    if is_folder(source) and not is_index(Path(source)):
        return None
    command = f"solar serve {shlex.quote(source)}"
    if not is_folder(source) or file.absolute() != report_place(source, kind):
        command += f" --{kind} {shlex.quote(str(file))}"
    return f"`{command}` shows them in the browser."
