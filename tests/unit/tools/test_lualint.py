from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.lualint import lint
from tools.lualint.__main__ import ROOT, main
from tools.lualint.codes import known_to_python

KNOWN = frozenset({"ACCEPTED", "UNKNOWN_JOB"})

CLOCK = """\
-- The one clock.
local function clock(given)
  return tonumber(given) or redis.call("TIME")[1]
end
"""

SEEN = """\
-- What was seen in this run.
local seen = {}

local function see(name)
  seen[name] = true
  return seen
end
"""

GOOD = """\
#!lua flags=allow-oom
--[[ ack: the node has the job.
  ARGV  now_ms, then for each: job_id
  OUT   MOVED state | UNKNOWN_JOB                     ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for i = 2, #ARGV do
  local packed = redis.call("HGET", KEY.jobs, ARGV[i])
  if packed then
    -- include: see
    local job = cmsgpack.unpack(packed)
    job[JOB.state], job[JOB.accepted_at_ms] = "ACCEPTED", now
    redis.call("HSET", KEY.jobs, ARGV[i], cmsgpack.pack(job))
    see(ARGV[i])
  else
    answers[#answers + 1] = { "UNKNOWN_JOB" }
  end
end
return answers
"""

HEADER = """\
#!lua
--[[ bad: it is.
  ARGV  any
  OUT   any ]]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "flows" / "shared").mkdir(parents=True)
    (tmp_path / "views").mkdir()
    (tmp_path / "flows" / "shared" / "clock.lua").write_text(CLOCK)
    (tmp_path / "flows" / "shared" / "see.lua").write_text(SEEN)
    return tmp_path


def complaints(root: Path, name: str, text: str) -> list[str]:
    """What is said about one file, as `line: message`."""
    path = root / f"{name}.lua"
    path.write_text(text)
    return [f"{complaint.line}: {complaint.text}" for complaint in lint(root, [path], KNOWN)]


def flow(root: Path, body: str) -> list[str]:
    """What is said about the body of a flow; its first line is line 5."""
    return complaints(root, "flows/bad", HEADER + body)


def test_good_files_give_no_complaint(root: Path) -> None:
    assert complaints(root, "flows/ack", GOOD) == []
    assert lint(root, known=KNOWN) == []


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("local x = = 1\n", "5: syntax error"),
        ("if true then\n  return 1\n", "6: syntax error: 'end' is missing"),
        ("goto done\n", "5: Lua 5.1 has no goto"),
        ("return 7 // 2\n", "5: Lua 5.1 has no //"),
        ("return 7 & 2\n", "5: Lua 5.1 has no &"),
        ("return os.time()\n", "5: no local and no global is called os"),
        ("return clock(1)\n", "5: no local and no global is called clock"),
        ("do\n  -- include: clock\n  clock(1)\nend\nreturn clock(2)\n", "9: no local and no global is called clock"),
        ("answers = {}\nreturn 1\n", "5: answers would be a global"),
        ("function help()\nend\nreturn 1\n", "5: help would be a global"),
        ("local unused = 1\nreturn 1\n", "5: local unused is never read"),
        ("local written\nwritten = 1\nreturn 1\n", "5: local written is never read"),
        ("local function f(a, b)\n  return a\nend\nreturn f(1)\n", "5: parameter b is never read"),
        ("local function f()\n  return 1\nend\nreturn 1\n", "5: function f is never read"),
        ('for i = 1, 3 do\n  redis.call("PING")\nend\nreturn 1\n', "5: loop variable i is never read"),
        ("for k, v in pairs(ARGV) do\n  redis.call(v)\nend\nreturn 1\n", "5: loop variable k is never read"),
        ("local a = 1\nif a then\n  local a = 2\n  return a\nend\n", "7: a hides the one of line 5"),
        ("local a = 1\nlocal a = a + 1\nreturn a\n", "6: a hides the one of line 5"),
        ("local a = 1\nlocal function f(a)\n  return a\nend\nreturn f(a)\n", "6: a hides the one of line 5"),
        ("local type = 1\nreturn type\n", "5: type hides a global"),
        ("-- include: clock\nlocal clock = clock(1)\nreturn clock\n", "6: clock hides the one of line 5"),
        ("-- include: clock\nreturn 1\n", "5: include clock is not used"),
        ("-- include: clock\n-- include: clock\nreturn clock(1)\n", "6: clock is included twice"),
        ("-- include: nothing\nreturn 1\n", "5: there is no flows/shared/nothing.lua"),
        ('return redis.call("GET", KEYS[1])\n', "5: write KEY.name: the composer declares it"),
        ("local function f()\n  return ARGV[1]\nend\nreturn f()\n", "6: name ARGV[1] at the top of the script"),
        ('redis.call("PING")\n' * 15 + "return ARGV[1]\n", "20: name ARGV[1] at the top of the script"),
        ('return { "UNKNOWN_NODE" }\n', "5: Python does not know the code 'UNKNOWN_NODE'"),
        ('return { "ACEPTED" }\n', "5: Python does not know the code 'ACEPTED'"),
        ('return "a -- b"\n', "5: the composer would take -- in a string for a comment"),
        ("return 1 \n", "5: white space at the end of the line"),
        ("\treturn 1\n", "5: a tab"),
        ("if true then\n   return 1\nend\n", "6: indent by two spaces"),
        ("return '" + "x" * 112 + "'\n", "5: 121 characters, more than 120"),
        ("return 1", "5: end with one newline"),
        ("return 1\n\n", "6: end with one newline"),
        ("return KEY.nothing\n", "1: does not compose: flows/bad.lua: there is no key 'nothing'"),
        ("return JOB.nothing\n", "1: does not compose: flows/bad.lua: JOB has no 'nothing'"),
    ],
)  # fmt: skip
def test_a_flaw_in_a_script_is_found(root: Path, body: str, complaint: str) -> None:
    assert complaint in flow(root, body)


@pytest.mark.parametrize(
    "body",
    [
        "local _, b = 1, 2\nreturn b\n",
        'for _ = 1, 3 do\n  redis.call("PING")\nend\nreturn 1\n',
        'repeat\n  local done = redis.call("PING")\nuntil done\nreturn 1\n',
        "if ARGV[1] then\n  local a = 1\n  return a\nelse\n  local a = 2\n  return a\nend\n",
        "local function again(n)\n  return n == 0 or again(n - 1)\nend\nreturn again(3)\n",
        'local t = { key = 1, ["b"] = 2 }\nt.key = t:key()\nreturn t\n',
        'redis.call("PING")\n' * 15 + "for i = 1, #ARGV do\n  redis.call(ARGV[i])\nend\nreturn 1\n",
        'return redis.call("CONFIG", "REWRITE", ARGV[1] and "NX" or "XX")\n',
        'return ARGV[1] == "OURS" and "OURS"\n',
        "-- include: see\nsee(1)\nreturn seen\n",
    ],
)  # fmt: skip
def test_what_is_fine_is_left_alone(root: Path, body: str) -> None:
    assert flow(root, body) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD.replace("#!lua flags=allow-oom\n", ""), "1: begin with #!lua and its flags"),
        (GOOD.replace("allow-oom", "allow-all"), "1: the engine knows no flag 'allow-all'"),
        (GOOD.replace("--[[ ack", "--[[ acknowledge"), "2: the contract is of acknowledge, the file of ack"),
        (GOOD.replace("  ARGV ", "  IN "), "2: the contract has no line ARGV"),
        (GOOD.replace("  OUT ", "  OUTCOME "), "2: the contract has no line OUT"),
        (
            GOOD.replace("--[[", "-- what:\n--[["),
            "2: say the contract after the first line: --[[ ack: … ]]",
        ),
    ],
)
def test_a_script_without_its_contract_is_found(root: Path, text: str, complaint: str) -> None:
    assert complaint in complaints(root, "flows/ack", text)


def test_a_view_must_not_write(root: Path) -> None:
    view = GOOD.replace("ack:", "look:")
    assert "1: a view needs flags=no-writes" in complaints(root, "views/look", view)
    assert complaints(root, "views/look", view.replace("allow-oom", "no-writes")) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (CLOCK, "1: a shared file defines one local function, time; this one: clock"),
        (
            CLOCK.replace("clock", "time") + CLOCK,
            "1: a shared file defines one local function, time; this one: time and clock",
        ),
        ("-- Nothing.\n", "1: a shared file defines one local function, time; this one: none"),
        (
            CLOCK.replace("clock", "time") + "time(1)\n",
            "5: a shared file holds its function and its state, nothing that runs",
        ),
        (CLOCK.removeprefix("-- The one clock.\n"), "1: begin with a comment that says what the function is for"),
        (
            CLOCK.replace("clock", "time").replace("given)", "ARGV[1])", 2).replace("(ARGV[1])\n", "()\n", 1),
            "3: name ARGV[1] at the top of the script",
        ),
    ],
)
def test_a_shared_file_holds_one_function_of_its_name(root: Path, text: str, complaint: str) -> None:
    assert complaint in complaints(root, "flows/shared/time", text)


def test_a_shared_file_may_not_rely_on_what_others_include(root: Path) -> None:
    text = "-- Later.\nlocal function later(now)\n  return clock(now) + 1\nend\n"
    assert complaints(root, "flows/shared/later", text) == ["3: no local and no global is called clock"]
    text = text.replace("local", "-- include: clock\nlocal", 1)
    assert complaints(root, "flows/shared/later", text) == []
    assert flow(root, "-- include: later\nreturn later(clock(1))\n") == []


def test_two_shared_files_that_need_each_other_are_found(root: Path) -> None:
    shared = root / "flows" / "shared"
    (shared / "one.lua").write_text("-- One.\n-- include: two\nlocal function one()\n  return two()\nend\n")
    (shared / "two.lua").write_text("-- Two.\n-- include: one\nlocal function two()\n  return one()\nend\n")
    assert flow(root, "-- include: one\nreturn one()\n") == [
        "1: composed: no local and no global is called one (line 3: return one())"
    ]


def test_state_that_would_exist_twice_is_found(root: Path) -> None:
    blocks = "if ARGV[1] then\n  -- include: see\n  see(1)\nend\n"
    twice = blocks + "if ARGV[2] then\n  -- include: see\n  see(2)\nend\nreturn 1\n"
    assert "1: the state of see exists twice: include it at the left margin" in flow(root, twice)
    assert flow(root, blocks + "return 1\n") == []


def test_python_knows_the_states_and_what_its_own_files_spell(root: Path) -> None:
    (root / "face.py").write_text('ANSWERS = ("MOVED_ON", "lower")\n')
    known = known_to_python(root)
    assert {"FINISHED", "MOVED_ON"} <= known
    assert "lower" not in known


def test_the_command_names_file_line_and_flaw(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    monkeypatch.setattr("tools.lualint.__main__.ROOT", root)
    monkeypatch.chdir(root)
    (root / "flows" / "bad.lua").write_text(HEADER + "return os\n")
    (root / "flows" / "ack.lua").write_text(GOOD.replace('"ACCEPTED"', '"RUNNING"').replace('"UNKNOWN_JOB"', "1"))
    assert main([]) == 1
    assert "flows/bad.lua:5: no local and no global is called os\n" in capsys.readouterr().out
    assert main([str(root / "flows" / "ack.lua")]) == 0
    assert main([str(root / "flows" / "shared")]) == 0
    assert main([str(root / "nothing.lua")]) == 2
    assert main([str(Path(__file__))]) == 2


def test_the_command_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.lualint", str(ROOT / "flows" / "nothing.lua")],
        cwd=ROOT.parents[1],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
