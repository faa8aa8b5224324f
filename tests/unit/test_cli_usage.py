"""What `outlast show` and `resume` say of tokens, money and budgets."""

from __future__ import annotations

import asyncio

import apsw
import pytest

import outlast
from outlast import App, BudgetExceeded, Retry
from outlast.cli.exits import ExitCode
from outlast.cli.used import cost_told
from tests.unit.outlast_command import Outlast


@outlast.step(effect="pure", retry=Retry(attempts=2, initial=0.001), name="cli_usage_ask")
async def ask(n: int) -> int:
    outlast.record_usage(model="m", input_tokens=1_000, output_tokens=n, cost=0.0125)
    if n == 2 and outlast.attempt() == 1:
        raise ConnectionError
    return n


@outlast.step(name="cli_usage_think")
async def think() -> None:
    outlast.record_usage(model="unheard-of", output_tokens=1)


@outlast.step(effect="pure", name="cli_usage_silent", spends=True)
async def silent() -> None: ...


@outlast.workflow(name="cli_usage_silent_agent")
async def silent_agent(*, tells: bool) -> None:
    if tells:
        await think()
    await silent()
    await silent()


@outlast.workflow(name="cli_usage_agent", max_tokens=2_500)
async def agent() -> int:
    await think()
    return await ask(1) + await ask(2) + await ask(3)


@pytest.fixture
def command(command: Outlast) -> Outlast:
    async def main() -> None:
        async with App(command.store) as app:
            with pytest.raises(BudgetExceeded):
                await (await app.start(agent(), id="r")).result()

    asyncio.run(main())
    return command


def test_show_says_what_a_run_used_and_may_use(command: Outlast) -> None:
    shown = command.here("show", "r").stdout
    again = "1,002 tokens, cost 0.0125 again by retries"
    used = f"3,006 tokens, cost 0.0375 (3,000 in, 6 out; {again}; no price for 'unheard-of')"
    assert f"  usage     {used}\n  budget    2,500 tokens\n" in shown
    assert "  2 attempts  2,004 tokens, cost 0.025" in shown
    told = command.json("show", "r")
    usage = told["usage"]
    assert usage["spent"] == {"tokens": 3006, "input": 3000, "output": 6, "cached": 0, "calls": 4, "cost": 0.0375}
    assert usage["again"]["tokens"] == 1002
    assert usage["saved"]["tokens"] == 0
    assert usage["models"]["unheard-of"]["cost"] is None
    assert (usage["unpriced"], usage["max_tokens"], usage["max_cost"]) == (["unheard-of"], 2500, None)
    assert [step["usage"] and step["usage"]["tokens"] for step in told["steps"]] == [1, 1001, 2004, None]


def test_a_run_that_has_used_up_its_budget_goes_on_with_more(command: Outlast) -> None:
    assert "outlast resume r --max-tokens N" in command.here("show", "r", "--full").stdout
    assert command.here("resume", "r", "--max-tokens", "0").exit_code == ExitCode.WRONG_USE
    assert command.here("resume", "r", "--max-tokens", "9000", "--max-cost", "1").exit_code == 0
    told = command.json("show", "r")["usage"]
    assert (told["max_tokens"], told["max_cost"]) == (9000, 1)
    assert told["saved"]["tokens"] == 1 + 1001 + 1002
    assert "  budget    9,000 tokens and a cost of 1\n" in command.here("show", "r").stdout


def test_show_says_which_calls_have_told_nothing(command: Outlast) -> None:
    async def main() -> None:
        async with App(command.store) as app:
            for tells in (False, True):
                await (await app.start(silent_agent(tells=tells), id=f"tells {tells}")).result()

    asyncio.run(main())
    told = "2 calls of cli_usage_silent told nothing"
    assert f"  usage     {told}\n" in command.here("show", "tells False").stdout
    used = f"1 token (0 in, 1 out; no price for 'unheard-of'; {told})"
    assert f"  usage     {used}\n" in command.here("show", "tells True").stdout
    assert command.json("show", "tells False")["usage"]["unknown"] == {"cli_usage_silent": 2}


@pytest.mark.parametrize(
    ("cost", "told"), [(0.0, "0"), (12.5, "12.5"), (0.0125, "0.0125"), (1234.5678912, "1,234.567891"), (3e-9, "3e-09")]
)
def test_a_cost_is_told_as_a_person_would_write_it(cost: float, told: str) -> None:
    assert cost_told(cost) == told


def test_spoiled_options_do_not_hide_what_a_run_used(command: Outlast) -> None:
    db = apsw.Connection(str(command.folder / "outlast.db"))
    db.execute("""UPDATE runs SET options = '{"max_tokens":"many"}'""")
    db.close()
    told = command.json("show", "r")["usage"]
    assert (told["spent"]["tokens"], told["max_tokens"]) == (3006, None)


def test_what_show_advises_for_a_budget_that_is_used_up_is_taken(command: Outlast) -> None:
    shown = command.here("show", "r").stdout
    assert f"\n  outlast resume r --max-tokens N --url {command.store}\n" in shown
    assert f"\n  outlast resume r --url {command.store}\n" not in shown
    assert "To let it go on, give it more: outlast resume r --max-tokens N" in shown  # the error is not cut before it
    assert command.here("resume", "r", "--max-tokens", "9000").exit_code == 0
