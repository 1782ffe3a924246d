"""Parts of a page that a command writes: between `<!-- NAME -->` and `<!-- /NAME -->`."""

from collections.abc import Sequence

KEPT = "\N{NO-BREAK SPACE}"
"""Between what stays in one line: a number and its unit."""


def table(lines: Sequence[Sequence[str]]) -> str:
    """Cells, the heads and the dashes below them included, as a table in Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def fill(page: str, mark: str, content: str) -> str:
    """The page with other content between the marks of a name.

    Raises:
        ValueError: The page has no such marks.
    """
    start, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    before, opened, rest = page.partition(start)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise ValueError(f"There is no place for {mark}.")
    return before + start + content + end + after
