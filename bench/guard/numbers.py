"""What the server says of itself while it is measured."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from bench.raw import RawHttp


async def metric(port: int, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    caller = await RawHttp.connect(port)
    _, body = await caller.ask("GET", "/metrics")
    caller.close()
    samples = (sample for family in text_string_to_metric_families(body.decode()) for sample in family.samples)
    return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())
