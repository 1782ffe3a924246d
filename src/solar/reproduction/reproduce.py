"""`solar.reproduce`: a table or figure of the paper, with what has to be trained for it."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from solar.describe.progress import Progress
from solar.errors import SolarError
from solar.evaluation.settings import EvaluationSettings
from solar.evaluation.table_text import RENDERERS, Table
from solar.files import make_folder, replacing
from solar.reproduction import plan
from solar.reproduction.jobs import TARGETS, Found, Job, Wanted

_SUFFIXES = {"txt": "text", "md": "markdown", "tex": "latex"}


@dataclass(frozen=True)
class Reproduction:
    """A table or figure, or the plan for it: as JSON, as a table, and the files written."""

    data: Any
    table: Table
    files: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return RENDERERS["text"](self.table)


def reproduce(
    target: str,
    *,
    settings: EvaluationSettings | None = None,
    dry_run: bool = False,
    watch: Callable[[], AbstractContextManager[Progress | None]] = nullcontext,
    say: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> Reproduction:
    """Reproduce a table or figure of the paper, training what has to be trained.

    Published numbers stand beside the measured ones. The result is written to the folder `run` as
    text, Markdown, LaTeX and JSON, a figure also as .png. The same call goes on where an earlier
    one stopped.

    Example:
        >>> print(solar.reproduce("table2", root="data/"))

    Args:
        target: table1, table2, figure1, figure3 (attention maps), figure4 (rankings), figure5 (mAP
            against the GeM exponent p), figure6 (patches on HPatches), ubc (patches on PhotoTour)
            or speed.
        settings: How to evaluate; `root` is the folder of the datasets (default: data).
        dry_run: Return the plan: what is here, what is missing, how large it is, how long it takes.
        watch: Shows the progress of an evaluation.
        say: Called with the plan, and with what is being done.
        options: Fields of `Wanted` (rows, seeds, run, train, changes, …) and of
            `EvaluationSettings`.

    Raises:
        SolarError: A dataset is missing (the message says how to get it), or a row is unknown.
    """
    if target not in TARGETS:
        raise SolarError(f"There is no target {target!r}: choose from {', '.join(TARGETS)}.")
    own = {field.name for field in fields(Wanted)} & options.keys()
    wanted = Wanted(**{name: options.pop(name) for name in own})
    how = replace(settings or EvaluationSettings(), **options).without_features("A reproduction")
    cache = how.cache or Path(wanted.run, "embeddings")
    how = replace(how, root=how.root or "data", cache=cache)
    job = Job(target, wanted, how, Path(str(how.root)), watch, say)
    steps = job.steps()
    planned = Reproduction(plan.to_json(steps, how.device), plan.to_table(steps, how.device))
    if dry_run:
        return planned
    say(str(planned))
    missing = [s for s in steps if not s.done and s.source.startswith("solar data")]
    if missing:
        raise SolarError(
            f"{how.root} lacks {', '.join(step.step for step in missing)}: run "
            f"{', '.join(f'`{step.source}`' for step in missing)}, or choose other rows."
        )
    found = job.measure()
    files = _write(found, Path(wanted.run), target)
    return Reproduction(found.data, found.table, tuple(files))


def _write(found: Found, folder: Path, target: str) -> list[Path]:
    make_folder(folder)
    texts = {suffix: RENDERERS[style](found.table) for suffix, style in _SUFFIXES.items()}
    texts["json"] = json.dumps(found.data, indent=2, ensure_ascii=False)
    files = []
    for suffix, text in texts.items():
        files.append(folder / f"{target}.{suffix}")
        with replacing(files[-1]) as part:
            part.write_text(f"{text}\n", encoding="utf-8")
    if found.draw is not None:
        picture = found.draw()
        files.append(folder / f"{target}.png")
        with replacing(files[-1]) as part:
            save = getattr(picture, "savefig", None) or picture.save
            save(part, format="png")
    return files
