"""Acts 1 to 3: the agent dies after the charge, while it opens the ticket. Each act has another way to go on."""

from __future__ import annotations

import json

from outlast.cli.demo.stage import Act, Stage, ms_between


async def retry_loop(stage: Stage, act: Act) -> None:
    """Act 1: something starts the agent again until it ends well."""
    say, order = stage.narrator, act.order
    await stage.hold("tickets", order, "before")
    first = await stage.processes.start("agent 1", "unprotected", order)
    await stage.held("tickets", order)
    stage.processes.kill("agent 1")
    say.say(f"Order {order}: the card is charged, the ticket is about to be opened - SIGKILL to process {first.pid}.")
    await first.process.wait()
    attempts, code = 1, -9
    while code != 0 and attempts < 3:  # the retry loop
        attempts += 1
        again = await stage.processes.start(f"agent 1 attempt {attempts}", "unprotected", order, may_end=True)
        code = await again.process.wait()
    act.finished = code == 0
    act.figures["attempts"] = attempts
    stage.read_ledgers(act)
    plans = ", then ".join(repr(words) for words in stage.plans(order))
    say.say(f"The loop starts the agent again, from the top, and the model plans something else: {plans}.")
    act.expect(act.finished, f"the agent did not finish order {order} when it was started again")
    act.expect_ledgers(charges=2, tickets=1, plans=2)
    say.badly(f"Ledgers: {act.ledgers}. Finished, and the customer has paid twice.")


async def checkpoint_alone(stage: Stage, act: Act) -> None:
    """Act 2: the agent writes its progress to a file, and nobody looks at it."""
    say, order = stage.narrator, act.order
    checkpoint = stage.folder / f"checkpoint-{order}.json"
    await stage.hold("tickets", order, "before")
    agent = await stage.processes.start("agent 2", "unprotected", order, str(checkpoint))
    await stage.held("tickets", order)
    stage.processes.kill("agent 2")
    say.say(f"Order {order}: SIGKILL at the same place, process {agent.pid}.")
    await agent.process.wait()
    waits_s = 1.0 if stage.fast else 3.0
    act.finished = await stage.within(waits_s, lambda: bool(stage.entries("tickets", order)))
    kept = list(json.loads(checkpoint.read_text()))
    act.figures |= {"waited_s": waits_s, "checkpoint": kept}
    stage.read_ledgers(act)
    say.say(f"Its checkpoint holds {', '.join(kept)}. Waited {waits_s:g} s for somebody to notice: nobody did.")
    act.expect(not act.finished, f"order {order} went on although nothing could resume it")
    act.expect(kept == ["plan", "inventory", "charge"], f"the checkpoint holds {kept}, not plan, inventory and charge")
    act.expect_ledgers(charges=1, tickets=0, plans=1)
    say.badly(f"Ledgers: {act.ledgers}. Progress is kept; the order stays unfinished until a person comes.")
    say.badly("(A kill between the charge and its checkpoint would charge twice then, as in act 1.)")


async def two_workers(stage: Stage, act: Act) -> None:
    """Act 3: two workers on one SQLite file."""
    say, order = stage.narrator, act.order
    await stage.hold("tickets", order, "before")
    run = await stage.start_order(order)
    await stage.held("tickets", order)
    done = [step.id for step in await run.steps() if step.state == "done"]
    act.expect("main/charge#1" in done, f"before the kill the charge was to be recorded, the journal has {done}")
    death = await stage.kill_worker_of(run)
    say.say(
        f"Order {order} runs on {death.worker}: SIGKILL at the same place, process {death.pid}. "
        f"The journal has {', '.join(done)}."
    )
    await stage.noticed(act, death)
    step = await stage.next_step(run, death)
    resumed_ms, at = ms_between(death.at, step.at), step.data["step"]
    act.figures |= {"resumed_by": step.who, "resumed_ms": resumed_ms, "resumed_at": at}
    result = await stage.result(act, run, death)
    stage.read_ledgers(act)
    noticed_by, noticed_ms, finished_ms = (act.figures[key] for key in ("noticed_by", "noticed_ms", "finished_ms"))
    say.say(f'After {noticed_ms} ms {noticed_by} noticed: "{act.figures["evidence"]}".')
    say.say(f"After {resumed_ms} ms {step.who} went on with {at}; after {finished_ms} ms the order was finished.")
    plans, again = stage.plans(order), set(done) & set(stage.started(run, death.survivor))
    act.expect(bool(plans) and plans[0] in result, f"the result {result!r} does not follow the first plan {plans}")
    act.expect(step.who == noticed_by == death.survivor, f"{noticed_by} noticed and {step.who} went on")
    act.expect(not again, f"recorded steps were executed again: {again}")
    act.expect_ledgers(charges=1, tickets=1, plans=1)
    if not act.problems:
        say.well(f"Ledgers: {act.ledgers}. The model was asked for one plan, and the order follows it.")
