"""The OpenAPI document is true: whatever fits it, or nearly does, is answered as it says."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS
from schemathesis.generation import GenerationMode

from lingua_scheduler.app import ROUTES
from lingua_scheduler.core.letter import Letter, Parcel
from lingua_scheduler.flows.bury import bury
from lingua_scheduler.front.openapi import openapi
from tests.support.house import House

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server

SCHEMA = schemathesis.openapi.from_dict(openapi(ROUTES))
OPERATIONS: list[Any] = [found.ok() for found in SCHEMA.get_all_operations()]  # type: ignore[union-attr] # all are
#: The engine is there, so even the modelled 503 has but two reasons.
MODELLED = {"ALL_CANDIDATES_FULL_OR_FAILED", "CELL_FULL"}
#: As long as anybody may be made to wait here.
WAIT_MS = 20
#: So many dead letters: each is there for one example.
LETTERS = range(1_000)
EXAMPLES = 25
#: Of what is there; before each of them that is made.
REAL_EXAMPLES = 6
CHECKED = CHECKS.get_by_names(["status_code_conformance", "content_type_conformance", "response_schema_conformance"])


@pytest.fixture(scope="module")
def port(server: Server) -> Iterator[int]:
    """A house in a thread of its own: the client of these tests blocks."""
    ports: list[int] = []
    is_open, is_over = threading.Event(), threading.Event()

    async def live() -> None:
        unbounded = {"rates.submits_per_s": 1_000_000, "rates.submits_burst": 1_000_000}
        async with House(server.url, **unbounded).open() as house:
            await house.post("/v1/node/register", {"node_id": "n1", "semantic_langs": ["en", "zh"]})
            engine, lost = house.serving.app.engine, [Parcel("gone", f"{one}-0", 10, Letter("news")) for one in LETTERS]
            await asyncio.gather(*(bury(engine, parcel, "nobody reads it") for parcel in lost))
            ports.append(house.port)
            is_open.set()
            await asyncio.to_thread(is_over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    assert is_open.wait(20)
    yield ports[0]
    is_over.set()
    thread.join()


def patient(case: Any) -> Any:
    """Whoever may wait waits only for a moment."""
    for part in (case.query, case.body if isinstance(case.body, dict) else None):
        if isinstance(part, dict) and isinstance(part.get("wait_ms"), int) and part["wait_ms"] > WAIT_MS:
            part["wait_ms"] = WAIT_MS
    options = case.body.get("options") if isinstance(case.body, dict) else None
    if isinstance(options, dict) and isinstance(options.get("wait_ms"), int):
        options["wait_ms"] = min(options["wait_ms"], WAIT_MS)
    return case


def asked() -> Iterator[Any]:
    """Every operation, and once more with what does not fit it, where it says what fits."""
    for one in OPERATIONS:
        yield pytest.param(one, GenerationMode.POSITIVE, id=f"{one.method} {one.path}")
        if (one.body and one.path != "/v1/audio") or one.query:
            yield pytest.param(one, GenerationMode.NEGATIVE, id=f"{one.method} {one.path} does not fit")


@pytest.mark.parametrize(("operation", "mode"), list(asked()))
def test_every_operation_answers_as_it_says(port: int, operation: Any, mode: GenerationMode) -> None:
    @given(case=operation.as_strategy(generation_mode=mode))
    @sampled(EXAMPLES)
    def ask(case: Any) -> None:
        call(port, case)

    ask()


@pytest.mark.parametrize("operation", [pytest.param(one, id=f"{one.method} {one.path}") for one in OPERATIONS])
def test_every_operation_answers_as_it_says_of_what_there_is(port: int, operation: Any) -> None:
    statuses = set()

    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    @sampled(REAL_EXAMPLES)
    def ask(case: Any) -> None:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            statuses.add(call(port, about(case, seed(client))))

    ask()
    assert 200 in statuses, statuses


def sampled(examples: int) -> settings:
    """So many examples, the same every time."""
    return settings(
        max_examples=examples,
        database=None,
        derandomize=True,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


def call(port: int, case: Any) -> int:
    """Ask, and look at the answer; its status."""
    response = patient(case).call(base_url=f"http://127.0.0.1:{port}", timeout=20)
    assert response.status_code < 500 or response.json()["error"] in MODELLED, response.text
    case.validate_response(response, checks=CHECKED)
    return int(response.status_code)


_UNUSED = iter(LETTERS)


def seed(client: httpx2.Client) -> dict[str, Any]:
    """A node of its own, and a job that it holds, with audio: by the names that they have in messages."""
    node_id = f"n-{secrets.token_hex(8)}"
    client.post("/v1/node/register", json={"node_id": node_id, "semantic_langs": ["en", "zh"]}).raise_for_status()
    ref = client.post("/v1/audio", content=b"sound").raise_for_status().json()["audio_ref"]
    said = {"session_id": node_id, "src_lang": "en", "tgt_lang": "zh", "audio_ref": ref}
    wish = {"options": {"preferred_node_id": node_id, "strict": True}}
    job = client.post("/v1/dispatch/f2f", json=said | wish).raise_for_status().json()
    letter = {"letter": f"{next(_UNUSED)}-0.gone", "asset": "base.css", "folder": "vendor", "file": "preact.js"}
    named = {"job_id": job["job_id"], "attempt_id": 1, "node_id": node_id, "epoch": None, "x-node-id": node_id}
    audio = {"ref": ref, "audio_ref": ref, "session_id": node_id, "utterance_index": None, "options": None}
    langs = {"src_lang": "en", "tgt_lang": "zh", "src": "en", "tgt": "zh", "semantic_langs": ["en", "zh"]}
    others = dict.fromkeys(("asr_langs", "tts_langs", "nmt_pairs", "services", "labels", "running", "running_jobs"))
    link = client.post("/api/v1/link", json={}).raise_for_status().json()["path"].partition("#")[2]
    page = {"origin": str(client.base_url).rstrip("/"), "link": link}
    query = {"cursor": "0", "standing": "available", "preferred_node_id": node_id, "module": "front.hints"}
    return named | audio | langs | others | query | letter | page


def about(case: Any, real: dict[str, Any]) -> Any:
    """The same, but whatever it names is there."""
    for part in (case.path_parameters, case.query, case.headers, case.body):
        if isinstance(part, MutableMapping):
            part.update({name: value for name, value in real.items() if name in part})
    return case
