"""Who may do what, where tokens are configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.house import House

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.people import Node
    from tests.support.servers import Server

TOKENS = {
    "node": "nodes-of-berlin-1",
    "session": "caller-one-token",
    "other": "caller-two-token",
    "admin": "operator-token-1",
    "abroad": "nodes-of-abroad-1",
    "both": "node-and-caller-1",
}
NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"]}


@pytest.fixture
async def guarded(server: Server) -> AsyncIterator[House]:
    """A house with tokens: nodes, two callers, an operator."""
    settings: dict[str, Any] = {
        "auth.node_tokens": (f"berlin:{TOKENS['node']}", f"abroad:{TOKENS['abroad']}", f"both:{TOKENS['both']}"),
        "auth.session_tokens": (f"one:{TOKENS['session']}", f"two:{TOKENS['other']}", f"both:{TOKENS['both']}"),
        "auth.admin_tokens": (f"ops:{TOKENS['admin']}",),
    }
    async with House(server.url, **settings).open() as house:
        yield house


async def ask(house: House, who: str, method: str, path: str, message: Any = None) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {TOKENS[who]}"} if who else {}
    answer = await house.http.request(method, path, json=message, headers=headers)
    return answer.status_code, answer.json()


async def enrol(house: House) -> dict[str, Any]:
    status, answer = await ask(house, "node", "POST", "/v1/node/register", NODE)
    assert status == 200, answer
    return dict(answer)


@pytest.mark.parametrize(
    ("who", "method", "path", "status"),
    [
        ("", "GET", "/livez", 200),
        ("", "GET", "/v1/nodes", 401),
        ("", "POST", "/v1/node/register", 401),
        ("", "POST", "/v1/dispatch/f2f", 401),
        ("session", "GET", "/v1/nodes", 403),
        ("session", "GET", "/v1/jobs", 403),
        ("session", "POST", "/v1/node/register", 403),
        ("node", "POST", "/v1/dispatch/f2f", 403),
        ("node", "GET", "/api/v1/stats", 403),
        ("admin", "GET", "/v1/nodes", 200),
        ("admin", "GET", "/v1/jobs", 200),
        ("admin", "POST", "/v1/node/register", 403),
    ],
)
async def test_each_door_has_its_scope(guarded: House, who: str, method: str, path: str, status: int) -> None:
    found, answer = await ask(guarded, who, method, path, {} if method == "POST" else None)
    assert found == status, answer
    if status in {401, 403}:
        assert (answer["error"], answer["retryable"]) == ("UNAUTHENTICATED" if status == 401 else "FORBIDDEN", False)


async def test_a_node_speaks_only_for_itself(guarded: House) -> None:
    secret = (await enrol(guarded))["node_secret"]
    assert secret
    beat = {"node_id": "n1"}
    assert (await ask(guarded, "node", "POST", "/v1/node/heartbeat", beat))[1]["error"] == "UNAUTHENTICATED"
    wrong = await ask(guarded, "node", "POST", "/v1/node/heartbeat", beat | {"node_secret": "0" * 64})
    assert (wrong[0], wrong[1]["error"]) == (403, "FORBIDDEN")
    assert (await ask(guarded, "node", "POST", "/v1/node/heartbeat", beat | {"node_secret": secret}))[0] == 200
    other = await ask(guarded, "node", "POST", "/v1/node/heartbeat", {"node_id": "n2", "node_secret": secret})
    assert other[0] == 403


class TestWhoseIdItIs:
    """A node id belongs to the credential that registered it, for as long as the node is not lost or gone."""

    async def socket(self, house: House, who: str) -> Node:
        node = house.node("n1")
        await node.connect(additional_headers={"authorization": f"Bearer {TOKENS[who]}"})
        return node

    async def test_another_token_does_not_take_it_over(self, guarded: House) -> None:
        first, stranger = await self.socket(guarded, "node"), await self.socket(guarded, "abroad")
        await first.register()
        with pytest.raises(AssertionError, match="NODE_ID_CONFLICT"):
            await stranger.register()
        status, refused = await ask(guarded, "abroad", "POST", "/v1/node/register", NODE)
        assert (status, refused["error"], refused["retryable"]) == (409, "NODE_ID_CONFLICT", False)
        said = {"session_id": "room", "src_lang": "en", "tgt_lang": "zh"}
        assert (await ask(guarded, "session", "POST", "/v1/dispatch/f2f", said))[0] == 200
        await first.result(await first.job())
        assert (first.closed, stranger.closed) == (None, None)
        await first.close()
        await stranger.close()

    async def test_the_same_token_does_on_whichever_way(self, guarded: House) -> None:
        """A shared token is one credential: whoever has it may be any node that was registered with it."""
        first, second = await self.socket(guarded, "node"), await self.socket(guarded, "node")
        await first.register()
        await second.register()
        assert (await first.gone())[0] == 4409
        assert (await enrol(guarded))["node_secret"]
        await first.close()
        await second.close()

    async def test_whoever_had_it_before_does_not_speak_for_it_any_more(self, guarded: House) -> None:
        status, before = await ask(guarded, "abroad", "POST", "/v1/node/register", NODE)
        assert status == 200, before
        old = {"node_id": "n1", "node_secret": before["node_secret"]}
        assert (await ask(guarded, "abroad", "POST", "/v1/node/offline", old))[0] == 200
        now = await enrol(guarded)
        said = {"session_id": "room", "src_lang": "en", "tgt_lang": "zh"}
        job = (await ask(guarded, "session", "POST", "/v1/dispatch/f2f", said))[1]
        attempt = {"job_id": job["job_id"], "attempt_id": 1}
        words = {
            "node/heartbeat": {},
            "node/poll": {"wait_ms": 0},
            "node/offline": {},
            "job/ack": attempt,
            "job/started": attempt,
            "job/stopped": attempt,
            "job/done": attempt | {"status": "ok"},
            "job/fail": attempt | {"reason": "no"},
        }
        for path, word in words.items():
            for epoch in (None, now["epoch"]):
                status, refused = await ask(guarded, "abroad", "POST", f"/v1/{path}", old | word | {"epoch": epoch})
                assert (status, refused["error"]) == (409, "STALE_ATTEMPT"), path
        own = {"node_id": "n1", "node_secret": now["node_secret"]}
        stale = await ask(guarded, "node", "POST", "/v1/node/heartbeat", own | {"epoch": before["epoch"]})
        assert (stale[0], stale[1]["error"]) == (409, "STALE_ATTEMPT")
        done = own | words["job/done"] | {"epoch": now["epoch"]}
        assert (await ask(guarded, "node", "POST", "/v1/job/done", done))[1]["state"] == "FINISHED"


async def test_the_id_of_a_live_node_is_not_given_to_another_credential_by_any_door(guarded: House) -> None:
    secret = (await enrol(guarded))["node_secret"]
    status, refused = await ask(guarded, "abroad", "POST", "/v1/node/register", NODE)
    assert (status, refused["error"], refused["retryable"]) == (409, "NODE_ID_CONFLICT", False)
    assert "n1" in refused["detail"]
    other = guarded.node("n1")
    await other.connect(additional_headers={"authorization": f"Bearer {TOKENS['abroad']}"})
    await other.say("node_register", **NODE)
    assert (await other.next("error"))["code"] == "NODE_ID_CONFLICT"
    # The socket stays open, and takes another name.
    other.node_id = "n2"
    await other.register()
    assert (await ask(guarded, "node", "POST", "/v1/node/register", NODE | {"node_id": "n2"}))[0] == 409
    await other.close()
    # Whoever is gone holds no name.
    gone = {"node_id": "n1", "node_secret": secret}
    assert (await ask(guarded, "node", "POST", "/v1/node/offline", gone))[0] == 200
    assert (await ask(guarded, "abroad", "POST", "/v1/node/register", NODE))[0] == 200


async def test_a_caller_sees_only_what_is_of_its_own(guarded: House) -> None:
    secret = (await enrol(guarded))["node_secret"]
    said = {"session_id": "room", "src_lang": "en", "tgt_lang": "zh"}
    status, placed = await ask(guarded, "session", "POST", "/v1/dispatch/f2f", said)
    assert status == 200, placed
    path = f"/v1/job/{placed['job_id']}"
    mine = (await ask(guarded, "session", "GET", path))[1]
    assert "node_id" not in mine
    assert all("node_id" not in attempt for attempt in mine["attempts"])
    assert (await ask(guarded, "admin", "GET", path))[1]["node_id"] == "n1"
    assert (await ask(guarded, "other", "GET", path))[0] == 404
    cancel = {"job_id": placed["job_id"]}
    assert (await ask(guarded, "other", "POST", "/v1/job/cancel", cancel))[0] == 404
    stolen = await ask(guarded, "other", "POST", "/v1/dispatch/f2f", said)
    assert (stolen[0], stolen[1]["error"]) == (403, "FORBIDDEN")
    assert stolen[1]["detail"] == "session_id: room is somebody else's; take another."
    done = {"job_id": placed["job_id"], "attempt_id": 1, "node_id": "n1", "status": "ok", "node_secret": secret}
    assert (await ask(guarded, "node", "POST", "/v1/job/done", done))[0] == 200


class TestAudio:
    """It is for whoever uploaded it, and for the node that holds an attempt with it."""

    async def upload(self, house: House, who: str) -> str:
        headers = {"authorization": f"Bearer {TOKENS[who]}", "content-type": "audio/wav"}
        answer = await house.http.post("/v1/audio", content=b"sound", headers=headers)
        return str(answer.json()["audio_ref"])

    async def fetch(self, house: House, ref: str, who: str = "node", **said: str) -> tuple[int, str]:
        headers = {f"x-{name.replace('_', '-')}": value for name, value in said.items()}
        headers["authorization"] = f"Bearer {TOKENS[who]}"
        answer = await house.http.get(f"/v1/audio/{ref}", headers=headers)
        return answer.status_code, "" if answer.status_code == 200 else answer.json()["error"]

    async def place(self, house: House, ref: str, who: str = "session") -> tuple[int, Any]:
        said = {"session_id": f"room-{who}", "src_lang": "en", "tgt_lang": "zh", "audio_ref": ref}
        wish = {"options": {"preferred_node_id": "n1", "strict": True}}
        return await ask(house, who, "POST", "/v1/dispatch/f2f", said | wish)

    async def test_a_node_gets_what_its_attempts_name(self, guarded: House) -> None:
        secret = (await enrol(guarded))["node_secret"]
        _, other = await ask(guarded, "node", "POST", "/v1/node/register", NODE | {"node_id": "n2"})
        ref = await self.upload(guarded, "session")
        mine = {"node_id": "n1", "node_secret": secret}
        assert await self.fetch(guarded, ref, **mine) == (404, "UNKNOWN_AUDIO")
        status, placed = await self.place(guarded, ref)
        assert status == 200, placed
        assert await self.fetch(guarded, ref, **mine) == (200, "")
        assert await self.fetch(guarded, ref) == (401, "UNAUTHENTICATED")
        assert await self.fetch(guarded, ref, node_id="n1") == (401, "UNAUTHENTICATED")
        assert await self.fetch(guarded, ref, node_id="n1", node_secret=other["node_secret"]) == (403, "FORBIDDEN")
        theirs = {"node_id": "n2", "node_secret": other["node_secret"]}
        assert await self.fetch(guarded, ref, **theirs) == (404, "UNKNOWN_AUDIO")
        spoken = {"job_id": placed["job_id"], "attempt_id": 1, "status": "ok", "result": {"tts_audio": "AAAA"}}
        assert (await ask(guarded, "node", "POST", "/v1/job/done", spoken | mine))[0] == 200
        for node in (mine, theirs):
            assert await self.fetch(guarded, f"{placed['job_id']}.1.tts", **node) == (404, "UNKNOWN_AUDIO")
            assert await self.fetch(guarded, ref, **node) == (404, "UNKNOWN_AUDIO")

    async def test_a_node_on_a_socket_is_known_by_its_token(self, guarded: House) -> None:
        ref = await self.upload(guarded, "session")
        node = guarded.node("n1")
        await node.connect(additional_headers={"authorization": f"Bearer {TOKENS['node']}"})
        await node.register(features=("audio_ref",))
        status, placed = await self.place(guarded, ref)
        assert status == 200, placed
        job = await node.job()
        assert await self.fetch(guarded, job["audio_ref"], node_id="n1") == (200, "")
        assert await self.fetch(guarded, job["audio_ref"], "abroad", node_id="n1") == (403, "FORBIDDEN")
        await node.result(job)
        await node.close()

    async def test_a_caller_gets_and_names_only_what_he_uploaded(self, guarded: House) -> None:
        await enrol(guarded)
        ref = await self.upload(guarded, "session")
        assert await self.fetch(guarded, ref, "session") == (200, "")
        assert await self.fetch(guarded, ref, "other") == (404, "UNKNOWN_AUDIO")
        assert await self.fetch(guarded, ref, "admin") == (404, "UNKNOWN_AUDIO")
        assert (await guarded.http.get(f"/v1/audio/{ref}")).status_code == 401
        status, refused = await self.place(guarded, ref, "other")
        assert (status, refused["error"]) == (404, "UNKNOWN_AUDIO")
        both = await self.upload(guarded, "both")
        assert await self.fetch(guarded, both, "both") == (200, "")
        assert await self.fetch(guarded, ref, "both") == (401, "UNAUTHENTICATED")

    async def test_a_caller_is_no_node_though_he_has_the_name_of_one(self, server: Server) -> None:
        """Two tokens with one name: only that of the node opens what its attempts name."""
        settings: dict[str, Any] = {
            "auth.node_tokens": (f"berlin:{TOKENS['node']}",),
            "auth.session_tokens": (f"berlin:{TOKENS['other']}", f"one:{TOKENS['session']}"),
        }
        async with House(server.url, **settings).open() as house:
            ref = await self.upload(house, "session")
            mine = {"node_id": "n1", "node_secret": (await enrol(house))["node_secret"]}
            status, placed = await self.place(house, ref)
            assert status == 200, placed
            assert await self.fetch(house, ref, "other", **mine) == (404, "UNKNOWN_AUDIO")
            assert await self.fetch(house, ref, "node", **mine) == (200, "")

    async def test_whoever_comes_through_an_open_door_of_callers_gets_nothing(self, server: Server) -> None:
        """Nobody can be told apart there: not even from who uploaded it."""
        settings = {"auth.node_tokens": (f"berlin:{TOKENS['node']}",), "auth.sessions": "open"}
        async with House(server.url, **settings).open() as house:
            answer = await house.http.post("/v1/audio", content=b"sound")
            answer = await house.http.get(f"/v1/audio/{answer.json()['audio_ref']}")
            assert (answer.status_code, answer.json()["error"]) == (404, "UNKNOWN_AUDIO")


async def test_the_same_request_id_of_another_caller_is_another_request(guarded: House) -> None:
    await enrol(guarded)
    said = {"src_lang": "en", "tgt_lang": "zh", "request_id": "r1"}
    first = (await ask(guarded, "session", "POST", "/v1/dispatch/f2f", said | {"session_id": "a"}))[1]
    second = (await ask(guarded, "other", "POST", "/v1/dispatch/f2f", said | {"session_id": "b"}))[1]
    assert first["job_id"] != second["job_id"]
    for job, who in ((first, "session"), (second, "other")):
        assert (await ask(guarded, who, "POST", "/v1/job/cancel", {"job_id": job["job_id"]}))[0] == 200
