"""An answer that a face does not know is a failure of the script, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import ScriptFailed
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.face import Answer, Face
from lingua_scheduler.store.scripts import compose

if TYPE_CHECKING:
    from tests.support.servers import Server


class Told(Answer, frozen=True, tag="TOLD"):
    number: int


def face(answer: str) -> Face[Told]:
    """A face over a script that answers this, in Lua."""
    made = Face("flows/ack", Told)
    made.script = compose("flows/teller", lambda _: f"#!lua\nreturn {{ {answer} }}")
    return made


async def test_an_answer_that_fits_is_told(server: Server) -> None:
    async with await Engine.connect(server.url) as engine:
        assert await face('cmsgpack.pack({ "TOLD", 7 })')(engine, "c0", b"") == Told(7)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param('cmsgpack.pack({ "TOLD", "seven" })', id="another type"),
        pytest.param('cmsgpack.pack({ "TOLD" })', id="a part is missing"),
        pytest.param('cmsgpack.pack({ "SUNG", 7 })', id="an unknown tag"),
        pytest.param(r'"\193"', id="no msgpack"),
        pytest.param('""', id="nothing"),
    ],
)
async def test_an_answer_that_does_not_fit_is_a_failure_of_its_script(server: Server, answer: str) -> None:
    async with await Engine.connect(server.url) as engine:
        with pytest.raises(ScriptFailed, match=r"^teller: answered what its face does not know: "):
            await face(answer)(engine, "c0", b"")
