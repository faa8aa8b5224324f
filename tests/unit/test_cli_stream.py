"""`outlast stream`, and what `outlast show` says of streams and published values."""

from __future__ import annotations

import asyncio
import json

import pytest

import outlast
from outlast import App, Retry
from outlast.cli.exits import ExitCode
from tests.unit.outlast_command import Outlast


@outlast.step(name="stream_cli_tell", effect="pure", retry=Retry(attempts=2, initial=0.001))
async def tell() -> None:
    outlast.stream("tokens").write(f"attempt {outlast.attempt()}")
    outlast.stream("tokens").write({"n": [1, 2]})
    if outlast.attempt() == 1:
        raise ConnectionError("no luck")


@outlast.workflow(name="stream_cli_flow")
async def flow() -> None:
    outlast.publish("progress", 0.5)
    outlast.stream("tokens").write("begin")
    await tell()


@pytest.fixture
def told(command: Outlast) -> Outlast:
    """Return a command whose store has a run that wrote a stream."""

    async def make() -> None:
        async with App(command.store) as app:
            await (await app.start(flow(), id="one")).result()

    asyncio.run(make())
    return command


def test_it_prints_what_is_there(told: Outlast) -> None:
    for how in ((), ("--follow", "--final")):
        said = told.here("stream", "one", "tokens", *how)
        assert (said.exit_code, said.stdout) == (0, 'begin\nattempt 2\n{"n": [1, 2]}\n')


def test_a_stream_that_the_run_does_not_have_is_told_with_those_it_has(told: Outlast) -> None:
    for how in ((), ("--follow",)):
        said = told.here("stream", "one", "another", *how)
        assert (said.exit_code, said.stdout) == (0, "")
        assert said.stderr == "run one has no stream 'another'; it has: tokens\n"
    assert told.here("stream", "one", "tokens", "--after", "99").stderr == ""


def test_a_reader_that_saw_what_was_dropped_is_told(told: Outlast) -> None:
    said = told.here("stream", "one", "tokens", "--after", "2")
    assert said.stdout == 'attempt 2\n{"n": [1, 2]}\n'
    assert "drop what came after position 1" in said.stderr
    said = told.here("stream", "one", "tokens", "--after", "3", "--json")
    reset, *items = [json.loads(line) for line in said.stdout.splitlines()]
    assert reset == {"reset": 1}
    assert [item["value"] for item in items] == ["attempt 2", {"n": [1, 2]}]


def test_wrong_names_and_unknown_runs_have_their_exit_codes(told: Outlast) -> None:
    assert told("stream", "none", "tokens").returncode == ExitCode.NOT_FOUND
    assert told("stream", "one", "").returncode == ExitCode.WRONG_USE


def test_show_has_streams_and_published_values(told: Outlast) -> None:
    said = told.here("show", "one").stdout
    assert "published progress = 0.5" in said
    assert "stream    tokens, up to position" in said
    shown = told.json("show", "one")
    assert shown["published"] == {"progress": 0.5}
    assert [(s["name"], s["final"]) for s in shown["streams"]] == [("tokens", None)]


@outlast.workflow(name="stream_cli_fails")
async def fails() -> None:
    outlast.stream("tokens").write("half an ans")
    raise LookupError("no such order")


def make(command: Outlast, call: outlast.Call[object], *, worker: bool) -> None:
    async def main() -> None:
        async with App(command.store, worker=worker) as app:
            run = await app.start(call, id="one")
            if worker:
                await asyncio.wait([asyncio.ensure_future(run.result())])

    asyncio.run(main())


def test_a_follower_is_told_of_a_run_that_did_not_succeed(command: Outlast) -> None:
    make(command, fails(), worker=True)
    said = command.here("stream", "one", "tokens", "--follow")
    assert said.stdout == "half an ans\n"
    assert "error: run one (stream_cli_fails) failed: LookupError: no such order" in said.stderr
    assert command("stream", "one", "tokens", "--follow", "--url", str(command.store)).returncode == ExitCode.FAILED
    only_read = command("stream", "one", "tokens", "--url", str(command.store))
    assert (only_read.returncode, only_read.stderr) == (0, "")


def test_a_follower_of_a_cancelled_run_is_told(command: Outlast) -> None:
    make(command, flow(), worker=False)
    assert command.here("cancel", "one", "--force").exit_code == 0
    said = command("stream", "one", "tokens", "-f", "--json", "--url", str(command.store))
    assert said.returncode == ExitCode.FAILED
    assert json.loads(said.stderr.splitlines()[-1])["type"] == "RunCancelled"


LATER = """
    import outlast

    @outlast.workflow
    async def later() -> None:
        outlast.stream("tokens").write(await outlast.receive("word"))
"""


def test_a_follower_that_came_first_waits_for_the_stream(command: Outlast) -> None:
    """The run is pending, no worker is there, and it has no stream yet."""
    code = command.write("later.py", LATER)
    command("start", f"{code}:later", "--id", "one")
    with command.process("stream", "one", "tokens", "--follow") as follower:
        follower.wait_for("run one waits for a worker: no worker is alive; start one: outlast worker later")
        with command.process("worker", code) as worker:
            worker.wait_for("ready")
            command("send", "one", "word", '"hello"')
            follower.wait_for("hello")
            assert not any("has no stream" in line for line in follower.lines)


def test_text_runs_on_without_ends_of_lines(told: Outlast) -> None:
    assert told.here("stream", "one", "tokens", "--text").stdout == 'beginattempt 2{"n": [1, 2]}\n'
    said = told("stream", "one", "tokens", "--text", "--json", "--url", str(told.store))
    assert said.returncode == ExitCode.WRONG_USE
