from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.core.refusal import CODES
from lingua_scheduler.protocol import fleet, http, node, session
from lingua_scheduler.protocol.codec import MAX_BRACKETS, MAX_DEPTH, Reader, Undecodable, encode, explain
from lingua_scheduler.protocol.errors import CloseCode

if TYPE_CHECKING:
    from lingua_scheduler.protocol.fields import Message

READERS: dict[str, Reader[Any]] = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in (fleet, http, node, session)
    for name, value in vars(module).items()
    if isinstance(value, Reader)
}
EXAMPLES: dict[type[msgspec.inspect.Type], Any] = {
    msgspec.inspect.UnionType: None,
    msgspec.inspect.ListType: [],
    msgspec.inspect.BoolType: True,
    msgspec.inspect.IntType: 1,
    msgspec.inspect.StrType: "a",
}
DISPATCH = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh"}


def refused(reader: Reader[Any], data: bytes | str) -> Undecodable:
    with pytest.raises(Undecodable) as found:
        reader(data)
    return found.value


def wrong(**fields: object) -> str:
    """What is said of a dispatch with these fields."""
    return refused(http.read_dispatch, json.dumps(DISPATCH | fields)).refusal.detail


# Whatever comes, there is a message or an `Undecodable`.

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
types = st.sampled_from(sorted({str(tag) for reader in READERS.values() for tag in reader.kinds} | session.ROOMS))
names = st.sampled_from(
    sorted({field for reader in READERS.values() for kind in reader.kinds.values() for field in kind.__struct_fields__})
)


def read(reader: Reader[Any], data: bytes | str) -> Any:
    try:
        return reader(data)
    except Undecodable as undecodable:
        return undecodable


def survives(reader: Reader[Any], data: bytes | str) -> None:
    found = read(reader, data)
    if isinstance(found, Undecodable):
        assert found.refusal.code in CODES
        assert 0 < len(found.refusal.detail) < 500
        assert found.close in {None, CloseCode.NOT_JSON}
    else:
        assert reader(encode(found)) == found


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@settings(max_examples=40)
@given(data=st.binary() | st.text())
def test_any_bytes_are_survived(reader: Reader[Any], data: bytes | str) -> None:
    survives(reader, data)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@settings(max_examples=40)
@given(data=anything)
def test_any_json_is_survived(reader: Reader[Any], data: object) -> None:
    survives(reader, json.dumps(data))


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@settings(max_examples=40)
@given(kind=types, data=st.dictionaries(names, anything | st.sampled_from(["a", "en", "auto", 1, [], {}]), max_size=6))
def test_anything_in_known_fields_is_survived(reader: Reader[Any], kind: str, data: dict[str, object]) -> None:
    survives(reader, json.dumps({"type": kind} | data))


@pytest.mark.parametrize(
    "junk", [b"9" * 5000, b"1e999", b"-" + b"9" * 400, b'"\\ud800"', b'"\xff"', b"[" * 100_000, b"NaN"]
)
@pytest.mark.parametrize("field", ["payload", "unknown", "session_id", "options"])
def test_junk_is_survived_wherever_it_is(field: str, junk: bytes) -> None:
    for wrap in (b"%s", b'{"x":%s}', b"[%s]"):
        body = json.dumps(DISPATCH)[:-1].encode() + b',"%s":%s}' % (field.encode(), wrap % junk)
        survives(http.read_dispatch, body)


# What is wrong is named.


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1", b"nonsense", b'{"type":"job_ack"}x', b"\xef\xbb\xbf{}", b'{"a":1,}']
)
@pytest.mark.parametrize("reader", [node.read_from_node, http.read_dispatch])
def test_what_is_not_json_closes_the_socket(reader: Reader[Any], data: bytes) -> None:
    said = refused(reader, data)
    assert said.refusal.code == "INVALID_MESSAGE"
    assert said.refusal.detail.startswith("The message is not JSON: ")
    assert said.close == CloseCode.NOT_JSON


def test_what_is_not_utf_8_closes_the_socket() -> None:
    for data in (b'{"type":"node_error","code":"\xff"}', '{"type":"node_error","code":"\ud800"}'):
        said = refused(node.read_from_node, data)
        assert (said.refusal.detail, said.close) == ("The message is not JSON: it is not UTF-8.", CloseCode.NOT_JSON)


def test_json_that_breaks_off_after_a_mistake_is_still_not_json() -> None:
    assert refused(http.read_dispatch, b'{"session_id":1,"x":').close == CloseCode.NOT_JSON


@pytest.mark.parametrize("data", [b"[]", b"1", b"null", b'"type"', b"true"])
@pytest.mark.parametrize("reader", [node.read_from_node, http.read_dispatch])
def test_a_message_is_an_object(reader: Reader[Any], data: bytes) -> None:
    said = refused(reader, data)
    assert (said.refusal.detail, said.close) == ("The message must be an object.", None)


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        ("{}", "type: missing"),
        ('{"type":null}', "type: missing"),
        ('{"type":1}', "type: expected a string"),
        ('{"type":"job_akc"}', "type: unknown message type 'job_akc'"),
        (json.dumps({"type": "x" * 50}), f"type: unknown message type '{'x' * 40}…'"),
    ],
)
def test_a_message_without_a_known_type_is_invalid_and_the_socket_stays_open(data: str, detail: str) -> None:
    for reader in (node.read_from_node, session.read_from_client):
        said = refused(reader, data)
        assert (said.refusal.code, said.refusal.detail) == ("INVALID_MESSAGE", detail)
        assert (said.kind, said.close) == ("", None)


def test_of_a_known_message_the_type_is_told() -> None:
    said = refused(node.read_from_node, '{"type":"job_ack","job_id":"c0.1"}')
    assert (said.kind, said.refusal.detail) == ("job_ack", "attempt_id: missing")


def test_the_wrong_field_is_named_with_its_way_and_in_plain_words() -> None:
    assert wrong(options={"wait_ms": "5"}) == "options.wait_ms: expected an integer, got a string"
    assert wrong(options={"wait_ms": 5.5}) == "options.wait_ms: expected an integer, got a number"
    assert wrong(options={"wait_ms": True}) == "options.wait_ms: expected an integer, got true or false"
    assert wrong(options={"wait_ms": -1}) == "options.wait_ms: expected an integer >= 0"
    assert wrong(options={"wait_ms": 60_001}) == "options.wait_ms: expected an integer <= 60000"
    assert wrong(options={"strict": 1}) == "options.strict: expected true or false, got an integer"
    assert wrong(options={"labels": {"a": None}}) == "options.labels[...]: expected a string, got null"
    assert wrong(options={"labels": {"a" * 65: ""}}) == "a name in options.labels: expected a string of length <= 64"
    assert (
        wrong(options={"exclude_node_ids": ["a"] * 17}) == "options.exclude_node_ids: expected a list of length <= 16"
    )
    assert wrong(options=[]) == "options: expected an object, got a list"
    assert wrong(payload="x") == "payload: expected an object, got a string"
    assert wrong(tgt_lang=None) == "tgt_lang: expected a string, got null"
    assert refused(http.read_dispatch, b"{}").refusal.detail == "session_id: missing"
    nested = {"node_id": "n", "running": [{"job_id": "c0.1", "attempt_id": 1}, {"job_id": "c0.2"}]}
    assert refused(http.read_heartbeat, json.dumps(nested)).refusal.detail == "running[1].attempt_id: missing"


def test_an_id_that_is_none_is_told_what_an_id_is() -> None:
    for bad in ("", "a b", "{a}", "a:b", "x" * 10_000, "a\n"):
        rule = "expected 1 to 128 of A-Z a-z 0-9 . _ - that begin with no mark"
        assert wrong(session_id=bad) == f"session_id: {rule}"
        assert wrong(options={"exclude_node_ids": ["ok", bad]}) == f"options.exclude_node_ids[1]: {rule}"


def test_a_value_that_does_not_exist_is_shown_but_not_all_of_it() -> None:
    assert wrong(options={"policy": "best"}) == "options.policy: 'best' is none of the values that it may have"
    assert len(wrong(options={"policy": "x" * 10_000})) < 120
    tricky = "x - at `$.session_id`"
    assert wrong(options={"policy": tricky}).startswith(f"options.policy: '{tricky}'")


def test_what_msgspec_says_of_the_whole_is_said_of_the_message() -> None:
    assert explain("Expected `object`, got `int`") == "The message: expected an object, got an integer"
    assert explain("Number out of range - at `$.x`") == "x: number out of range"


def test_a_message_may_not_be_nested_without_end() -> None:
    def payload(depth: int, opens: str = "[", closes: str = "]") -> str:
        return json.dumps(DISPATCH)[:-1] + ',"payload":{"x":' + opens * depth + "1" + closes * depth + "}}"

    for opens, closes, each in (("[", "]", 1), ('{"x":', "}", 1), ('[{"x":', "}]", 2)):
        most = (MAX_DEPTH - 2) // each
        assert http.read_dispatch(payload(most, opens, closes)).payload is not None
        for depth in (most + 1, 500, 9_000):
            said = refused(http.read_dispatch, payload(depth, opens, closes))
            assert (said.refusal.detail, said.close) == ("The message is nested more than 64 deep.", None)
    assert refused(http.read_dispatch, payload(9_000).replace("en", "e").replace('"s"', "1")).close is None


@pytest.mark.parametrize("few", ["[]", "{}", "[[],{}]"])
def test_a_message_may_not_have_lists_without_end(few: str) -> None:
    def message(number: int) -> str:
        return json.dumps(DISPATCH)[:-1] + ',"payload":{"x":[' + ",".join([few] * number) + "]}}"

    each = few.count("[") + few.count("{")
    fits = message((MAX_BRACKETS - 3) // each)
    assert http.read_dispatch(fits).payload is not None
    said = refused(http.read_dispatch, message(MAX_BRACKETS))
    assert (said.refusal.detail, said.close) == (f"The message has more than {MAX_BRACKETS} lists and objects.", None)


def test_wide_is_not_deep() -> None:
    rows = [[text] for text in ["[", '"[', "\\", '\\"[{', "]"] * 100]
    assert http.read_dispatch(json.dumps(DISPATCH | {"payload": {"rows": rows}})).payload == {"rows": rows}


def test_meeting_rooms_are_known_but_not_served() -> None:
    for kind in (
        *("room_create", "room_join", "room_leave", "room_members", "room_raw_voice_preference", "room_expired"),
        *("room_error", "webrtc_offer", "webrtc_answer", "webrtc_ice"),
    ):
        said = refused(session.read_from_client, json.dumps({"type": kind, "room_code": "123456"}))
        assert (said.refusal.code, said.kind, said.close) == ("UNSUPPORTED_FEATURE", kind, None)
        assert kind in said.refusal.detail
        assert refused(node.read_from_node, json.dumps({"type": kind})).refusal.code == "INVALID_MESSAGE"


# Reading and writing.


@pytest.mark.parametrize(
    ("reader", "kind"),
    [(reader, kind) for reader in READERS.values() for kind in reader.kinds.values()],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_null_is_the_same_as_left_out_and_unknown_fields_are_ignored(reader: Reader[Any], kind: type[Message]) -> None:
    least = smallest(kind)
    optional = {field.name: None for field in msgspec.structs.fields(kind) if field.default is None}
    bare = reader(json.dumps(least))
    assert type(bare) is kind
    assert reader(json.dumps(least | optional)) == bare
    assert reader(json.dumps({"brand_new": {"x": [1]}} | least | {"z": None})) == bare
    assert json.loads(encode(bare)) == least


def smallest(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The least that such a message says."""
    tag = kind.__struct_config__.tag
    said: dict[str, Any] = {} if tag is None else {"type": tag}
    for field in msgspec.structs.fields(kind):
        if field.required:
            said[field.encode_name] = example(msgspec.inspect.type_info(field.type))
    return said


def example(kind: msgspec.inspect.Type) -> Any:
    match kind:
        case msgspec.inspect.Metadata(type=inner):
            return example(inner)
        case msgspec.inspect.LiteralType(values=values):
            return values[0]
        case msgspec.inspect.StructType(cls=cls):
            return smallest(cls)
    return EXAMPLES[type(kind)]
