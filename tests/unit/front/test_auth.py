from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.config import ConfigError, load
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.auth import Auth, Peer, Principal, token_in

NODE, SESSION, ADMIN, METRICS = (f"{name}-token-0123456789" for name in ("node", "session", "admin", "metrics"))
ALL = {
    "auth.node_tokens": [NODE],
    "auth.session_tokens": [f"app:{SESSION}"],
    "auth.admin_tokens": [f"ops:{ADMIN}"],
    "auth.metrics_tokens": [METRICS],
}


def auth(**flags: Any) -> Auth:
    return Auth(load(env={}, flags={f"auth.{key}": value for key, value in flags.items()}).settings.auth)


def with_all(**more: Any) -> Auth:
    return auth(**{key.removeprefix("auth."): value for key, value in ALL.items()}, **more)


def code(answer: object) -> str:
    assert isinstance(answer, Refusal)
    return answer.code


def test_without_tokens_whoever_gets_in_may_do_everything() -> None:
    found = auth().admit("session", "127.0.0.1")
    assert found == Principal("", frozenset({"node", "session", "admin", "metrics"}))
    assert not auth().has_tokens
    assert with_all().has_tokens


@pytest.mark.parametrize(
    ("token", "opens"),
    [
        (NODE, {"node", "page"}),
        (SESSION, {"session", "page"}),
        (ADMIN, {"admin", "session", "metrics", "page"}),
        (METRICS, {"metrics", "page"}),
    ],
)
def test_a_token_opens_the_doors_of_its_scope(token: str, opens: set[str]) -> None:
    for scope in ("node", "session", "admin", "metrics", "page"):
        found = with_all().admit(scope, "10.0.0.1", token)
        assert isinstance(found, Principal) == (scope in opens)
        if isinstance(found, Refusal):
            assert found.code == "FORBIDDEN"


def test_a_token_in_several_lists_has_all_their_scopes() -> None:
    both = auth(node_tokens=[f"lab:{NODE}"], session_tokens=[f"lab:{NODE}"])
    assert both.admit("node", "", NODE) == both.admit("session", "", NODE)
    assert both.admit("node", "", NODE) == Principal("lab", frozenset({"node", "session"}))


def test_tokens_without_a_name_are_different_people_and_never_shown() -> None:
    two = auth(session_tokens=[SESSION, ADMIN])
    first, second = two.admit("session", "", SESSION), two.admit("session", "", ADMIN)
    assert isinstance(first, Principal)
    assert isinstance(second, Principal)
    assert first.name != second.name
    assert first == auth(session_tokens=[SESSION]).admit("session", "", SESSION)
    assert SESSION not in repr(first)


def test_a_door_whose_scope_has_no_token_is_closed_where_others_have_some() -> None:
    assert code(auth(session_tokens=[SESSION]).admit("node", "127.0.0.1")) == "UNAUTHENTICATED"


@pytest.mark.parametrize(
    ("rule", "client", "is_in"),
    [
        ("open", "8.8.8.8", True),
        ("token", "127.0.0.1", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8, fd00::/8", "fd00::1%eth0", True),
        ("10.0.0.0/8", "", False),
        ("0.0.0.0/0", "fd00::1", False),
        ("192.168.1.7", "192.168.1.7", True),
    ],
)
def test_each_door_has_a_rule_of_its_own(rule: str, client: str, is_in: bool) -> None:
    doors = with_all(nodes=rule)
    assert isinstance(doors.admit("node", client), Principal) == is_in
    assert code(doors.admit("session", client)) == "UNAUTHENTICATED"


def test_a_rule_of_networks_holds_without_tokens_too() -> None:
    assert code(auth(nodes="10.0.0.0/8").admit("node", "127.0.0.1")) == "UNAUTHENTICATED"


def test_who_is_known_keeps_his_name_at_an_open_door_and_gets_no_more_than_the_door() -> None:
    found = with_all(nodes="open").admit("node", "", SESSION)
    assert found == Principal("app", frozenset({"node"}))
    assert with_all(nodes="open").admit("node", "", "junk") == Principal("", frozenset({"node"}))


def test_a_socket_may_show_its_token_later_but_not_a_wrong_one() -> None:
    doors = with_all()
    assert doors.admit_socket("node", "10.0.0.1", None) is None
    assert code(doors.admit_socket("node", "10.0.0.1", "junk")) == "UNAUTHENTICATED"
    assert isinstance(doors.admit_socket("node", "10.0.0.1", NODE), Principal)
    assert isinstance(with_all(nodes="open").admit_socket("node", "10.0.0.1", None), Principal)
    unknown = Peer(None, "10.0.0.1", None, "t1")
    assert code(doors.admit_first("node", unknown, None)) == "UNAUTHENTICATED"
    assert code(doors.admit_first("node", unknown, SESSION)) == "FORBIDDEN"
    assert isinstance(doors.admit_first("node", unknown, NODE), Principal)


def test_who_came_in_as_nobody_may_still_say_who_he_is_and_who_is_known_stays_who_he_is() -> None:
    nobody, app = Principal("", frozenset({"session"})), Principal("app", frozenset({"session"}))
    for rule in ("open", "10.0.0.0/8"):
        doors, peer = with_all(sessions=rule), Peer(nobody, "10.0.0.1", None, "t1")
        assert doors.admit_first("session", peer, None) == nobody
        assert doors.admit_first("session", peer, SESSION) == app
        assert doors.admit_first("session", peer, "junk") == nobody
        known = Peer(app, "10.0.0.1", None, "t1")
        assert doors.admit_first("session", known, None) == app
        assert doors.admit_first("session", known, ADMIN) == app


def test_a_node_speaks_only_for_itself() -> None:
    doors = with_all()
    fleet, lab = Principal("fleet", frozenset({"node"})), Principal("lab", frozenset({"node"}))
    secret = doors.node_secret("node-1", fleet, "3-x")
    assert secret is not None
    assert len(secret) == len("3-x.") + 64
    assert doors.check_node(fleet, "node-1", secret) == "3-x"
    assert code(doors.check_node(fleet, "node-1", secret.replace("3-x", "4-x"))) == "FORBIDDEN"
    assert code(doors.check_node(fleet, "node-1", secret.removeprefix("3-x."))) == "FORBIDDEN"
    assert code(doors.check_node(fleet, "node-1", None)) == "UNAUTHENTICATED"
    assert code(doors.check_node(fleet, "node-2", secret)) == "FORBIDDEN"
    assert code(doors.check_node(lab, "node-1", secret)) == "FORBIDDEN"
    assert code(doors.check_node(fleet, "node-1", "ä")) == "FORBIDDEN"


def test_any_instance_with_the_same_settings_knows_the_secret_of_a_node() -> None:
    fleet = Principal("fleet", frozenset({"node"}))
    secret = with_all().node_secret("node-1", fleet, "1-x")
    assert with_all().node_secret("node-1", fleet, "1-x") == secret
    assert with_all(secret="x" * 16).node_secret("node-1", fleet, "1-x") != secret
    other = auth(node_tokens=[NODE, SESSION], secret="x" * 16)
    assert other.node_secret("node-1", fleet, "1-x") == with_all(secret="x" * 16).node_secret("node-1", fleet, "1-x")


def test_without_tokens_a_node_has_no_secret() -> None:
    nobody = Principal("", frozenset({"node"}))
    assert auth().node_secret("node-1", nobody, "1-x") is None
    assert auth().check_node(nobody, "node-1", None) == ""
    assert auth().check_node(nobody, "node-1", "whatever") == ""


@pytest.mark.parametrize(
    ("headers", "protocols", "token"),
    [
        ({}, [], None),
        ({"authorization": "Bearer abc"}, [], "abc"),
        ({"authorization": "bearer  abc "}, [], "abc"),
        ({"authorization": "Basic abc"}, [], ""),
        ({"authorization": "Bearer a"}, ["token.b"], "a"),
        ({}, ["lingua.v1", "token.abc"], "abc"),
        ({}, ["lingua.v1", "token.a.b"], "a.b"),
        ({}, ["lingua.v1"], None),
    ],
)
def test_a_token_is_shown_in_a_header_or_as_a_subprotocol(
    headers: dict[str, str], protocols: list[str], token: str | None
) -> None:
    assert token_in(headers, protocols) == token


@given(st.text())
def test_no_text_is_a_token_but_the_token(text: str) -> None:
    assert isinstance(with_all().admit("node", "", text), Principal) == (text == NODE)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"node_tokens": ["short"]}, "auth.node_tokens: a token is 16 to 100 of"),
        ({"node_tokens": ["with space 0123456789"]}, "auth.node_tokens: a token is"),
        ({"node_tokens": ["bad name:0123456789abcdef"]}, "auth.node_tokens: a token is"),
        ({"node_tokens": "x" * 101}, "auth.node_tokens: a token is"),
        ({"secret": "short"}, "auth.secret: must be empty or have at least 16 characters"),
        ({"nodes": "closed"}, "auth.nodes: must be token, open or a list of networks"),
        ({"nodes": ""}, "auth.nodes: must be token, open or a list of networks"),
        ({"nodes": "10.0.0.1/8"}, "auth.nodes: must be token, open or a list of networks"),
        ({"node_tokens": [f"a:{NODE}"], "admin_tokens": [f"b:{NODE}"]}, "auth: a token has two names, 'b' and 'a'"),
    ],
)
def test_settings_that_let_the_wrong_ones_in_are_refused_and_no_token_is_shown(
    flags: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        auth(**flags)
    assert str(refused.value).startswith(message)
    assert NODE not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_tokens_are_not_in_the_words_of_the_settings() -> None:
    said = repr(load(env={"LINGUA_AUTH__NODE_TOKENS": NODE, "LINGUA_AUTH__SECRET": "x" * 20}))
    assert NODE not in said
    assert "x" * 20 not in said
