"""W3C trace context, and the span that a job is."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.traces import parent_of, read_parent, span_number, trace_in, trace_number

TRACE, SPAN = "ab" * 16, "cd" * 8


@pytest.mark.parametrize("text", [f"00-{TRACE}-{SPAN}-01", f"01-{TRACE}-{SPAN}-01-more"])
def test_a_traceparent_names_trace_span_and_flags(text: str) -> None:
    assert read_parent(text) == (TRACE, SPAN, "01")
    assert trace_in(text) == TRACE


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        TRACE,
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_anything_else_names_nothing(text: str | None) -> None:
    assert read_parent(text) is None
    assert trace_in(text) is None


def test_whoever_knows_a_job_knows_its_span() -> None:
    parent = parent_of(TRACE, "c0.1")
    assert read_parent(parent) == (TRACE, f"{span_number('c0.1'):016x}", "01")
    assert parent != parent_of(TRACE, "c0.2")


@pytest.mark.parametrize("made_up", ["", "my-trace", "0" * 32, "AB" * 16])
def test_a_trace_in_another_form_stands_for_a_number_of_its_own(made_up: str) -> None:
    """Field clients make up their own."""
    assert read_parent(parent_of(made_up, "c0.1")) is not None
    assert trace_number(made_up) == trace_number(made_up) != trace_number("other")
