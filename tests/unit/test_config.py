from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields
from pydantic import ValidationError

from lingua_scheduler.config import ConfigError, Settings, load
from lingua_scheduler.config.load import LEAVES, env_name, shown
from lingua_scheduler.core.rules import Rules

if TYPE_CHECKING:
    from pathlib import Path


def refusal(path: Path | None = None, env: dict[str, str] | None = None, **flags: object) -> str:
    """The one line with which settings are refused."""
    with pytest.raises(ConfigError) as refused:
        load(path, env or {}, {key.replace("__", "."): value for key, value in flags.items()})
    message = str(refused.value)
    assert "\n" not in message
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    return message


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lingua.toml"
    path.write_text("[server]\nport = 1\n[jobs]\nmax_retry = 1\n[nodes]\nrest_ms = 1\n")
    return path


def test_flags_beat_environment_beats_file_beats_defaults(file: Path) -> None:
    env = {"LINGUA_JOBS__MAX_RETRY": "3", "LINGUA_NODES__REST_MS": "3"}
    loaded = load(file, env, {"nodes.rest_ms": 4})
    assert loaded.settings.cell.name == "c0"
    assert loaded.settings.server.port == 1
    assert loaded.settings.jobs.max_retry == 3
    assert loaded.settings.nodes.rest_ms == 4
    assert loaded.origins["cell.name"] == "default"
    assert loaded.origins["server.port"] == f"file {file}"
    assert loaded.origins["jobs.max_retry"] == "env LINGUA_JOBS__MAX_RETRY"
    assert loaded.origins["nodes.rest_ms"] == "flag"
    assert loaded.deprecations == ()


def test_every_setting_has_an_origin() -> None:
    loaded = load(env={})
    assert loaded.settings == Settings()
    assert loaded.origins == dict.fromkeys(LEAVES, "default")


def test_the_environment_can_name_the_file(file: Path) -> None:
    assert load(env={"LINGUA_CONFIG": str(file)}).settings.server.port == 1


def test_the_process_environment_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINGUA_SERVER__PORT", "7000")
    assert load().settings.server.port == 7000


def test_flags_may_be_nested_and_a_flag_that_was_not_given_counts_nothing() -> None:
    loaded = load(env={}, flags={"server": {"port": "9"}, "jobs.max_retry": None})
    assert loaded.settings.server.port == 9
    assert loaded.origins["jobs.max_retry"] == "default"


def test_the_scripts_obey_the_settings_of_the_same_name() -> None:
    changed = {key: LEAVES[key].default + 1 for key in LEAVES if key.split(".")[1] in Rules.__struct_fields__}
    rules = load(env={}, flags=changed).settings.rules()
    assert len(changed) == len(fields(Rules))
    for key, value in changed.items():
        assert getattr(rules, key.split(".")[1]) == value


def test_the_defaults_of_the_settings_and_of_the_rules_are_the_same() -> None:
    assert Settings().rules().of_one_cell() == Rules()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings().server.port = 1


def test_an_unknown_key_is_named_with_its_file_and_the_nearest_known_key(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[nodes]\nstale_msec = 1\n")
    assert refusal(path) == f"unknown key 'nodes.stale_msec' in {path}; did you mean 'nodes.stale_ms'?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_retry = 1", "unknown key 'max_retry' in {}; did you mean 'jobs.max_retry'?"),
        (
            "[scheduler]\nmax_retry = 1",
            "unknown key 'scheduler.max_retry' in {}; did you mean 'jobs.max_retry'?",
        ),
        ("[server.port]\nx = 1", "unknown key 'server.port.x' in {}; did you mean 'server.port'?"),
        ("[zzzzzz]", "unknown key 'zzzzzz' in {}"),
        ("server = 1", "server in {} is a section: write [server] and its keys"),
        ("[server]\nport = '1'", "server.port: input should be a valid integer (file {})"),
        ("[server]\nport = true", "server.port: input should be a valid integer (file {})"),
        ("[server]\nport = 70000", "server.port: input should be less than or equal to 65535 (file {})"),
    ],
)
def test_a_mistake_in_the_file_is_explained(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    assert refusal(path) == message.format(path)


def test_an_empty_section_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[server]\n[scheduler.phase2.redis]\n")
    assert load(path, {}).settings == Settings()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.toml") == f"cannot read {tmp_path}/none.toml: No such file or directory"
    broken = tmp_path / "broken.toml"
    broken.write_text("[server\nport")
    assert refusal(broken).startswith(f"{broken} is not TOML: ")
    broken.write_bytes(b"\xff\xfe")
    assert refusal(broken).startswith(f"{broken} is not TOML: ")


def test_a_mistake_in_the_environment_is_explained() -> None:
    assert refusal(env={"LINGUA_SERVR__PORT": "1"}) == (
        "unknown variable LINGUA_SERVR__PORT; did you mean LINGUA_SERVER__PORT?"
    )
    assert refusal(env={"LINGUA_SERVER_PORT": "6000"}) == (
        "unknown variable LINGUA_SERVER_PORT; did you mean LINGUA_SERVER__PORT?"
    )
    assert refusal(env={"LINGUA_NODES_STALE_MS": ""}).endswith("did you mean LINGUA_NODES__STALE_MS?")
    assert "LINGUA_ENGINE__URL" in refusal(env={"LINGUA_ENGINE_URL": "redis://host"})
    assert refusal(env={"LINGUA_SERVER__PORT": "x"}) == (
        "server.port: input should be a valid integer (env LINGUA_SERVER__PORT)"
    )
    assert refusal(env={"LINGUA_SERVER__PORT": ""}).startswith("server.port: ")


def test_variables_that_only_look_like_ours_are_left_alone() -> None:
    env = {"LINGUA_PORT": "tcp://10.0.0.1:5010", "LINGUA_SERVICE_HOST": "10.0.0.1", "PATH": "/bin"}
    env |= {"LINGUA_SERVER_PORT": "tcp://10.0.0.1:80", "LINGUA_SERVER_PORT_80_TCP": "x", "LINGUA_SERVER_HOSTS": "x"}
    assert load(env=env).settings == Settings()


def test_all_mistakes_are_told_at_once() -> None:
    message = refusal(server__port=-1, jobs__max_retry=-1)
    assert message.startswith("server.port: input should be greater than or equal to 0 (flag); jobs.max_retry: ")


def test_a_password_is_never_shown() -> None:
    assert "hunter2" not in refusal(engine__url="http://:hunter2@host")
    assert "hunter2" not in repr(load(env={}, flags={"engine.url": "redis://:hunter2@host"}))
    assert "hunter2" not in refusal(catalog__url="ftp://hub:hunter2@host")
    hub = load(env={}, flags={"catalog.url": "http://hub:hunter2@host"})
    assert "hunter2" not in f"{hub!r} {shown(hub.settings)}"


@pytest.mark.parametrize("url", ["", "redis://h", "rediss://u:p@h:1/0", "redis+cluster://a:1,b:2", "unix:///x.sock"])
def test_the_engine_can_be_named_by_url(url: str) -> None:
    assert load(env={"LINGUA_ENGINE__URL": url}).settings.engine.url == url


@pytest.mark.parametrize("url", ["localhost:6379", "redis://", "http://h", "redis:h"])
def test_what_is_not_an_engine_url_is_refused(url: str) -> None:
    assert refusal(engine__url=url).startswith("engine.url: must be empty or begin with one of redis://, ")


def test_what_is_to_be_on_replicas_needs_an_engine_that_has_some() -> None:
    assert refusal(engine__durability="replicated") == (
        'engine.durability "replicated" needs an engine with replicas: name one with engine.url'
    )
    assert (
        load(env={}, flags={"engine.url": "redis://h", "engine.durability": "replicated"}).settings.engine.replicas == 1
    )


NOT_MISSED_IN_TIME = (
    "instance.presence_ttl_ms + nodes.handover_grace_ms + nodes.socket_beat_ms (45000) "
    "must be less than nodes.offline_ms (45000)"
)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"nodes.stale_ms": 45_000}, "nodes.stale_ms (45000) must be less than nodes.offline_ms (45000)"),
        (
            {"nodes.offline_ms": 3_600_000},
            "nodes.offline_ms (3600000) must be less than nodes.node_record_ttl_ms (3600000)",
        ),
        (
            {"nodes.reconnect_grace_ms": 45_000},
            "nodes.reconnect_grace_ms (45000) must be less than nodes.offline_ms (45000)",
        ),
        (
            {"nodes.limbo_ttl_ms": 2_000},
            "nodes.confirm_after_ms (2000) must be less than nodes.limbo_ttl_ms (2000)",
        ),
        ({"nodes.max_rest_ms": 999}, "nodes.rest_ms (1000) must not be greater than nodes.max_rest_ms (999)"),
        (
            {"jobs.reservation_ttl_ms": 30_001},
            "jobs.reservation_ttl_ms (30001) must not be greater than jobs.run_timeout_ms (30000)",
        ),
        (
            {"jobs.run_timeout_ms": 60_001},
            "jobs.run_timeout_ms (60001) must not be greater than jobs.timeout_ms (60000)",
        ),
        (
            {"jobs.result_ttl_ms": 3_600_001},
            "jobs.result_ttl_ms (3600001) must not be greater than jobs.job_record_ttl_ms (3600000)",
        ),
        (
            {"jobs.released_ttl_ms": 3_600_001},
            "jobs.released_ttl_ms (3600001) must not be greater than jobs.job_record_ttl_ms (3600000)",
        ),
        (
            {"loops.sweep_interval_ms": 5_001},
            "loops.sweep_interval_ms (5001) must not be greater than jobs.reservation_ttl_ms (5000)",
        ),
        ({"instance.presence_ttl_ms": 25_000}, NOT_MISSED_IN_TIME),
        ({"nodes.handover_grace_ms": 25_000}, NOT_MISSED_IN_TIME),
        ({"nodes.socket_beat_ms": 25_000}, NOT_MISSED_IN_TIME),
    ],
)
def test_settings_that_contradict_each_other_are_refused(flags: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(env={}, flags=flags)
    assert str(refused.value) == message


def test_ack_run_and_deadline_may_be_equal() -> None:
    equal = dict.fromkeys(("jobs.reservation_ttl_ms", "jobs.run_timeout_ms", "jobs.timeout_ms"), 2_000)
    assert load(env={}, flags=equal).settings.jobs.timeout_ms == 2_000


@pytest.mark.parametrize("key", LEAVES)
def test_every_setting_has_a_meaning_bounds_and_a_unit(key: str) -> None:
    field = LEAVES[key]
    assert field.description
    assert field.description.endswith(".")
    if field.annotation is int:
        kinds = {type(bound).__name__ for bound in field.metadata}
        assert {"Ge", "Le"} <= kinds
        if field.default >= 5_000 and key not in {"server.port", "instance.inbox_max"}:
            assert key.endswith(("_ms", "_bytes"))


@pytest.mark.parametrize("key", LEAVES)
def test_every_setting_can_come_from_the_environment(key: str) -> None:
    default = LEAVES[key].default
    loaded = load(env={env_name(key): ",".join(default) if isinstance(default, tuple) else str(default)})
    assert loaded.settings == Settings()
    assert loaded.origins[key] == f"env {env_name(key)}"


VALUES = st.one_of(st.integers(), st.text(max_size=5), st.booleans(), st.floats(), st.none(), st.lists(st.integers()))


@given(st.dictionaries(st.one_of(st.sampled_from(sorted(LEAVES)), st.text(max_size=9)), VALUES, max_size=4))
def test_whatever_is_given_loads_or_is_refused_in_one_line(flags: dict[str, object]) -> None:
    try:
        load(env={}, flags=flags)
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017  # most of these load nothing, some do
