"""Each table and figure of the paper: what it needs, how it is measured and drawn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from solar.datasets.patches.hpatches import read_hpatches
from solar.datasets.public.revisited import find_ground_truth, read_ground_truth
from solar.describe.progress import Progress
from solar.errors import SolarError
from solar.evaluation.paper import rankings, speed, sweep, tables
from solar.evaluation.paper.tables import SCENES, TABLES, UBC, Results
from solar.evaluation.protocols.hpatches import TASKS, evaluate_hpatches
from solar.evaluation.protocols.patch_describers import patch_describer
from solar.evaluation.protocols.revisited import truth_photos
from solar.evaluation.settings import EvaluationSettings
from solar.evaluation.table_text import Table, number
from solar.models import load, retrieval_model, zoo
from solar.reproduction import plan
from solar.reproduction.plan import Step, Training

_PHOTOS = {"roxford5k": 4993 + 70, "rparis6k": 6322 + 70}
_FIGURE_MODELS = ("gem-r101-gl18", "solar-r101")
# What the text says on Fig. 6: by how much retrieval is better with one attention than another.
_GAINS = {("345", "none"): 1.75, ("34", "35"): 0.17, ("45", "46"): 0.45, ("35", "45"): 0.34}


class Found(NamedTuple):
    """A result as JSON and as a table, and what draws its picture."""

    data: Any
    table: Table
    draw: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Wanted:
    """What to reproduce, beside how to evaluate: the options of `solar reproduce`, which see."""

    rows: Sequence[str] = ()
    seeds: int | None = None
    run: str | Path = "runs/reproduce"
    train: bool = True
    changes: Sequence[str] = ()
    sets: Sequence[str] = ()
    queries: Sequence[str] = ()
    count: int = 3
    top: int = 7
    level: str | None = None
    exponents: Sequence[float] = sweep.EXPONENTS


@dataclass(frozen=True)
class Job:
    """A target, and everything that was asked for."""

    target: str
    wanted: Wanted
    settings: EvaluationSettings
    root: Path  # of the datasets
    watch: Callable[[], AbstractContextManager[Progress | None]]
    say: Callable[[str], None]

    def steps(self) -> list[Step]:
        """What it needs, in order."""
        return [*_NEEDS.get(self.target, _figure_needs)(self)]

    def measure(self) -> Found:
        """Train what has to be trained, and measure."""
        return _MEASURES[self.target](self)

    @property
    def sets(self) -> Sequence[str]:
        """What to measure on."""
        one = self.target in ("figure1", "figure3", "figure4")
        return self.wanted.sets or ([*_PHOTOS][:1] if one else [*_PHOTOS])

    @property
    def models(self) -> dict[str, str]:
        """The models of a figure, by name."""
        default = _FIGURE_MODELS[self.target in ("figure1", "figure3") :]
        return dict(map(_named, self.wanted.rows or default))

    def watched(self, work: Callable[..., Any], *arguments: Any, **how: Any) -> Any:
        """Work with its progress shown."""
        with self.watch() as progress:
            return work(*arguments, progress=progress, **how)

    def trained(self, one: Training) -> dict[str, Any]:
        """A trained network: what `solar.train` returns."""
        if not one.done:
            self.say(f"Training {one.folder.name} ({one.recipe})")
        return one(progress=self.watch is not nullcontext)

    def seeded(self, recipe: str, name: str, *changes: str, seeds: int = 1) -> list[Training]:
        """A training for every seed, each in its own folder."""
        return [
            Training(
                recipe,
                Path(self.wanted.run, f"{name}-{seed}"),
                (*changes, *self.wanted.changes, f"seed={seed}"),
            )
            for seed in range(self.wanted.seeds or seeds)
        ]


# Tables 1 and 2.


def _networks(job: Job) -> dict[str, list[str | Training]]:
    """Models and trainings of the rows, by the name of what is measured."""
    table, known = TABLES[job.target], {entry.name for entry in zoo.models()}
    usual = [m.name for m in table.methods if not m.note and not _is_local(m.model)]
    found: dict[str, list[str | Training]] = {}
    for asked in job.wanted.rows or usual:
        method, (name, model) = table.find(asked), _named(asked)
        if method is None:
            if name == asked and not Path(asked).exists() and asked not in known:
                rows = ", ".join(m.name for m in table.methods)
                raise SolarError(f"There is no row or model {asked!r}; rows are {rows}.")
            found[name] = [model]
            continue
        if method.model and asked != method.recipe:
            found[method.model] = [method.model]
        if method.recipe and asked != method.model and job.wanted.train:
            source = f"data.source={plan.listed(job.root / 'gl18' / 'db_gl18.pkl')}"
            found[method.recipe] = [*job.seeded(method.recipe, method.recipe, source)]
        if job.wanted.rows and not method.model and not method.recipe:
            raise SolarError(f"{asked} has no published weights: give `{asked}=MODEL`.")
    return found


def _table_needs(job: Job) -> Iterable[Step]:
    tables.check_sets(job.sets)  # before anything is trained
    networks = [one for many in _networks(job).values() for one in many]
    yield from _figure_needs(job, [one for one in networks if isinstance(one, str)])
    if trainings := [one for one in networks if isinstance(one, Training)]:
        starts = {name: 0 for one in trainings for name in one.starts if name not in networks}
        yield from (plan.model_step(name) for name in starts)
        yield plan.dataset_step("gl18", job.root)
        yield from (one.step() for one in trainings)


def _table(job: Job) -> Found:
    measured = {}
    for name, networks in _networks(job).items():
        each = []
        for one in networks:
            if isinstance(one, Training):
                plan.prepare_gl18(job.root)
                one = job.trained(one)["model"]
            how: dict[str, Any] = {"model": one}
            if _is_local(one):
                how = {"method": "asmk", "local_features": one, "published": False}
            how["settings"] = job.settings
            each.append(job.watched(tables.measure_sets, job.sets, **how))
        measured[name] = averaged(each)
    return _filled(TABLES[job.target], measured)


def _filled(table: tables.PaperTable, measured: Mapping[str, Results]) -> Found:
    lines = tables.fill(table, measured)
    return Found(tables.to_json(table, lines), tables.to_table(table, lines))


# Patches.


def _patch_trainings(job: Job) -> dict[str, dict[str, list[Training]]]:
    """Recipe to scene to the trainings of all seeds, validated on the other scenes as published."""
    rows, patches = job.wanted.rows, job.root / "phototour"
    known = [m for m in UBC.methods if m.recipe]
    for asked in rows:
        if not any(m.is_called(asked) for m in known):
            names = ", ".join(m.name for m in known)
            raise SolarError(f"There is no recipe for the row {asked!r}: choose from {names}.")
    recipes = [m.recipe for m in known if not rows or any(map(m.is_called, rows))]
    bars = job.target == "figure6"
    recipes += ["solar-local-456-liberty"] * (bars and not rows)
    source = plan.listed(patches)
    return {
        recipe: {
            scene: job.seeded(
                recipe,
                recipe.replace("liberty", scene),
                *(f"data.source={source}", f"data.parts=[{scene}]"),
                f"validation.source={source}",
                f"validation.parts=[{', '.join(s for s in SCENES if s != scene)}]",
                seeds=3,
            )
            for scene in (SCENES[:1] if bars else SCENES)
        }
        for recipe in recipes
    }


def _patch_needs(job: Job) -> Iterable[Step]:
    yield plan.dataset_step("phototour", job.root)
    if job.target == "figure6":
        yield plan.dataset_step("hpatches", job.root)
    for scenes in _patch_trainings(job).values():
        yield from (one.step() for trainings in scenes.values() for one in trainings)


def _ubc(job: Job) -> Found:
    measured = {}
    for recipe, scenes in _patch_trainings(job).items():
        seeds = []
        for trainings in zip(*scenes.values(), strict=True):
            cells: dict[str, Any] = {}
            for scene, one in zip(scenes, trainings, strict=True):
                found = job.trained(one)
                for test in (test for test in SCENES if test != scene):
                    cells.setdefault(test, {})[scene] = {"FPR95": found[f"FPR95_{test}"]}
            rates = [cell["FPR95"] for tests in cells.values() for cell in tests.values()]
            seeds.append({**cells, "": {"mean": {"FPR95": mean(rates)}}})
        measured[recipe] = averaged(seeds)
    return _filled(UBC, measured)


def _figure6(job: Job) -> Found:
    """Of each configuration, the network with the lowest FPR95 on HPatches."""
    lists = job.root / "hpatches-benchmark"
    how: dict[str, Any] = {"split": "a", "lists": lists} if lists.is_dir() else {}
    bars, note = {}, ""
    for recipe, scenes in _patch_trainings(job).items():
        (trainings,) = scenes.values()
        best = min((job.trained(one) for one in trainings), key=lambda result: result["FPR95"])

        def measured(model: str = best["model"]) -> dict[str, Any]:
            describe = patch_describer(model, device=job.settings.device)
            data = read_hpatches(job.root / "hpatches")
            found: dict[str, Any] = job.watched(evaluate_hpatches, data, describe, **how).to_dict()
            return found

        found = plan.kept(Path(best["run"]) / "hpatches.json", measured)
        bars[recipe.split("-")[2]] = {task: found[task]["mAP"] for task in TASKS}
        note = "; ".join(f"{task} {found[task].get('lists', '')}" for task in TASKS[1:])
    gains = [
        {
            **{"of": one, "over": other, "published": published},
            "measured": bars[one]["retrieval"] - bars[other]["retrieval"],
        }
        for (one, other), published in _GAINS.items()
        if {one, other} <= bars.keys()
    ]
    told = [
        f"{gain['of']} over {gain['over']} {gain['published']:+.2f}, here {gain['measured']:+.2f}"
        for gain in gains
    ]
    note = f"mAP on HPatches in percent, {note}. Retrieval, published: {'; '.join(told)}."
    rows = [[name, *(number(tasks[t], 2) for t in TASKS)] for name, tasks in bars.items()]
    table = Table([["SOA after"], *([task] for task in TASKS)], [rows], note)

    def draw() -> Any:
        from solar.show.curves import plot_bars

        return plot_bars(bars)

    return Found({"mAP": bars, "retrieval gains": gains}, table, draw)


# Figures of photos, and speed.


def _figure_needs(job: Job, models: Sequence[str] | None = None) -> Iterable[Step]:
    sets = job.sets if job.target != "speed" else ()
    yield from (plan.dataset_step(name, job.root) for name in sets if name in _PHOTOS)
    described = () if job.target in ("figure1", "figure3") else sets  # these show a few
    photos = sum(_PHOTOS.get(name, 0) for name in described)
    models = [*job.models.values()] if models is None else models
    yield from (plan.model_step(model, photos) for model in models)


def _attention(job: Job) -> Found:
    (name,), (model,) = job.sets, job.models.values()
    truth = read_ground_truth(find_ground_truth(name, job.root), name)
    _, queries, _ = truth_photos(name, truth, job.root)
    photos = {path.stem: path for path in map(Path, map(str, queries.places))}
    # Several queries in a row show one landmark. The paper does not say which photos it shows.
    count = 1 if job.target == "figure1" else job.wanted.count
    chosen = job.wanted.queries or [*photos][:: max(1, len(photos) // 14)][:count]
    if unknown := [query for query in chosen if query not in photos]:
        raise SolarError(f"There is no query {unknown[0]} in {name}.")
    shown = [str(photos[query]) for query in chosen]
    note = f"Attention of {model} at four locations of each photo, layer after layer."

    def draw() -> Any:
        from solar.show.attention_maps import draw_photos

        return draw_photos(load(model, device=job.settings.device), shown)

    table = Table([["photo"]], [[[photo] for photo in shown]], note)
    return Found({"model": model, "photos": shown}, table, draw)


def _rankings(job: Job) -> Found:
    if len(job.sets) > 1 or len(job.models) > 2:
        raise SolarError("figure4 shows the rankings of one model or two on one set.")
    how: dict[str, Any] = {name: getattr(job.wanted, name) for name in ("count", "top", "queries")}
    how |= {"protocol": job.wanted.level, "settings": job.settings}
    found = job.watched(rankings.rankings, job.sets[0], job.models, **how)

    def draw() -> Any:
        from solar.show.ranking_strips import draw_rankings

        return draw_rankings(found)

    return Found(rankings.to_json(found), rankings.to_table(found), draw)


def _sweeps(job: Job) -> Found:
    networks = {n: retrieval_model(m, device=job.settings.device) for n, m in job.models.items()}
    how: dict[str, Any] = {"settings": job.settings}
    found = {
        Path(what).name: [
            job.watched(sweep.sweep_p, what, net, job.wanted.exponents, name=name, **how)
            for name, net in networks.items()
        ]
        for what in job.sets
    }

    def draw() -> Any:
        from solar.show.curves import plot_sweep

        return plot_sweep(found)

    return Found(sweep.to_json(found), sweep.to_table(found), draw)


def _speed(job: Job) -> Found:
    how: dict[str, Any] = {n: getattr(job.settings, n) for n in ("device", "size", "scales")}
    costs = [speed.measure_speed(of, name=name, **how) for name, of in job.models.items()]
    return Found(speed.to_json(costs), speed.to_table(costs))


_NEEDS: Mapping[str, Callable[[Job], Iterable[Step]]] = {
    **{"table1": _table_needs, "table2": _table_needs},
    **{"figure6": _patch_needs, "ubc": _patch_needs},
}
_MEASURES: Mapping[str, Callable[[Job], Found]] = {
    **{"table1": _table, "table2": _table, "figure1": _attention, "figure3": _attention},
    **{"figure4": _rankings, "figure5": _sweeps, "figure6": _figure6, "ubc": _ubc},
    "speed": _speed,
}
TARGETS = tuple(_MEASURES)


def averaged(results: Sequence[Results]) -> Results:
    """The mean of several networks of a row, with the deviation beside every measure."""
    first = results[0]
    if len(results) == 1:
        return first
    found: dict[str, Any] = {}
    for name, levels in first.items():
        for level, measures in levels.items():
            cell = found.setdefault(name, {}).setdefault(level, {})
            for measure in measures:
                values = [one[name][level][measure] or 0.0 for one in results]
                cell[measure], cell[f"{measure} std"] = mean(values), stdev(values)
    return found


def _named(given: str) -> tuple[str, str]:
    """NAME=MODEL, or a model that is its own name."""
    name, equals, model = given.partition("=")
    path = Path(given)
    if equals and not path.exists():
        return name, model
    return (path.stem if path.suffix in (".pth", ".safetensors") else given), given


def _is_local(model: str) -> bool:
    known = {entry.name: entry.task for entry in zoo.models()}
    return model == "rootsift" or known.get(model) == "local"
