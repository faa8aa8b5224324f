"""What an operator sees of an approval before it is answered: its data, its form, and what to type."""

from __future__ import annotations

import asyncio
import json
import shlex
from dataclasses import dataclass
from typing import Any, Literal

import pydantic
import pytest

import outlast
from outlast import App
from outlast.cli.exits import ExitCode
from tests.unit.outlast_command import Outlast

PAY = {"tool": "pay", "args": {"order": "56", "cents": 2500}}


@dataclass
class Amount:
    cents: int
    why: str = ""


class Shipping(pydantic.BaseModel):
    class Box(pydantic.BaseModel):
        grams: int

    speed: Literal["slow", "fast"]
    boxes: list[Box]
    note: str | None = None


FORMS: dict[str, Any] = {"none": None, "amount": Amount, "shipping": Shipping}


@outlast.workflow(name="cli_asked")
async def asking(form: str = "none", data: Any = None) -> str:
    answer = await outlast.approve("Pay?", data=data, form=FORMS[form])
    return repr(answer.form)


def ask(command: Outlast, form: str, data: Any = None) -> str:
    """Have a run ask, and leave it to wait with no worker; return the id of its approval."""

    async def main() -> str:
        async with App(command.store) as app:
            run = await app.start(asking(form, data), id="r")
            while not (found := await run.approvals()):  # noqa: ASYNC110 - a client hears of no question
                await asyncio.sleep(0.01)
            return found[0].id

    return asyncio.run(main())


@pytest.mark.parametrize("verb", ["approvals", "show"])
def test_the_data_stands_with_the_question_whole_with_full(command: Outlast, verb: str) -> None:
    words = ("approvals",) if verb == "approvals" else ("show", "r")
    ask(command, "none", PAY | {"long": "x" * 1000})
    said = command.here(*words)
    assert json.dumps(PAY)[:-1] in said.stdout
    assert "x" * 1000 not in said.stdout
    assert "--full" in said.stderr
    full = command.here(*words, "--full")
    assert json.dumps(PAY | {"long": "x" * 1000}) in full.stdout
    assert "--full" not in full.stderr


def test_a_question_without_data_or_form_is_one_line(command: Outlast) -> None:
    ask(command, "none")
    said = command.here("approvals")
    assert len(said.stdout.splitlines()) == 2
    assert said.stderr == ""


@pytest.mark.parametrize(
    ("form", "fields", "filled_in"),
    [
        ("amount", "cents: integer, why: string (optional)", '{"cents": INTEGER}'),
        (
            "shipping",
            'speed: "slow" or "fast", boxes: array of {grams: integer}, note: string or null (optional)',
            '{"speed": STRING, "boxes": ARRAY}',
        ),
    ],
)
def test_a_form_is_told_with_its_fields_and_the_command_that_fills_it_in(
    command: Outlast, form: str, fields: str, filled_in: str
) -> None:
    approval = ask(command, form)
    typed = shlex.join(["outlast", "approve", approval, "--form", filled_in, "--url", str(command.store)])
    said = command.here("approvals").stdout.splitlines()
    assert [line.strip() for line in said[2:]] == [f"form  {fields}", typed]
    shown = command.here("show", "r").stdout
    assert f"form      {approval}  {fields}" in shown
    assert f"  {typed}\n" in shown
    assert f"  outlast reject {approval} --url {command.store}\n" in shown
    assert command.here("approve", approval, "--form", filled_in).exit_code == ExitCode.WRONG_USE


def test_the_command_for_a_form_works_once_it_is_filled_in(command: Outlast) -> None:
    approval = ask(command, "amount", PAY)
    (typed,) = (line for line in command.here("approvals").stdout.splitlines() if "--form" in line)
    words = shlex.split(typed.replace("INTEGER", "7"))[1:-2]
    said = command.here(*words)
    assert said.exit_code == 0
    assert "run r waits for a worker: no worker is alive; start one: outlast worker" in said.stderr
    assert command.here("approvals").stdout.count("\n") == 1
    given = command.here("approvals", "--status", "all").stdout
    assert '  given {"cents": 7' in given
    assert f"outlast approve {approval}" not in given


def test_show_has_open_approvals_in_its_json(command: Outlast) -> None:
    approval = ask(command, "amount", PAY)
    (asked,) = command.json("show", "r")["approvals"]
    assert (asked["id"], asked["data"]) == (approval, PAY)


@pytest.mark.parametrize("asks", [("cancel", "r"), ("send", "r", "paid"), ("cancel", "r", "--json")])
def test_what_is_asked_of_a_run_that_nobody_executes_is_told_so(command: Outlast, asks: tuple[str, ...]) -> None:
    ask(command, "none")
    said = command.here(*asks)
    assert said.exit_code == 0
    told = "run r waits for a worker: no worker is alive; start one: outlast worker"
    assert (told in said.stderr) == ("--json" not in asks)
