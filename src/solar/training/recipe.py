"""Recipes: settings in YAML, checked against dataclasses, with `key=value` on top."""

import dataclasses
import difflib
import types
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from solar.errors import SolarError, optional
from solar.files import replacing

R = TypeVar("R")


def read_recipe(cls: type[R], path: str | Path, overrides: Sequence[str] = ()) -> R:
    """Read a recipe into a dataclass, by `read_settings` and `build`."""
    return build(cls, read_settings(path, overrides), str(path))


def read_settings(
    path: str | Path, overrides: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Read a recipe as nested dicts, a SolarError if it or an override is malformed.

    Args:
        path: A YAML file, or the name of a bundled recipe, such as `few-places`. Its
            `extends: other.yaml` names a recipe in the same folder to start from.
        overrides: `loss.margin=0.9` and the like, with YAML values.
        options: Values by dotted names, which take precedence; None: not given.
    """
    settings = _read_chain(_found(Path(path)), ())
    for override in overrides:
        key, sign, value = override.partition("=")
        if not sign or not key.strip():
            raise SolarError(f"{override!r} is no override: write key=value, as in loss.margin=1.")
        given = _parse(value, override) if value.strip() else ""  # not null, as in YAML
        settings = _merged(settings, _nested(key.strip(), given))
    for key, value in (options or {}).items():
        if value is not None:
            settings = _merged(settings, _nested(key, value))
    return settings


def build(cls: type[R], settings: Mapping[str, Any], where: str) -> R:
    """Build a recipe from nested dicts; a SolarError if a key or value is wrong or missing.

    Args:
        cls: A dataclass of plain values, tuples, dicts or further dataclasses. It needs no `task`
            field. A string is accepted for a list of strings.
        settings: From `read_settings`.
        where: Name of the settings in errors.
    """
    given, known = dict(settings), _allowed(cls)
    if "task" not in known:
        given.pop("task", None)
    try:
        built: R = _value(cls, given, "")
    except _UnknownSettingError as error:
        key = str(error)
        raise SolarError(f"{where}: there is no setting {key!r}{_nearest(key, known)}.") from None
    except SolarError as error:
        raise SolarError(f"{where}: {error}") from error
    return built


def check_range(name: str, value: float | None, low: float, high: float = inf) -> None:
    """Refuse a setting below `low` or above `high`; None is always allowed."""
    if value is not None and not low <= value <= high:
        bounds = f"{low} or more" if high == inf else f"from {low} to {high}"
        raise SolarError(f"{name} must be {bounds}, not {value}.")


def write_recipe(recipe: Any, path: str | Path) -> None:
    """Write every setting of a recipe as YAML, atomically."""
    yaml = optional("yaml", "train")
    text = yaml.safe_dump(dataclasses.asdict(recipe), sort_keys=False, allow_unicode=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def differences(one: Any, other: Any) -> list[str]:
    """Dotted names of settings that differ between two recipes."""
    left, right = (dict(_leaves(dataclasses.asdict(recipe))) for recipe in (one, other))
    return sorted(key for key in {*left, *right} if left.get(key) != right.get(key))


# Files.


def bundled_recipes() -> dict[str, Path]:
    """The recipes that come with solar, by name."""
    package = Path(__file__).parents[1]
    folders = [package / "recipes", package.parents[1] / "recipes"]  # in a wheel; beside src/
    found = {file.stem: file for folder in folders for file in folder.glob("*.yaml")}
    return dict(sorted(found.items()))


def _found(path: Path) -> Path:
    """The file, or the bundled recipe of that name, with or without `recipes/` and suffix."""
    if path.exists() and not path.is_dir():
        return path
    bundled = bundled_recipes()
    name = path.name.removesuffix(".yaml").removesuffix(".yml")
    if path.parent in (Path("recipes"), Path()) and name in bundled:
        return bundled[name]
    if path.is_dir():
        raise SolarError(f"{path} is a folder: name a recipe, a YAML file.")
    near = difflib.get_close_matches(name, bundled, n=3, cutoff=0.6)
    names = f"nearest: {', '.join(near)}" if near else "such as few-places"
    raise SolarError(f"There is no recipe {path}: give a YAML file, or a bundled recipe ({names}).")


def _read_chain(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in seen:
        raise SolarError(f"{path} extends itself.")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SolarError(f"{path} cannot be read as a recipe ({error}).") from error
    settings = _parse(text, str(path))
    if settings is None:
        settings = {}
    if not isinstance(settings, dict):
        raise SolarError(f"{path} must hold key: value lines, not a {type(settings).__name__}.")
    base = settings.pop("extends", None)
    if base is None:
        return settings
    return _merged(_read_chain(path.parent / str(base), (*seen, path.resolve())), settings)


def _parse(text: str, where: str) -> Any:
    yaml = optional("yaml", "train")
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a 13th month, endless nesting
        reason = " ".join(str(error).split())
        raise SolarError(f"{where} is not YAML ({reason}).") from error


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested dicts; `above` takes precedence."""
    out = dict(below)
    for key, value in above.items():
        old = out.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        out[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return out


def _nested(key: str, value: Any) -> dict[str, Any]:
    for name in reversed(key.split(".")):
        value = {name: value}
    return dict(value)


# Checking.


class _UnknownSettingError(Exception):
    """Its dotted name."""


def _section(kind: Any) -> Any:
    """The dataclass in an annotation, optional or not, or None."""
    for candidate in (kind, *get_args(kind)):
        if isinstance(candidate, type) and dataclasses.is_dataclass(candidate):
            return candidate
    return None


def _allowed(cls: Any, prefix: str = "") -> list[str]:
    names = []
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        names.append(prefix + field.name)
        if (section := _section(hints[field.name])) is not None:
            names += _allowed(section, f"{prefix}{field.name}.")
    return names


def _nearest(key: str, allowed: Sequence[str]) -> str:
    last = key.rpartition(".")[2]
    ends = {name.rpartition(".")[2]: name for name in reversed(allowed)}
    close_end = [ends[end] for end in difflib.get_close_matches(last, ends, n=1)]
    close = close_end if last in ends else difflib.get_close_matches(key, allowed, n=1)
    found = close or close_end
    return f"; the nearest is {found[0]!r}" if found else ""


def _value(kind: Any, value: Any, key: str) -> Any:
    """The value converted to the annotated kind; a SolarError if it does not fit."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(inner, value, key)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, key)
    if origin is Literal:
        if value in inner and type(value) in {type(choice) for choice in inner}:
            return value
        raise _wrong(key, value, "one of " + ", ".join(str(choice) for choice in inner))
    if origin is tuple:
        return _tuple(inner, value, key)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise _wrong(key, value, "key: value pairs")
        return {_value(inner[0], k, key): _value(inner[1], v, key) for k, v in value.items()}
    return _scalar(kind, value, key)


def _dataclass(kind: Any, value: Any, key: str) -> Any:
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise _wrong(key, value, "key: value pairs")
    hints = get_type_hints(kind)
    prefix = f"{key}." if key else ""
    if unknown := [name for name in value if name not in hints]:
        raise _UnknownSettingError(f"{prefix}{unknown[0]}")
    defaults = {}
    for field in dataclasses.fields(kind):
        defaults[field.name] = field.default_factory
        needed = field.default is field.default_factory is dataclasses.MISSING
        if needed and field.name not in value:
            raise SolarError(f"the setting {prefix}{field.name} is missing.")
    settings = {
        name: _value(hints[name], _over(defaults[name], item), f"{prefix}{name}")
        for name, item in value.items()
    }
    return kind(**settings)


def _tuple(kinds: Sequence[Any], value: Any, key: str) -> tuple[Any, ...]:
    if kinds == (str, ...) and isinstance(value, str):
        value = [value]  # data.source=photos
    if value is None:
        value = []
    if not isinstance(value, list | tuple):
        raise _wrong(key, value, "a list")
    if kinds[-1] is Ellipsis:
        kinds = [kinds[0]] * len(value)
    if len(value) != len(kinds):
        raise _wrong(key, value, f"a list of {len(kinds)}")
    return tuple(_value(kind, item, key) for kind, item in zip(kinds, value, strict=True))


def _over(make_default: Any, value: Any) -> Any:
    """A section's settings over the field's default, which may differ from its dataclass's."""
    default = None if make_default is dataclasses.MISSING else make_default()
    if not dataclasses.is_dataclass(default) or not (value is None or isinstance(value, Mapping)):
        return value
    return _merged(dataclasses.asdict(default), value or {})  # type: ignore[arg-type]


def _one_of(kinds: Sequence[Any], value: Any, key: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    wrong = []
    for kind in kinds:
        if kind is type(None):
            continue
        try:
            return _value(kind, value, key)
        except SolarError as error:
            wrong.append(error)
    raise wrong[0]


def _scalar(kind: Any, value: Any, key: str) -> Any:
    if kind is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML 1.1 takes 1e-6 for a string
        except ValueError:
            raise _wrong(key, value, "a number") from None
    if kind is int and isinstance(value, str) and value.lstrip("-").isdecimal():
        return int(value)  # keys of a dict from JSON
    if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)  # attention: 45 means the layers "45"
    truth = kind is int and isinstance(value, bool)  # a bool is an int
    if isinstance(kind, type) and isinstance(value, kind) and not truth:
        return value
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise _wrong(key, value, names.get(kind, getattr(kind, "__name__", str(kind))))


def _wrong(key: str, value: Any, expected: str) -> SolarError:
    return SolarError(f"{key} must be {expected}, not {value!r}.")


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
