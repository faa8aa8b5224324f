"""`outlast runs` and `show`: what is in a store, for people and for programs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import termios
from dataclasses import dataclass

import apsw
import pytest

import outlast
from outlast import App, Retry
from outlast.cli.exits import ExitCode
from outlast.cli.tree import Branch, Entry, branches_of
from outlast.core.errors import WrongUse
from outlast.runtime.infos import StepInfo
from tests.unit.outlast_command import Outlast


@dataclass
class Parcel:
    weight: int


@outlast.step(name="show_pack", effect="pure")
async def pack(weight: int) -> Parcel:
    return Parcel(weight)


@outlast.step(name="show_flaky", retry=Retry(attempts=2, initial=0.001))
async def flaky() -> str:
    if outlast.attempt() == 1:
        raise ConnectionError("no luck")
    return "x" * 500


@outlast.workflow(name="show_child")
async def child(word: str) -> str:
    return word


@outlast.workflow(name="show_failing")
async def failing() -> None:
    raise WrongUse("on purpose: " + "long " * 100)


@outlast.workflow(name="show_order")
async def order(weight: int, *, name: str = "ann") -> str:
    async def wrap(n: int) -> str:
        async with outlast_scope("paper"):
            await pack(n)
        return await flaky()

    await pack(weight)
    await asyncio.gather(asyncio.create_task(wrap(1)), asyncio.create_task(wrap(2)))
    await asyncio.sleep(0.001)
    return await child(name)


class outlast_scope:  # noqa: N801 - stands in for `with outlast.scope`
    def __init__(self, key: str) -> None:
        self._scope = outlast.scope(key)

    async def __aenter__(self) -> None:
        self._scope.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self._scope.__exit__(None, None, None)


def execute(command: Outlast) -> None:
    async def main() -> None:
        async with App(command.store) as app:
            await (await app.start(order(3), id="order-1")).result()
            with pytest.raises(WrongUse):
                await (await app.start(failing(), id="failing-1")).result()

    asyncio.run(main())


def queue(command: Outlast, *ids: str) -> None:
    async def main() -> None:
        async with App(command.store, worker=False) as app:
            for name in ids:
                await app.start(child(name), id=name)

    asyncio.run(main())


def test_runs_lists_the_newest_first(command: Outlast) -> None:
    queue(command, "a", "b", "c")
    listed = command.json("runs")
    assert [run["id"] for run in listed] == ["c", "b", "a"]
    assert listed[0]["status"] == "pending"
    assert listed[0]["workflow"] == "show_child"
    assert listed[0]["created"].endswith("Z")
    lines = command.here("runs").stdout.splitlines()
    assert lines[0].split() == ["RUN", "WORKFLOW", "STATUS", "CREATED", "TOOK", "DETAIL"]
    assert [line.split()[0] for line in lines[1:]] == ["c", "b", "a"]


def test_runs_can_be_read_page_by_page(command: Outlast) -> None:
    queue(command, "a", "b", "c")
    first = command.here("runs", "--limit", "2")
    assert "--before b" in first.stderr
    assert [run["id"] for run in command.json("runs", "--limit", "2", "--before", "b")] == ["a"]
    assert command.here("runs", "--before", "nobody").exit_code == ExitCode.NOT_FOUND


def test_runs_can_be_chosen(command: Outlast) -> None:
    execute(command)
    queue(command, "order-2", "50%_off")

    def ids(*words: str) -> set[str]:
        return {run["id"] for run in command.json("runs", *words)}

    assert ids("--status", "failed") == {"failing-1"}
    assert ids("--status", "failed", "--status", "pending") == {"failing-1", "order-2", "50%_off"}
    assert ids("--workflow", "show_order") == {"order-1"}
    assert {"order-1", "order-2"} <= ids("--prefix", "order-")
    assert ids("--prefix", "50%_") == {"50%_off"}
    assert ids("--prefix", "%") == ids("--reason", "in_doubt") == set()
    for words in (("--status", "lost"), ("--reason", "tired")):
        wrong = command.here("runs", *words)
        assert wrong.exit_code == ExitCode.WRONG_USE
        assert f"Invalid value for '{words[0]}'" in wrong.stderr
        assert f"{words[1]!r} is none of" in wrong.stderr


def test_no_runs_is_no_error(command: Outlast) -> None:
    queue(command)
    assert command.json("runs") == []
    assert command.here("runs").exit_code == 0


def on_a_terminal(command: Outlast, columns: int, *words: str) -> str:
    """Return what a command writes to a terminal of this width."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (50, columns))
    with os.fdopen(ours, "rb", buffering=0) as terminal, os.fdopen(its, "wb", buffering=0) as end:
        argv = [sys.executable, "-m", "outlast", *words]
        env = command.env | {"TERM": "xterm-256color"}
        with subprocess.Popen(argv, cwd=command.folder, env=env, stdin=end, stdout=end, stderr=end) as process:
            end.close()
            written = b""
            with contextlib.suppress(OSError):  # the terminal's end, on Linux
                while part := terminal.read(65536):
                    written += part
        assert process.returncode == 0
    return written.decode()


def test_a_narrow_terminal_cuts_the_last_column_and_no_id(command: Outlast) -> None:
    execute(command)
    queue(command, "a-run-with-a-long-name-" + "y" * 60)
    text = on_a_terminal(command, 60, "runs")
    assert "a-run-with-a-long-name-" + "y" * 60 in text
    assert "\x1b[31mfailed" in text
    assert "WrongUse: o…" in text


def test_show_draws_branches_in_the_order_of_the_code(command: Outlast) -> None:
    execute(command)
    text = command.here("show", "order-1").stdout
    assert "run order-1  show_order  succeeded" in text
    assert "arguments (3)" in text
    assert 'result    "ann"' in text
    lines = text.splitlines()
    names = [line.strip("│├└─ ✓").partition("  ")[0] for line in lines[lines.index("main") :]]
    assert names[:2] == ["main", "show_pack#1"]
    first, second = names.index("wrap#1"), names.index("wrap#2")
    assert names[first : first + 4] == ["wrap#1", "[paper]", "show_pack#1", "show_flaky#1"]
    assert first < second < names.index("timer#1") < names.index("show_child#1")
    assert "2 attempts" in text
    assert '{"weight": 3}' in text


def test_show_says_what_the_columns_are_and_when_each_thing_began(command: Outlast) -> None:
    execute(command)
    text = command.here("show", "order-1").stdout
    assert "  each line when begun, how long, effect; a timer: when it fired; a message: when it was sent; " in text
    lines = {line.strip("│├└─ ✓").partition("  ")[0]: line.rstrip() for line in text.splitlines()}
    assert re.search(r"timer#1  fired \d\d:\d\d:\d\d$", lines["timer#1"])
    assert re.search(r"show_child#1  \d\d:\d\d:\d\d  \d+ ms  run \S+ succeeded  = ", lines["show_child#1"])
    steps = {step["name"]: step for step in command.json("show", "order-1")["steps"]}
    assert steps["timer"]["started"] is None
    assert steps["timer"]["ended"] >= steps["timer"]["due"]
    assert steps["show_child"]["started"] < steps["show_child"]["ended"]


def test_a_timer_that_fired_late_is_told_with_both_times(command: Outlast) -> None:
    execute(command)
    db = apsw.Connection(str(command.store))
    db.execute("UPDATE records SET due = at - 3600 WHERE kind = 'timer'")
    db.close()
    assert re.search(r"timer#1  fired \S+  due \d{4}-", command.here("show", "order-1").stdout)


def test_show_shortens_values_unless_told_not_to(command: Outlast) -> None:
    execute(command)
    assert "x" * 400 not in command.here("show", "order-1").stdout
    assert "x" * 500 in command.here("show", "order-1", "--full").stdout
    short = command.here("show", "failing-1").stdout
    assert "WrongUse: on purpose" in short
    assert "long " * 99 not in short
    assert "outlast resume failing-1" in short


def test_show_as_json_has_everything(command: Outlast) -> None:
    execute(command)
    shown = command.json("show", "order-1")
    assert shown["run"]["result"] == "ann"
    assert shown["run"]["arguments"] == [[3], {}]
    steps = {step["id"]: step for step in shown["steps"]}
    assert steps["main/show_pack#1"]["value"] == {"weight": 3}
    assert steps["main/show_pack#1"]["args"] is not None
    paper = steps["main.wrap#1.[paper]/show_pack#1"]
    assert (paper["branch"], paper["effect"], paper["state"]) == ("main.wrap#1.[paper]", "pure", "done")
    assert steps["main.wrap#2/show_flaky#1"]["value"] == "x" * 500
    born = steps["main/show_child#1"]
    assert [born["child"]] == shown["children"]
    below = command.json("show", born["child"])
    assert below["run"]["parent"] == "order-1"


def test_show_names_a_child_that_has_not_ended(command: Outlast) -> None:
    @outlast.workflow(name="show_waiting_child")
    async def waiting_child() -> None:
        await asyncio.sleep(3600)

    @outlast.workflow(name="show_parent")
    async def parent() -> None:
        await waiting_child()

    async def main() -> None:
        parked = asyncio.Event()

        def hear(notice: outlast.Notice) -> None:
            if notice.name == "run.parked" and notice.data["run"] == "p":
                parked.set()

        async with App(command.store, park_after=0.01, on_event=hear) as app:
            run = await app.start(parent(), id="p")
            assert run.id == "p"
            await parked.wait()

    asyncio.run(main())
    shown = command.json("show", "p")
    assert shown["steps"][0]["name"] == "show_waiting_child"
    assert shown["steps"][0]["child"] == shown["children"][0]
    assert shown["run"]["status"] == "waiting"
    text = command.here("show", "p").stdout
    assert shown["children"][0] in text
    assert "waits for" in text
    tree, advice = text.split("\nno worker is alive; start one, where its code is:\n")
    assert tree.endswith(" waiting")  # the child's own status, and no other word for it
    assert advice.startswith("  outlast worker tests.unit.test_cli_show --url")


def test_one_bad_value_spoils_nothing_else(command: Outlast) -> None:
    execute(command)
    db = apsw.Connection(str(command.store))
    db.execute("UPDATE records SET value = x'ff00', args = x'00' WHERE key = 'main/show_pack#1'")
    db.execute("UPDATE runs SET result = x'c328' WHERE id = 'order-1'")
    db.execute("UPDATE runs SET error = x'7b' WHERE id = 'failing-1'")
    db.close()
    for words in (
        ("runs",),
        ("show", "order-1"),
        ("show", "failing-1"),
        ("show", "order-1", "--json"),
        ("runs", "--json"),
    ):
        result = command.here(*words)
        assert result.exit_code == 0, (words, result.output)
        assert "show_order" in result.stdout or "failing" in result.stdout
    assert "show_flaky#1" in command.here("show", "order-1").stdout
    assert command.here("result", "order-1").exit_code == 0
    assert command.here("result", "failing-1").exit_code == ExitCode.FAILED


def test_a_value_of_the_future_is_shown_with_its_tag(command: Outlast) -> None:
    execute(command)
    db = apsw.Connection(str(command.store))
    db.execute("UPDATE runs SET result = ? WHERE id = 'order-1'", (b'{"$quaternion": [1, {"$int": "0x10"}]}',))
    db.close()
    assert json.loads(command.here("result", "order-1").stdout) == [1, 16]


def test_branches_appear_where_they_were_made() -> None:
    steps = ["main/a#1", "main.t#1.[x%2E/y]/b#1", "main/c#1", "main.t#1/d#1", "a patch", "main.t#2.u#1/e#1"]
    root = branches_of([Entry(StepInfo(id=step, name="", kind="step", state="done")) for step in steps])

    def outline(branch: Branch) -> list[object]:
        return [outline(item) if isinstance(item, Branch) else item.step.id for item in branch.items]

    assert outline(root) == [
        "main/a#1", [["main.t#1.[x%2E/y]/b#1"], "main.t#1/d#1"], "main/c#1", "a patch", [["main.t#2.u#1/e#1"]],
    ]  # fmt: skip
