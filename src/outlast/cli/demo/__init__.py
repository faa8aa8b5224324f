"""`outlast demo`: the agent's process dies at 3 a.m.; who notices, who resumes, and who guarantees one payment?

Real processes, real SIGKILLs, real HTTP, and ledgers that count. Every act checks what its ledgers say.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import platform
import shutil
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from outlast import App, OutlastError, __version__
from outlast.cli.demo import acts, in_doubt
from outlast.cli.demo.narrator import Narrator
from outlast.cli.demo.processes import Missing
from outlast.cli.demo.stage import Act, Stage, count
from outlast.cli.exits import ExitCode

READING_S = 1.5
OURS = ("3", "4a", "4b", "4c")  # the acts in which the agent runs under Outlast

Play = Callable[[Stage, Act], Awaitable[None]]


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="No pauses for reading.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder with store and ledgers, and print it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of prose.")] = False,
    sabotage: Annotated[bool, typer.Option("--sabotage", hidden=True, help="Let the charge be repeated.")] = False,
) -> None:
    """Kill an agent after it has charged a card, and see what becomes of the order: without Outlast, and with it.

    Takes about 15 seconds and needs nothing but Outlast. Ends with 0 only if every ledger says what it should.
    """
    folder = Path(tempfile.mkdtemp(prefix="outlast-demo-"))
    stage = Stage(folder, Narrator(silent=as_json), fast or as_json, sabotage)
    began = time.monotonic()
    try:
        played = asyncio.run(_play(stage))
    except (KeyboardInterrupt, asyncio.CancelledError) as stopped:
        shutil.rmtree(folder, ignore_errors=True)
        interrupted = isinstance(stopped, KeyboardInterrupt)
        raise typer.Exit(ExitCode.INTERRUPTED if interrupted else ExitCode.TERMINATED) from None
    problems = [f"act {act.name}: {problem}" for act in played for problem in act.problems]
    document = {
        "ok": not problems,
        "problems": problems,
        "seconds": round(time.monotonic() - began, 1),
        "acts": [dataclasses.asdict(act) for act in played],
        "answers": _answers(played),
        "version": __version__,
        "python": platform.python_version(),
        "folder": str(folder) if keep or problems else None,
    }
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        _conclude(stage.narrator, document)
    if problems:  # the folder stays, for whoever looks into it
        raise typer.Exit(ExitCode.FAILED)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


def _program() -> list[tuple[Act, Play]]:
    """Return the acts in order, each with what plays it."""
    return [
        (Act("1", "a retry loop that starts the agent again", "55"), acts.retry_loop),
        (Act("2", "a checkpoint file after each step, and nothing else", "56"), acts.checkpoint_alone),
        (Act("3", "Outlast, two workers on one SQLite file", "57"), acts.two_workers),
        (Act("4a", "killed between the charge and its record", "58"), in_doubt.asks_the_system),
        (Act("4b", "the same, where no program can tell what happened", "59"), in_doubt.asks_a_person),
        (Act("4c", "killed before the charge arrived", "60"), in_doubt.waits_until_it_can_believe),
    ]


async def _play(stage: Stage) -> list[Act]:
    """Play all acts and return them; whatever happens, no process is left."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    played: list[Act] = []
    try:
        _introduce(stage.narrator)
        await stage.open()
        async with App(stage.url, worker=False) as stage.app:
            for act, play in _program():
                if played:
                    await stage.replace_the_dead()
                    await stage.pause(READING_S)
                played.append(act)
                stage.narrator.heading(f"Act {act.name}: {act.title}")
                await _play_one(stage, act, play)
    except (Missing, OutlastError, OSError) as error:
        played.append(Act("0", "the stage", "", problems=[f"{type(error).__name__}: {error}"]))
    finally:
        await stage.processes.close()
    return played


async def _play_one(stage: Stage, act: Act, play: Play) -> None:
    """Play one act. What it missed or what was raised is a problem of this act, and the next one is played."""
    try:
        await play(stage, act)
    except (Missing, OutlastError, OSError, LookupError) as error:
        act.problems.append(f"{type(error).__name__}: {error}")
        stage.read_ledgers(act)
    for problem in act.problems:
        stage.narrator.badly(f"NOT AS IT SHOULD BE: {problem}")


def _introduce(say: Narrator) -> None:
    say.heading("When this process dies at 3 a.m., who notices, who resumes the run, who guarantees a single payment?")
    say.say(
        "An agent processes an order: a model plans, the inventory is checked, a card charged, a ticket opened, and "
        "the model sums up. Model, payments and tickets are HTTP servers in processes of their own, each with a ledger "
        "that counts. The model never says the same twice; the payment system books whatever it is asked to. In each "
        "act the process that runs the agent gets a real SIGKILL."
    )


def _answers(played: list[Act]) -> dict[str, Any]:
    """Answer the three questions from what the acts under Outlast showed."""
    ours = {act.name: act for act in played if act.name in OURS}
    third = ours["3"].figures if "3" in ours else {}
    asked = ("noticed_by", "noticed_ms", "resumed_by", "resumed_ms")
    return {
        **{key: third.get(key) for key in asked},
        "noticed_ms_each": [act.figures["noticed_ms"] for act in ours.values() if "noticed_ms" in act.figures],
        "charges": {name: act.charges for name, act in ours.items()},
    }


def _conclude(say: Narrator, document: dict[str, Any]) -> None:
    """End the demo in prose."""
    if document["ok"]:
        answers = document["answers"]
        each = answers["noticed_ms_each"]
        charges = answers["charges"].values()
        say.heading("So, at 3 a.m.:")
        say.table(
            {
                "who noticed?": f"{answers['noticed_by']}, after {answers['noticed_ms']} ms.",
                "who resumed?": f"{answers['resumed_by']}, after {answers['resumed_ms']} ms, at the next step.",
                "who guarantees?": f"the ledger says: {count(len(charges), 'order')}, {count(sum(charges), 'charge')}.",
            }
        )
        say.say(
            "An intent stands in the journal before the card is charged. Without a certain outcome the charge is not "
            "repeated: the payment system is asked, or a person. On one machine the kernel tells of a death "
            f"({min(each)} to {max(each)} ms in {len(each)} kills); where it cannot, the lease does, after 10 s unless "
            "set. What all this needs is one worker that lives."
        )
    else:
        say.heading(f"The demo found {count(len(document['problems']), 'problem')}:")
        for problem in document["problems"]:
            say.badly(problem)
    say.say(f"({document['seconds']} s in all)")
    if document["folder"]:
        say.say(f"Store and ledgers: {document['folder']}")
        say.say(f"Look around: outlast runs --url {document['folder']}/outlast.db")
