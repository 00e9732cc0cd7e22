"""A token in the first message of a socket is as good as one in a header, also where no token is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.house import House

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.people import Node
    from tests.support.servers import Server

FLEET, ABROAD, APP = "nodes-of-the-fleet", "nodes-of-abroad-1", "caller-one-token"


@pytest.fixture(params=["open", "127.0.0.0/8"])
async def lenient(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[House]:
    """A house that lets in whoever comes from here, and knows some of them."""
    settings: dict[str, Any] = {
        "auth.node_tokens": (f"fleet:{FLEET}", f"abroad:{ABROAD}"),
        "auth.session_tokens": (f"app:{APP}",),
        "auth.nodes": request.param,
        "auth.sessions": request.param,
    }
    async with House(server.url, **settings).open() as house:
        yield house


def bearer(token: str) -> dict[str, Any]:
    return {"additional_headers": {"authorization": f"Bearer {token}"}}


async def refused(node: Node, **said: Any) -> str:
    """Why the node is not taken in."""
    await node.say("node_register", node_id=node.node_id, semantic_langs=["en", "zh"], **said)
    return str((await node.next("error"))["code"])


async def test_a_node_has_the_name_of_the_token_in_its_first_message(lenient: House) -> None:
    async with lenient.node("n1") as first:
        await first.register(token=FLEET)
        async with lenient.node("n1") as nobody:
            assert await refused(nobody) == "NODE_ID_CONFLICT"
            assert await refused(nobody, token="junk-junk-junk-junk") == "NODE_ID_CONFLICT"  # noqa: S106 - it is none
            assert await refused(nobody, token=ABROAD) == "NODE_ID_CONFLICT"
        assert first.closed is None
        again = lenient.node("n1")
        await again.connect(**bearer(FLEET))
        await again.register()
        assert (await first.gone())[0] == 4409
        await again.close()


async def test_who_showed_a_token_by_header_is_not_renamed_by_his_first_message(lenient: House) -> None:
    node = lenient.node("n1")
    await node.connect(**bearer(FLEET))
    await node.register(token=ABROAD)
    async with lenient.node("n1") as other:
        assert await refused(other, token=ABROAD) == "NODE_ID_CONFLICT"
    await node.close()


async def test_a_session_has_the_name_of_the_token_in_its_first_message(lenient: House) -> None:
    client = lenient.client()
    await client.connect()
    await client.init(token=APP)
    await client.close()
    back = {"client_version": "1.0", "platform": "web", "src_lang": "en", "tgt_lang": "zh"}
    back["resume_token"] = client.ack["resume_token"]
    async with lenient.client() as nobody:
        await nobody.say("session_init", **back)
        assert (await nobody.gone())[0] == 4404
    async with lenient.client() as again:
        await again.say("session_init", token=APP, **back)
        assert (await again.next("session_init_ack"))["session_id"] == client.session_id
