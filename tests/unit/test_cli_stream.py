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
