from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.config import ConfigError, Loaded, Settings, load
from lingua_scheduler.config.load import LEAVES
from lingua_scheduler.config.old_keys import OLD_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SINGLE = """
[server]
host = "0.0.0.0"
port = 5010

[scheduler.phase2]
enabled = true
instance_id = "auto"

[scheduler.phase2.redis]
url = "redis://localhost:6379"
"""

MULTI = """
[scheduler.phase2]
enabled = true
instance_id = "scheduler-01"
heartbeat_ttl_seconds = 180
owner_ttl_seconds = 300
stream_block_ms = 1000
"""

FLAT = """
[scheduler.phase2]
enabled = true
redis_url = "redis://localhost:6379"
key_prefix = "lingua:v1"
instance_id = "auto"
"""

CLUSTER = """
[scheduler.phase2.redis]
cluster_urls = ["redis://node1:6379", "redis://node2:6379/"]
"""


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Loaded]:
    def read(text: str) -> Loaded:
        path = tmp_path / "config.toml"
        path.write_text(text)
        return load(path, {})

    return read


def test_the_old_file_of_one_instance_loads_unchanged(read: Callable[[str], Loaded], tmp_path: Path) -> None:
    loaded = read(SINGLE)
    assert loaded.settings.server.host == "0.0.0.0"  # noqa: S104  # as the old file has it
    assert loaded.settings.server.port == 5010
    assert loaded.settings.engine.url == "redis://localhost:6379"
    path = tmp_path / "config.toml"
    assert loaded.origins["engine.url"] == f"file {path} (scheduler.phase2.redis.url)"
    assert loaded.deprecations == (
        f"{path}: scheduler.phase2.enabled is an old key, no effect: there is always a state engine",
        f"{path}: scheduler.phase2.instance_id is an old key, now instance.id",
        f"{path}: scheduler.phase2.redis.url is an old key, now engine.url",
    )


def test_the_old_file_of_many_instances_loads_unchanged(read: Callable[[str], Loaded]) -> None:
    loaded = read(MULTI)
    assert loaded.settings.instance.id == "scheduler-01"
    assert loaded.settings.nodes.offline_ms == 180_000
    assert len(loaded.deprecations) == 5


def test_the_old_flat_file_loads_unchanged(read: Callable[[str], Loaded]) -> None:
    loaded = read(FLAT)
    assert loaded.settings.engine.url == "redis://localhost:6379"
    assert loaded.settings.engine.key_prefix == "lingua:v1"
    assert len(loaded.deprecations) == 4


def test_the_old_list_of_cluster_urls_becomes_one_url(read: Callable[[str], Loaded]) -> None:
    assert read(CLUSTER).settings.engine.url == "redis+cluster://node1:6379,node2:6379"
    with_password = CLUSTER.replace("redis://", "redis://:pw@")
    assert read(with_password).settings.engine.url == "redis+cluster://:pw@node1:6379,node2:6379"


def test_old_and_new_keys_may_be_mixed(read: Callable[[str], Loaded]) -> None:
    loaded = read(MULTI + "[nodes]\nstale_ms = 90000\n[engine]\nurl = 'redis://h'\n")
    assert loaded.settings.nodes.stale_ms == 90_000
    assert loaded.settings.nodes.offline_ms == 180_000
    assert loaded.settings.engine.url == "redis://h"


def test_two_old_keys_may_say_the_same(read: Callable[[str], Loaded]) -> None:
    loaded = read(FLAT + "[scheduler.phase2.redis]\nurl = 'redis://localhost:6379'\n")
    assert loaded.settings.engine.url == "redis://localhost:6379"
    assert len(loaded.deprecations) == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            FLAT + "[scheduler.phase2.redis]\nurl = 'redis://other:6379'\n",
            "{old}.redis_url and {old}.redis.url in {file} mean the same and differ",
        ),
        (
            CLUSTER.replace("cluster", "url = 'redis://node1:6379'\ncluster"),
            "{old}.redis.url and {old}.redis.cluster_urls in {file} mean the same and differ",
        ),
        (
            "[engine]\nkey_prefix = 'mine'\n" + FLAT,
            "engine.key_prefix and {old}.key_prefix in {file} mean the same and differ",
        ),
        (
            "[scheduler.phase2]\nheartbeat_ttl_seconds = '3m'",
            "{old}.heartbeat_ttl_seconds must be a whole number of seconds ({file})",
        ),
        (
            "[scheduler.phase2]\nheartbeat_ttl_seconds = true",
            "{old}.heartbeat_ttl_seconds must be a whole number of seconds ({file})",
        ),
        (
            "[scheduler.phase2.redis]\ncluster_urls = 'redis://a'",
            "{old}.redis.cluster_urls must be a list of URLs ({file})",
        ),
        (
            "[scheduler.phase2.redis]\ncluster_urls = ['redis://a', 'http://:secret@b']",
            ("{old}.redis.cluster_urls must be a list of redis://host:port URLs with one user and password ({file})"),
        ),
        (
            "[scheduler.phase2]\ninstance_id = ''",
            (
                "instance.id: string should match pattern '^[A-Za-z0-9][A-Za-z0-9._-]{{0,127}}$' "
                "(file {file} ({old}.instance_id))"
            ),
        ),
        (
            "[scheduler.phase2]\nenable = true",
            "unknown key '{old}.enable' in {file}; did you mean '{old}.enabled'?",
        ),
    ],
)
def test_a_mistake_in_an_old_file_is_told_by_its_old_name(
    read: Callable[[str], Loaded], tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(text)
    assert str(refused.value) == message.format(file=tmp_path / "config.toml", old="scheduler.phase2")


def test_old_keys_lead_to_settings_that_exist() -> None:
    for old in OLD_KEYS.values():
        assert old.now in LEAVES or (not old.now and old.why)
        assert old.key not in LEAVES


def test_a_file_without_old_keys_has_no_deprecations(read: Callable[[str], Loaded]) -> None:
    loaded = read("[server]\nport = 5010\n")
    assert loaded.settings == Settings()
    assert loaded.deprecations == ()
