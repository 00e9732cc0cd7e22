"""What a line says, and what a line costs that nobody wants."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.config.logs import Logs
from lingua_scheduler.core.refusal import refuse
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.logs import FIELDS, code_in, get_log
from lingua_scheduler.logs.output import write_logs
from tools.log_events import SOURCES, log_events

if TYPE_CHECKING:
    from collections.abc import Iterator

FORGED = 'x\n{"event": "forged", "level": "error"}\r\x1b[2K\u2028forged'


class Terminal(io.StringIO):
    """Somebody looks on."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def as_it_was() -> Iterator[None]:
    """Logging is of the whole process."""
    root, ours = logging.getLogger(), logging.getLogger("lingua_scheduler")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    # What pytest listens with is not to be closed.
    root.handlers[:] = []
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def written(*, level: Any = "info", terminal: bool = False) -> io.StringIO:
    stream = Terminal() if terminal else io.StringIO()
    write_logs(Logs(level=level), stream)
    return stream


@pytest.mark.usefixtures("as_it_was")
class TestALine:
    def test_is_one_object_where_nobody_looks_on(self) -> None:
        stream = written()
        get_log("lingua_scheduler.loops.reaper").info("ack", job_id="c0.1", attempt=2, trace_id="ab")
        said = json.loads(stream.getvalue())
        assert said.pop("ts").endswith("Z")
        assert said == {
            "level": "info",
            "event": "ack",
            "module": "lingua_scheduler.loops.reaper",
            "job_id": "c0.1",
            "attempt": 2,
            "trace_id": "ab",
        }

    def test_is_in_words_on_a_terminal(self) -> None:
        stream = written(terminal=True)
        get_log("lingua_scheduler.loops.reaper").warning("ack", job_id="c0.1")
        assert "warning ack\x1b[0m job_id=c0.1  [lingua_scheduler.loops.reaper]\n" in stream.getvalue()

    @pytest.mark.parametrize("terminal", [False, True])
    def test_cannot_be_forged(self, terminal: bool) -> None:
        """By a name, by the words of an exception, or by what a library says."""
        stream = written(terminal=terminal)
        log = get_log("lingua_scheduler.x")
        log.warning("node", node_id=FORGED)
        logging.getLogger("library").warning("it was %s", FORGED)
        log.error("request", path="/", exc_info=ValueError(FORGED))
        lines = stream.getvalue().splitlines()
        if terminal:
            assert not [line for line in lines if line.lstrip().startswith(("forged", '{"event"')) and line[0] != " "]
            assert all(line.startswith(("\x1b[33m", "\x1b[31m", "    ")) for line in lines)
            assert "\x1b[2K" not in stream.getvalue()
        else:
            assert [json.loads(line)["event"][:4] for line in lines] == ["node", "it w", "requ"]

    def test_has_an_end_however_much_there_is_to_say(self) -> None:
        stream = written()
        get_log("lingua_scheduler.x").warning("node", node_id="n" * 1_000_000)
        assert len(stream.getvalue()) < 2_000

    def test_tells_of_an_answer_its_name_and_of_a_refusal_its_code(self) -> None:
        stream = written()
        log = get_log("lingua_scheduler.x")
        log.info("ack", answer=Moved("ACCEPTED"))
        log.info("ack", answer=refuse("STALE_ATTEMPT"))
        said = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert [(one.get("outcome"), one.get("reason")) for one in said] == [("MOVED", None), (None, "STALE_ATTEMPT")]

    def test_of_a_library_is_told_from_a_warning_on(self) -> None:
        stream = written(level="debug")
        logging.getLogger("websockets.server").debug("< TEXT what was said")
        logging.getLogger("uvicorn").info("a request")
        assert stream.getvalue() == ""

    def test_that_nobody_wants_is_not_even_looked_at(self) -> None:
        class Costly:
            def __str__(self) -> str:
                raise AssertionError

        stream = written()
        log = get_log("lingua_scheduler.x")
        log.debug("ack", job_id=Costly())
        assert (stream.getvalue(), log.is_debug) == ("", False)
        written(level="debug")
        assert log.is_debug
        written()
        assert not log.is_debug


@pytest.mark.parametrize(
    ("reason", "code"),
    [("MODEL_NOT_AVAILABLE: good morning", "MODEL_NOT_AVAILABLE"), ("good morning", None), ("", None), ("A", None)],
)
def test_of_somebody_elses_reason_only_its_code_is_told(reason: str, code: str | None) -> None:
    assert code_in(reason) == code


class TestEveryCall:
    """As the code has them."""

    def test_names_a_flow_or_who_tells_of_something(self) -> None:
        flows = {path.stem for path in (SOURCES / "flows").glob("*.lua")}
        named = {one.event for one in log_events() if one.module.startswith("flows.") and one.event}
        assert named <= flows
        assert all(one.event.replace("_", "").isalpha() and one.event.islower() for one in log_events() if one.event)

    def test_has_only_fields_that_are_listed(self) -> None:
        unlisted = {(one.module, name) for one in log_events() for name in one.fields if name not in FIELDS}
        assert unlisted == set()

    def test_goes_through_our_own_log(self) -> None:
        """But for the SDK, and for the demo, which makes a node of the SDK silent."""
        others = [
            path.relative_to(SOURCES).as_posix()
            for path in SOURCES.rglob("*.py")
            if "getLogger" in path.read_text() and "sdk" not in path.parts
        ]
        assert sorted(others) == ["logs/levels.py", "logs/log.py", "operate/demo/host.py"]

    def test_on_the_way_of_a_job_is_asked_for_first(self) -> None:
        """So that it costs a look at a flag."""
        hot = {"ack", "deliver", "dispatch", "done", "fail", "heartbeat", "started", "stopped", "undeliver"}
        for flow in hot:
            text = (SOURCES / "flows" / f"{flow}.py").read_text()
            assert "if log.is_debug:\n" in text, flow
