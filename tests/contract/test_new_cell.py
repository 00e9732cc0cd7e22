"""A cell that was opened a moment ago is watched from then on, however seldom anybody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingua_scheduler.store.keys import CELL_KEY_NAMES, cell_key
from lingua_scheduler.store.scripts import script
from tests.support.house import House, eventually

if TYPE_CHECKING:
    from tests.support.servers import Server


def speaking(language: str) -> dict[str, Any]:
    able = {kind: ["en", language] for kind in ("asr_languages", "semantic_languages", "tts_languages")}
    return {"language_capabilities": able, "nmt_pairs": [["en", language]]}


async def test_its_nodes_are_entered_again_when_it_was_emptied(server: Server) -> None:
    slow = {"loops.watch_interval_ms": 60_000, "nodes.socket_beat_ms": 30_000, "nodes.offline_ms": 100_000}
    settings = slow | {"cell.cell_capacity": 1}
    async with House(server.url, **settings).open() as house, house.node("n0") as first, house.node("n1") as second:
        engine = house.serving.app.engine
        for node, language in ((first, "zh"), (second, "fr")):
            await node.register(slots=1, **speaking(language))
            await node.is_ready()

        async def is_looked_at() -> bool:
            return (script("views/schema").sha, "c1") in engine._lanes

        await eventually(is_looked_at)
        # Before it is refused for good somebody looks once more: then what was begun is over, too.
        await house.dispatch(tgt_lang="ja", status=422)
        await engine.command("UNLINK", *(cell_key(engine.prefix, "c1", name) for name in CELL_KEY_NAMES))

        async def serves() -> bool:
            said = {"session_id": "s", "src_lang": "en", "tgt_lang": "fr", "audio_ref": "b://1"}
            return (await house.http.post("/v1/dispatch/f2f", json=said)).status_code == 200

        await eventually(serves)
        await second.result(await second.job())
