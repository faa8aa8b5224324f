"""What `outlast worker` logs of the user's code: where it was said, in the words that notices have for it."""

from __future__ import annotations

import json
import signal

import pytest

from tests.unit.outlast_command import Outlast

CODE = """
import logging
import outlast

@outlast.step
async def speak() -> None:
    outlast.current.logger.info("a word from the step")
    logging.getLogger("shop").info("a word from the shop")
    logging.getLogger("shop").warning("a warning from the shop")

@outlast.workflow
async def talk() -> None:
    outlast.current.logger.info("a word from the body")
    await speak()
"""


def lines(command: Outlast, *options: str) -> list[str]:
    """Return what a worker logs that executes run `r`."""
    name = command.write("chatty.py", CODE)
    command("start", f"{name}:talk", "--id", "r")
    with command.process("worker", name, *options) as worker:
        worker.wait_for('"run.ended"' if "--json" in options else "run r (talk) succeeded")
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0
        return worker.lines


def test_a_line_of_the_runs_logger_names_the_run_and_the_step(command: Outlast) -> None:
    said = [line.partition(" ")[2] for line in lines(command)]
    assert "run r: a word from the body" in said
    assert "run r, step main/speak#1: a word from the step" in said


def test_in_json_it_has_the_names_that_notices_have(command: Outlast) -> None:
    said = {line["message"]: line for line in map(json.loads, lines(command, "--json"))}
    line = said["a word from the step"]
    assert (line["run"], line["step"], line["workflow"]) == ("r", "main/speak#1", "talk")
    assert "step" not in said["a word from the body"]
    assert {line["logger"] for line in said.values() if "event" in line} == {"outlast"}


@pytest.mark.parametrize(("options", "told"), [((), False), (("--verbose",), True)])
def test_other_loggers_are_heard_from_warning_on_and_with_verbose_from_info_on(
    command: Outlast, options: tuple[str, ...], *, told: bool
) -> None:
    said = "\n".join(lines(command, *options))
    assert "a warning from the shop" in said
    assert ("a word from the shop" in said) == told
