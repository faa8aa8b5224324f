"""What nobody would take even if it were due: runs that are held back, runs and slots that no living worker knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from outlast.cli.fleet import Fleet
from outlast.cli.opening import Where
from outlast.cli.wording import counted, lasted
from outlast.core.records import RunRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.runtime.seen import if_renamed, why_nobody
from outlast.stores.protocol import EarlyRow


def held_back(held: Sequence[RunRow], where: Where) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield what there is to say of the runs that a person holds back: in words, what to do, and their ids."""
    if not held:
        return
    versions = Counter(run.version for run in held)
    each = ", ".join(f"{version or 'no version'} ({number})" for version, number in versions.most_common())
    do = ["give them free, when it is time:"]
    do += [f"  {where.command('release', '--version', version)}" for version in sorted(versions) if version]
    if "" in versions:
        do.append(f"  {where.command('release', next(run.id for run in held if not run.version))}")
    yield f"{counted(len(held), 'run')} held back, of version {each}", do, [run.id for run in held]


def early(rows: Sequence[EarlyRow], now: float, most: int) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield what there is to say of messages for runs that nobody has started, of which `most` were asked for."""
    if not rows:
        return
    number = counted(len(rows), "message") if len(rows) < most else f"at least {len(rows)} messages"
    waits, first = "waits" if len(rows) == 1 else "wait", rows[0]
    ids = list(dict.fromkeys(row.run for row in rows))
    what = f"{number} {waits} for runs that nobody has started, {first.key!r} for {first.run} since"
    do = [
        f"start {'it' if len(ids) == 1 else 'them'}; where an id is misspelt, send the message again to the right one"
    ]
    yield f"{what} {lasted(now - first.created)}", do, ids


def told_of_early(rows: Sequence[EarlyRow], now: float) -> str:
    """Return what to say where a run is looked for that nobody has started; nothing where no message waits for it."""
    if not rows:
        return ""
    names = ", ".join(dict.fromkeys(repr(row.key) for row in rows))
    waits = "waits" if len(rows) == 1 else "wait"
    since = lasted(now - rows[0].created)
    return f"; {counted(len(rows), 'message')} ({names}) {waits} for it to be started, since {since}"


def stranded(
    waiting: Sequence[RunRow], fleet: Fleet, now: float, where: Where
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield what there is to say of each workflow that no living worker knows, and that has runs which wait.

    They wait for a time to come, or for somebody; nobody will be there when it does.
    """
    for workflow, number in Counter(run.workflow for run in waiting).most_common():
        if not why_nobody(fleet.workers, workflow):
            continue
        mine = [run for run in waiting if run.workflow == workflow]
        oldest = min(mine, key=lambda run: run.created)
        age = lasted(now - oldest.created)
        why = "no living worker knows it" if fleet.alive else "no worker is alive"
        what = f"{counted(number, 'run')} of {workflow} waiting, {oldest.id} since {age}: {why}"
        hint = if_renamed(fleet.workers, workflow)
        do = ["start a worker, where its code is:", f"  {where.worker_for(oldest)}"]
        if fleet.alive:
            do += ["or have another workflow take them:", f"  {where.command('move', workflow, 'NEW')}"]
        do += [f"or: {hint}"] if hint else []
        yield what, do, [run.id for run in mine]


def standing_still(
    schedules: Sequence[ScheduleRow], fleet: Fleet, now: float, where: Where
) -> Iterator[tuple[str, list[str]]]:
    """Yield what there is to say of each schedule whose slot has come, and that no living worker can start."""
    for row in schedules:
        if row.next is None or row.next > now or not why_nobody(fleet.workers, row.workflow):
            continue
        why = f"no living worker knows {row.workflow}" if fleet.alive else "no worker is alive"
        what = f"schedule {row.name} stands still since {lasted(now - row.next)}: {why}"
        do = ["start a worker, where its code is:", f"  {where.worker_for(row)}"]
        do += ["or delete it, where its code is gone for good:", f"  {where.command('schedules', 'delete', row.name)}"]
        hint = if_renamed(fleet.workers, row.workflow)
        yield what, [*do, f"or: {hint}"] if hint else do
