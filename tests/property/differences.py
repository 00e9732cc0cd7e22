"""Where two cells differ, key by key, in words that a person can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.core.cell import Cell


def differences(real: Cell, model: Cell) -> list[str]:
    """One line for each thing that the engine and the model do not agree on; none: they agree on every key."""
    if real == model:
        return []
    return list(_differences("", msgspec.structs.asdict(real), msgspec.structs.asdict(model)))


def _differences(where: str, real: Any, model: Any) -> Iterator[str]:
    if real == model:
        return
    if isinstance(real, msgspec.Struct) and isinstance(model, msgspec.Struct):
        real, model = msgspec.structs.asdict(real), msgspec.structs.asdict(model)
    if isinstance(real, dict) and isinstance(model, dict):
        for name in sorted(real.keys() | model.keys(), key=str):
            inner = f"{where}.{name}" if where else str(name)
            if name not in real:
                yield f"{inner}: missing, the model says {model[name]!r}"
            elif name not in model:
                yield f"{inner}: is {real[name]!r}, the model has none"
            else:
                yield from _differences(inner, real[name], model[name])
    else:
        yield f"{where}: is {real!r}, the model says {model!r}"
