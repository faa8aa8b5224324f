"""Act 4: the worker dies between the charge and its record, so that no journal can know whether it happened."""

from __future__ import annotations

import json
from collections.abc import Iterator

from outlast import Happened, Run, RunInfo, StepInfo
from outlast.cli.demo.agent import SETTLE_S
from outlast.cli.demo.processes import DEADLINE_S, Missing
from outlast.cli.demo.stage import Act, Death, Stage, ms_between

CHARGE = "main/charge#1"


async def asks_the_system(stage: Stage, act: Act) -> None:
    """Act 4a: the step has a `confirm`, and the payment system knows the charge."""
    say = stage.narrator
    run, death = await _die_in_charge(stage, act, "after")
    say.say(f"Order {act.order}: the charge is booked, its answer has not arrived - SIGKILL to {death.worker}.")
    await stage.noticed(act, death)
    await stage.result(act, run, death)
    stage.read_ledgers(act)
    asked = await _asked(stage, act, death, found=True)
    charge = await _charge_of(run)
    act.figures |= {"verdict": charge.note, "asked_ms": asked}
    noticed_by, noticed_ms = act.figures["noticed_by"], act.figures["noticed_ms"]
    say.say(
        f"After {noticed_ms} ms {noticed_by} noticed, after {asked} ms it asked the payment system by the charge's "
        "key. It happened: the receipt is taken, the charge is not repeated, the order finishes."
    )
    act.expect(charge.note == "confirmed: happened", f"the journal says of the charge: {charge.note!r}")
    act.expect(charge.attempts == 1, f"the charge was attempted {charge.attempts} times")
    _conclude(stage, act)


async def asks_a_person(stage: Stage, act: Act) -> None:
    """Act 4b: nobody can be asked by program, so the run is parked until a person decides."""
    say = stage.narrator
    run, death = await _die_in_charge(stage, act, "after", can_ask=False)
    say.say(f"Order {act.order}: the same kill, of {death.worker}; but this charge has no `confirm`.")
    await stage.noticed(act, death)
    await _stuck_or_ended(stage, run)
    info = await run.info()
    act.figures |= {"status": info.status, "reason": info.reason, "detail": info.detail}
    act.expect((info.status, info.reason) == ("stuck", "in_doubt"), f"run {run.id} is {info.status} {info.reason}")
    if info.status == "stuck":
        listed = [each.id for each in await stage.app.runs(status="stuck", reason="in_doubt")]
        act.expect(listed == [run.id], f"the listing of stuck runs has {listed}")
        say.say(
            "It is not charged again: the run waits for a person. `outlast runs --status stuck` lists it, and "
            f"`outlast show {run.id}` has to say:"
        )
        say.quote(_shown(info, await run.steps()))
        say.quote_prose(info.detail)
        receipt = stage.entries("payments", act.order)[0]["id"]
        say.say(f"A person finds {receipt} in the payment system's books and decides; here the demo does it:")
        say.quote([f"outlast resolve {run.id} '{CHARGE}' --attempt 1 --happened '{json.dumps(receipt)}'"])
        await stage.app.resolve(run.id, CHARGE, Happened(receipt), attempt=1, by="the demo, for a person")
    await stage.result(act, run, death)
    stage.read_ledgers(act)
    _conclude(stage, act)


async def waits_until_it_can_believe(stage: Stage, act: Act) -> None:
    """Act 4c: the payment system never got the charge. Its "no" is believed only after a while."""
    say = stage.narrator
    run, death = await _die_in_charge(stage, act, "before")
    say.say(f"Order {act.order}: SIGKILL to {death.worker}; the payment system has booked nothing.")
    await stage.noticed(act, death)
    asked = await _asked(stage, act, death, found=False)
    booked = await stage.processes.event("booked", who="payments", order=act.order)
    charged = ms_between(death.at, booked.at)
    await stage.result(act, run, death)
    stage.read_ledgers(act)
    charge = await _charge_of(run)
    act.figures |= {"asked_ms": asked, "charged_ms": charged, "settle_s": SETTLE_S, "attempts": charge.attempts}
    say.say(
        f"After {asked} ms {act.figures['noticed_by']} asked the payment system: it did not happen. A dead process is "
        f"not a dead request, its bytes may still be under way; so that is believed only after `settle` (10 s unless "
        f"set, here {SETTLE_S:g} s). Then it asked again and charged, {charged} ms after the kill."
    )
    act.expect(charge.attempts == 2, f"the charge was attempted {charge.attempts} times, not twice")
    act.expect(charged >= SETTLE_S * 1000, f"it charged again after {charged} ms, before `settle` had passed")
    _conclude(stage, act)


async def _die_in_charge(stage: Stage, act: Act, when: str, *, can_ask: bool = True) -> tuple[Run[str], Death]:
    """Start an order, and kill its worker while the payment system holds the charge: `before` or `after` booking it."""
    await stage.hold("payments", act.order, when)
    run = await stage.start_order(act.order, can_ask=can_ask)
    await stage.held("payments", act.order)
    booked = len(stage.entries("payments", act.order))
    act.expect(booked == (when == "after"), f"{booked} charges were booked when the kill came")
    return run, await stage.kill_worker_of(run)


async def _asked(stage: Stage, act: Act, death: Death, *, found: bool) -> int | None:
    """Return when the payment system was first asked about the charge, in ms after the death."""
    try:
        event = await stage.processes.event("looked_up", who="payments", after=death.at, within_s=2.0, found=found)
    except Missing as missing:
        act.problems.append(str(missing))
        return None
    return ms_between(death.at, event.at)


async def _charge_of(run: Run[str]) -> StepInfo:
    return next(step for step in await run.steps() if step.id == CHARGE)


async def _stuck_or_ended(stage: Stage, run: Run[str]) -> None:
    ends = ("run.stuck", "run.ended")
    events = stage.processes.events
    await stage.within(DEADLINE_S, lambda: any(e.name in ends and e.data["run"] == run.id for e in events))


def _shown(info: RunInfo, steps: list[StepInfo]) -> Iterator[str]:
    """Return what a person needs to see of a run, from what the API says of it."""
    yield f"{info.id}  {info.workflow}  {info.status}: {info.reason}"
    for step in steps:
        yield f"  {step.id:24} {step.state:9} {step.effect}"


def _conclude(stage: Stage, act: Act) -> None:
    act.expect_ledgers(charges=1, tickets=1, plans=1)
    if not act.problems:
        stage.narrator.well(f"Ledgers: {act.ledgers}.")
