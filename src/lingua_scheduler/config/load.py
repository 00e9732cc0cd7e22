"""From a file, the environment and flags to `Settings`, with the origin of every value.

Every layer becomes a flat map from a key like `nodes.stale_ms` to its value and origin, so that a mistake can
be reported by the name that its author wrote. The layers are then laid over each other and validated once.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from lingua_scheduler.config.old_keys import OLD_KEYS
from lingua_scheduler.config.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

PREFIX: Final = "LINGUA_"
#: Names the file when no flag does. One word, so it cannot be mistaken for a key of the tree.
FILE_VARIABLE: Final = "LINGUA_CONFIG"


class ConfigError(ValueError):
    """The settings cannot be used; the message is one line that says which and why."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, where each value came from, and a line for each old key that was read."""

    settings: Settings
    origins: dict[str, str]
    deprecations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Given:
    value: object
    origin: str


def _leaves() -> dict[str, FieldInfo]:
    sections = {name: type(getattr(Settings(), name)) for name in Settings.model_fields}
    return {f"{name}.{key}": field for name, section in sections.items() for key, field in section.model_fields.items()}


#: Every setting by its key.
LEAVES: Final = _leaves()


def shown(settings: Settings) -> dict[str, Any]:
    """Every value by its key, as it may be shown: what is secret is only said to be set."""
    return {
        key: "(set; not shown)" if value and not LEAVES[key].repr else value
        for name, section in settings
        for key, value in ((f"{name}.{key}", value) for key, value in section)
    }


def env_name(key: str) -> str:
    """`nodes.stale_ms` is `LINGUA_NODES__STALE_MS`."""
    return PREFIX + key.replace(".", "__").upper()


def load(
    path: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Settings from a TOML file (or the one that `LINGUA_CONFIG` names), the environment and flags."""
    env = os.environ if env is None else env
    path = path or env.get(FILE_VARIABLE) or None
    file, deprecations = _from_file(Path(path)) if path else ({}, [])
    given = file | _from_env(env) | _from_flags(flags or {})
    tree: dict[str, dict[str, object]] = {}
    for key, one in given.items():
        section, name = key.split(".")
        tree.setdefault(section, {})[name] = one.value
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        message = "; ".join(_explain(detail, given) for detail in error.errors(include_url=False, include_input=False))
        # The original would show the values, and one of them may be a password.
        raise ConfigError(message) from None
    origins = {key: given[key].origin if key in given else "default" for key in LEAVES}
    return Loaded(settings, origins, tuple(deprecations))


def _from_file(path: Path) -> tuple[dict[str, _Given], list[str]]:
    try:
        values = dict(_flat(tomllib.loads(path.read_text(encoding="utf-8"))))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {' '.join(str(error).split())}") from None
    given: dict[str, _Given] = {}
    written_as: dict[str, str] = {}
    deprecations: list[str] = []
    for written, raw in values.items():
        key, value, origin = written, raw, f"file {path}"
        if old := OLD_KEYS.get(written):
            deprecations.append(f"{path}: {written} is an old key, {old.fate}")
            if not old.now:
                continue
            key, origin = old.now, f"file {path} ({written})"
            try:
                value = old.convert(raw)
            except ValueError as error:
                raise ConfigError(f"{written} {error} ({path})") from None
        elif written not in LEAVES:
            raise ConfigError(_unknown(written, f"in {path}"))
        first = written_as.setdefault(key, written)
        if given.setdefault(key, _Given(value, origin)).value != value:
            raise ConfigError(f"{first} and {written} in {path} mean the same and differ")
    return given, deprecations


def _from_env(env: Mapping[str, str]) -> dict[str, _Given]:
    known = {env_name(key): key for key in LEAVES}
    almost = {name.replace("__", "_"): name for name in known}
    given: dict[str, _Given] = {}
    for name, text in env.items():
        if key := known.get(name):
            given[key] = _Given(_typed(key, text), f"env {name}")
        elif name.startswith(PREFIX) and "__" in name:
            nearest = _nearest(name.removeprefix(PREFIX).lower().replace("__", "."))
            raise ConfigError(f"unknown variable {name}" + (f"; did you mean {env_name(nearest)}?" if nearest else ""))
        elif name in almost and not (name.endswith("_PORT") and "://" in text):
            # Other names without `__` are not ours: Kubernetes sets LINGUA_PORT for every service named lingua, and
            # LINGUA_SERVER_PORT, to a URL, for one named lingua-server.
            raise ConfigError(f"unknown variable {name}; did you mean {almost[name]}?")
    return given


def _from_flags(flags: Mapping[str, object]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    for key, value in _flat(flags):
        if value is None:  # a flag that was not given
            continue
        if key not in LEAVES:
            raise ConfigError(_unknown(key, "in the flags"))
        given[key] = _Given(_typed(key, value) if isinstance(value, str) else value, "flag")
    return given


def _flat(values: Mapping[str, object], under: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        key = f"{under}{name}"
        if not isinstance(value, Mapping):
            yield key, value
        elif value or not any(known.startswith(f"{key}.") for known in (*LEAVES, *OLD_KEYS)):
            # An empty section is fine, if it is one of ours.
            yield from _flat(value, f"{key}.") if value else [(key, value)]


def _typed(key: str, text: str) -> object:
    """The text of a variable or flag as its setting's type; what does not fit is left for validation."""
    if isinstance(LEAVES[key].default, tuple):
        return tuple(one.strip() for one in text.split(",") if one.strip())
    try:
        return TypeAdapter[object](LEAVES[key].annotation or str).validate_strings(text)
    except ValidationError:
        return text


def _nearest(key: str) -> str:
    same_name = [known for known in LEAVES if known.rpartition(".")[2] == key.rpartition(".")[2]]
    close = same_name or difflib.get_close_matches(key, [*LEAVES, *OLD_KEYS], n=1, cutoff=0.5)
    return close[0] if close else ""


def _unknown(key: str, where: str) -> str:
    if key in Settings.model_fields:
        return f"{key} {where} is a section: write [{key}] and its keys"
    nearest = _nearest(key)
    return f"unknown key {key[:80]!r} {where}" + (f"; did you mean {nearest!r}?" if nearest else "")


def _explain(detail: ErrorDetails, given: Mapping[str, _Given]) -> str:
    message = detail["msg"].removeprefix("Value error, ")
    key = ".".join(str(part) for part in detail["loc"])
    if key not in given:  # a rule about several settings, which names them itself
        return message
    return f"{key}: {message[0].lower()}{message[1:]} ({given[key].origin})"
