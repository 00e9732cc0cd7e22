"""Sentinels and a Cluster that are spoken to by TLS only, and must show who they are."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.store.assurance import Replication
from lingua_scheduler.store.engine import Engine
from tests.support.debian import find_redis
from tests.support.ports import free_ports
from tests.support.sentinels import NAME, Member
from tests.support.tallies import ENTER
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")

LONG_MS: Final = 30_000


class Guarded:
    """Servers that take nobody without TLS. Debian's: the engine that comes with us knows none."""

    def __init__(self, directory: Path) -> None:
        self._binary = find_redis()
        self._directory = directory
        self._members: list[Member] = []
        self.certificate, self._key = directory / "certificate.pem", directory / "key.pem"
        subject = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
        command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        subprocess.run(
            [*command, "-keyout", self._key, "-out", self.certificate, *subject], check=True, capture_output=True
        )

    def _options(self, member: Member) -> dict[str, str]:
        return {
            "port": "0",
            "tls-port": str(member.port),
            "tls-cert-file": str(self.certificate),
            "tls-key-file": str(self._key),
            "tls-ca-cert-file": str(self.certificate),
            "tls-auth-clients": "no",
            "tls-replication": "yes",
        }

    def start(self, *, watches: int = 0, options: dict[str, str] | None = None) -> Member:
        own = self._directory / f"m{len(self._members)}"
        own.mkdir()
        member = Member(own, free_ports(1)[0], self._binary)
        every = self._options(member) | (options or {})
        if watches:
            member.watch(watches, *(f"{name} {value}" for name, value in every.items()))
        else:
            member.start(*(word for name, value in every.items() for word in (f"--{name}", value)))
        self._members.append(member)
        return member

    def stop(self) -> None:
        for member in self._members:
            member.server.stop()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path)
    yield guarded
    guarded.stop()


async def check(url: str, guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is served, by whoever is trusted; on replicas too; and not without TLS."""
    with pytest.raises(DependencyDown, match=r"(?i)certificate"):
        await Engine.connect(url)
    with pytest.raises(DependencyDown):
        await Engine.connect(url.replace("rediss+", "redis+"), timeout_ms=300)
    monkeypatch.setenv("SSL_CERT_FILE", str(guarded.certificate))
    replication = Replication(1, LONG_MS)
    prefix = secrets.token_hex(4)
    async with await Engine.connect(url, prefix, timeout_ms=LONG_MS, replication=replication) as engine:
        assert await engine.run(ENTER, "c0", (b"x",)) == b"x"
        await engine.assured("c0", engine.era)


async def test_sentinels(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    primary = guarded.start()
    replica = guarded.start(options={"replicaof": f"127.0.0.1 {primary.port}"})
    wait_until(lambda: replica.has_its_primary, what="the replica has its primary")
    watcher = guarded.start(watches=primary.port)
    await check(f"rediss+sentinel://127.0.0.1:{watcher.port}/{NAME}", guarded, monkeypatch)


async def test_a_cluster(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = free_ports(2)
    how = {"cluster-enabled": "yes", "tls-cluster": "yes"}
    primary, replica = (guarded.start(options=how | {"cluster-port": str(port)}) for port in bus)
    primary.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
    replica.ask("CLUSTER", "MEET", "127.0.0.1", primary.port, bus[0])
    name = primary.ask("CLUSTER", "MYID")
    wait_until(lambda: name in replica.ask("CLUSTER", "NODES"), what="they know each other")
    replica.ask("CLUSTER", "REPLICATE", name)
    wait_until(lambda: replica.has_its_primary, what="the replica has its primary")
    wait_until(lambda: "cluster_state:ok" in primary.ask("CLUSTER", "INFO"), what="the Cluster is well")
    await check(f"rediss+cluster://127.0.0.1:{primary.port}", guarded, monkeypatch)
