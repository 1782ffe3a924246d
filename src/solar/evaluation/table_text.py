"""Tables for people: as text, Markdown or LaTeX."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

FORMATS = ("text", "json", "markdown", "latex")

_ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
    | {"^": r"\textasciicircum{}", "–": "--", "±": r"$\pm$", "−": "$-$", "√": r"$\surd$"}
    | {"→": r"$\rightarrow$", "✓": r"\checkmark{}", "✗": r"$\times$"}
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Cells of text under headings."""

    # For each column its heading from the top level down; neighbours that agree down to a level
    # share one heading there. The first column is flush left, the others right.
    head: Sequence[Sequence[str]]
    groups: Sequence[Sequence[Sequence[str]]]  # of rows, with a line between groups
    note: str = ""  # a sentence below

    @property
    def levels(self) -> list[list[tuple[str, int]]]:
        """The headings, level by level: the text of each, and how many columns it is over."""
        depth = max(len(parts) for parts in self.head)
        # A column with fewer levels has its heading at the bottom.
        columns = [("",) * (depth - len(parts)) + tuple(parts) for parts in self.head]
        return [
            [(above[-1], len(list(run))) for above, run in groupby(c[: level + 1] for c in columns)]
            for level in range(depth)
        ]

    @property
    def rows(self) -> list[Sequence[str]]:
        """The rows of all groups."""
        return [row for group in self.groups for row in group]


def number(value: float | None, digits: int = 1) -> str:
    """A number as a cell; empty for None."""
    return "" if value is None else f"{value:.{digits}f}"


def to_text(table: Table) -> str:
    """For a terminal: aligned columns, a heading of several columns above the first of them."""
    levels = [
        [cell for text, span in level for cell in (text, *[""] * (span - 1))]
        for level in table.levels
    ]
    lines = [*levels, *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.head))]
    rule = "─" * (sum(widths) + 2 * len(widths) - 2)
    parts = [_line(level, widths) for level in levels]
    for group in table.groups:
        parts += [rule, *(_line(row, widths) for row in group)]
    return "\n".join([*parts, *([table.note] if table.note else [])])


def to_markdown(table: Table) -> str:
    """A GitHub table; headings of several levels become one."""
    head = [" ".join(part for part in levels if part) for levels in table.head]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *table.rows]
    shown = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([*shown, *(["", table.note] if table.note else [])])


def to_latex(table: Table) -> str:
    r"""A `tabular` with the lines of booktabs: put `\usepackage{booktabs}` into the preamble."""
    lines = [r"\begin{tabular}{l" + "r" * (len(table.head) - 1) + "}", r"\toprule"]
    for level in table.levels:
        cells = [
            name if span == 1 else rf"\multicolumn{{{span}}}{{c}}{{{name}}}"
            for name, span in ((text.translate(_ESCAPES), span) for text, span in level)
        ]
        lines.append(" & ".join(cells) + r" \\")
    for group in table.groups:
        lines.append(r"\midrule")
        lines += [" & ".join(c.translate(_ESCAPES) for c in row) + r" \\" for row in group]
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*lines, *([f"% {table.note}"] if table.note else [])])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    shown = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return "  ".join(shown).rstrip()


RENDERERS = {"text": to_text, "markdown": to_markdown, "latex": to_latex}
