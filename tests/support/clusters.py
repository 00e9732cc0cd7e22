"""A real Cluster of six processes: three primaries, each with a replica, made by commands and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.support.asking import ask_one, field_of
from tests.support.ports import free_ports
from tests.support.servers import start_server
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Server

SLOTS: Final = 16_384
_PRIMARIES: Final = 3

#: A primary is given up after so long; a test that kills one waits for little more than that.
NODE_TIMEOUT_MS: Final = 1_000
#: Where nobody kills one, nobody is given up, however busy the machine is.
NEVER_DOWN_MS: Final = 600_000


@dataclass(slots=True)
class Node:
    """One process of a Cluster."""

    directory: Path
    port: int
    bus_port: int
    timeout_ms: int = NODE_TIMEOUT_MS
    #: What else its command line says.
    words: tuple[str, ...] = ()
    server: Server = field(init=False, repr=False)

    def start(self) -> None:
        self.server = start_server(
            self.directory,
            *("--port", str(self.port), "--bind", "127.0.0.1", "--cluster-enabled", "yes"),
            *("--cluster-port", str(self.bus_port), "--cluster-node-timeout", str(self.timeout_ms)),
            *("--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"),
            *("--appendonly", "yes", "--appendfsync", "no"),
            *self.words,
        )

    def ask(self, *words: str | int | bytes) -> Any:
        return ask_one(self.server.path, *words)

    @property
    def id(self) -> str:
        return str(self.ask("CLUSTER", "MYID"))

    @property
    def is_primary(self) -> bool:
        return bool(self.ask("ROLE")[0] == "master")

    def errors(self, word: str) -> int:
        """How often it answered with this error."""
        found = re.search(rf"errorstat_{word}:count=(\d+)", self.ask("INFO", "errorstats"))
        return int(found[1]) if found else 0

    def info(self, name: str, section: str) -> str:
        """One field of INFO or CLUSTER INFO."""
        return field_of(self.ask("CLUSTER", "INFO") if section == "cluster info" else self.ask("INFO", section), name)


class Sixpack:
    """Six processes. `url` names two of them; the rest is found."""

    def __init__(self, directory: Path, timeout_ms: int = NODE_TIMEOUT_MS, words: tuple[str, ...] = ()) -> None:
        ports = free_ports(4 * _PRIMARIES)
        self.nodes: list[Node] = []
        for number in range(2 * _PRIMARIES):
            own = directory / f"n{number}"
            own.mkdir()
            self.nodes.append(Node(own, ports.pop(), ports.pop(), timeout_ms, words))

    @property
    def url(self) -> str:
        return f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in self.nodes[:2])}"

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        first, primaries = self.nodes[0], self.nodes[:_PRIMARIES]
        bounds = [SLOTS * number // _PRIMARIES for number in range(_PRIMARIES + 1)]
        for node, low, high in zip(primaries, bounds, bounds[1:], strict=False):
            node.ask("CLUSTER", "ADDSLOTSRANGE", low, high - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", 1 + self.nodes.index(node))
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", first.port, first.bus_port)
        wait_until(lambda: all(self._knows_all(node) for node in self.nodes), what="the nodes know each other")
        for node, primary in zip(self.nodes[_PRIMARIES:], primaries, strict=True):
            node.ask("CLUSTER", "REPLICATE", primary.id)
        self.settled()

    def stop(self) -> None:
        for node in self.nodes:
            node.server.stop()

    def start_again(self) -> None:
        """Start those that were stopped."""
        for node in self.nodes:
            if node.server.process.poll() is not None:
                node.start()
        self.settled()

    def settled(self) -> None:
        """Wait until every process sees a whole Cluster, and every replica has its primary's data."""
        wait_until(lambda: all(self._is_well(node) for node in self.nodes), timeout=20, what="the Cluster is well")

    def primary_of(self, slot: int) -> Node:
        """Who serves this slot now, by his own word."""
        return next(node for node in self.primaries() if _owner(node, slot) == node.port)

    def primaries(self) -> list[Node]:
        return [node for node in self.nodes if node.server.process.poll() is None and node.is_primary]

    def replica_of(self, primary: Node) -> Node:
        return next(node for node in self.nodes if node.ask("ROLE")[:3:2] == ["slave", primary.port])

    # Handing a slot over, step by step, as the tools for operators do.

    def open_slot(self, slot: int, target: Node) -> Node:
        """From here on what is not in the slot any more, or not yet, is asked for at the target. Whose it was."""
        source = self.primary_of(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        return source

    def move_keys(self, slot: int, source: Node, target: Node) -> None:
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100):
            for key in keys:
                source.ask("MIGRATE", "127.0.0.1", target.port, key, 0, 5_000)

    def close_slot(self, slot: int, source: Node, target: Node) -> None:
        """The slot is the target's. It is told first: if it did not know, nobody would have the slot."""
        for node in (target, source):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        wait_until(lambda: all(_owner(node, slot) == target.port for node in self.primaries()), what="all know it")

    def hand_over(self, slot: int, target: Node) -> None:
        """All of it."""
        source = self.open_slot(slot, target)
        self.move_keys(slot, source, target)
        self.close_slot(slot, source, target)

    def hand_over_at_once(self, slot: int, target: Node) -> None:
        """As Valkey 9 does it: by replication, and in one moment for all keys."""
        self.primary_of(slot).ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
        wait_until(lambda: all(_owner(node, slot) == target.port for node in self.primaries()), what="all know it")

    def _knows_all(self, node: Node) -> bool:
        return node.info("cluster_known_nodes", "cluster info") == str(len(self.nodes))

    def _is_well(self, node: Node) -> bool:
        if node.info("cluster_state", "cluster info") != "ok" or not self._knows_all(node):
            return False
        return node.is_primary or node.info("master_link_status", "replication") == "up"


def _owner(node: Node, slot: int) -> int:
    """Whose port this node names."""
    spans = node.ask("CLUSTER", "SLOTS")
    return next((port for low, high, (_, port, *_), *_ in spans if low <= slot <= high), 0)
