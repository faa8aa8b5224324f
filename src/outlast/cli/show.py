"""`outlast show`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

import typer
from rich.text import Text

from outlast.cli import output
from outlast.cli.advice import advice_for, why_stuck
from outlast.cli.approvals import approval_json, plainly
from outlast.cli.asked import answers, facts_of
from outlast.cli.entries import entries_of, place_of, value_of
from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, RunId, Url
from outlast.cli.plain import as_call, one_line, plain, plain_error, readable, readable_record, readable_run
from outlast.cli.runs import run_json
from outlast.cli.stranded import told_of_early
from outlast.cli.tree import LEGEND, Entry, branches_of, draw, error_is_cut
from outlast.cli.used import calls_told, cost_told, tokens_json, tokens_told, usage_json
from outlast.cli.wording import CUT, ago, clock_time, counted, iso_time, lasted, shortened, visible, visible_lines
from outlast.core.durabilities import Durability, shown_of_options
from outlast.core.errors import RunNotFound
from outlast.core.records import RunRow
from outlast.core.transitions import ENDED, Status
from outlast.runtime.app import App
from outlast.runtime.awaited import awaited_in
from outlast.runtime.cuts import why_lost
from outlast.runtime.held_up import queue_states, why_held_up
from outlast.runtime.infos import ApprovalInfo, RunInfo, info_of, steps_of
from outlast.runtime.run_usage import Usage, usage_of
from outlast.runtime.seen import SeenWorker, seen_workers, why_idle
from outlast.stores.protocol import Loaded, RunFilter, StreamRow

MOST_CHILDREN = 1000
MOST_ASKED = 100
RESUMABLE = frozenset({Status.FAILED, Status.CANCELLED})
SHORT = 200
LONG = 400
"""Characters of the error that ended the run: it is what one looks for."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is shown of one run, read at one moment."""

    loaded: Loaded
    info: RunInfo
    entries: list[Entry]
    children: list[RunRow]
    parent: RunRow | None
    nobody: str  # why nobody executes it, if it should be
    held_up: str  # why its queue lets it wait, if that does
    workers: list[SeenWorker]
    now: float
    streams: list[StreamRow]
    values: dict[str, bytes]
    usage: Usage
    lost: dict[int, str]  # why children cannot be taken up again, by their keys
    asked: list[ApprovalInfo] = field(default_factory=list)  # approvals that are open

    @property
    def run(self) -> RunRow:
        """The run's row."""
        return self.loaded.run


def show(
    run: RunId,
    full: Annotated[bool, typer.Option("--full", help="Do not shorten values and errors.")] = False,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Show one run: what its code did, what it waits for, what a person can do.

    Each line says when a thing was begun, how long it took and what else is
    known; a timer's says when it fired. A step is named for `outlast resolve`
    and `outlast fork` by its branch and its name: main/charge#1,
    main.fetch#2/get#1.

    \b
    outlast show order-55
    outlast show order-55 --json | jq '.steps[] | select(.state == "failed")'
    """
    where = Where(url, app_name)

    async def read(app: App) -> Seen:
        seen = await asyncio.to_thread(_read, app, run)
        asked = await app.approvals(run=run, limit=MOST_ASKED) if seen.run.status not in ENDED else []
        return replace(seen, asked=[plainly(app, each) for each in asked])

    seen = with_store(where, read)
    known = (seen.children, seen.workers, seen.lost)
    advice = advice_for(seen.run, seen.loaded.records, where, *known) or _start_one(seen, where)
    advice += answers(seen.asked, where)
    if as_json:
        output.print_json(_json(seen, advice))
        return
    output.show(_head(seen))
    facts = list(_facts(seen, None if full else SHORT))
    for name, value in facts:
        output.show(Text.assemble((f"  {name:<9} ", "dim"), value.replace("\n", "\n" + " " * 12)))
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    output.show(draw(branches_of(seen.entries), now=seen.now, full=full, ascii_only=ascii_only))
    for line in advice:
        output.print_line(visible(line))
    if not full and (any(CUT in value for _, value in facts) or any(map(error_is_cut, seen.entries))):
        output.print_note(f"where … stands it is shortened; whole: {where.command('show', seen.run.id, '--full')}")


def _read(app: App, id: str) -> Seen:
    row = app.store.run(id)
    found = app.store.load([row.pk]) if row is not None else []
    if not found:
        mail = told_of_early(app.store.early(id), app.store.now())
        raise RunNotFound(f"no run has the id {id!r} in {app.url}{mail or '; `outlast runs` lists them'}")
    (loaded,) = found
    run = loaded.run
    children = app.store.runs(RunFilter(parent=run.pk), limit=MOST_CHILDREN)[::-1]
    parent = app.store.run_by_pk(run.parent) if run.parent is not None else None
    now = app.store.now()
    workers = seen_workers(app.store)
    records = tuple(readable_record(record, app.codec) for record in loaded.records)
    shown = Loaded(readable_run(run, app.codec), records, loaded.inbox)
    return Seen(
        shown,
        info_of(run, app, {} if parent is None else {parent.pk: parent.id}),
        entries_of(steps_of(list(loaded.records), app), shown, children),
        children,
        parent,
        why_idle(run, workers, now),
        "" if run.held else why_held_up(run, queue_states(app.store, [run]), now),
        workers,
        now,
        app.store.streams(run.pk),
        {name: readable(data, app.codec) for name, data in app.store.values(run.pk).items()},
        usage_of(app.store, run, app.prices, children=False),
        _lost(app, run, children),
    )


def _lost(app: App, run: RunRow, children: list[RunRow]) -> dict[int, str]:
    ended = [child for child in children if run.status in RESUMABLE and child.status in RESUMABLE]
    return {child.pk: why_lost(child, app.store.records(child.pk)) for child in ended}


def _start_one(seen: Seen, where: Where) -> list[str]:
    if not seen.nobody:
        return []
    first, *more = where.start_one(seen.run, seen.workers)
    return [f"{seen.nobody}; {first}", *more]


def _head(seen: Seen) -> Text:
    run = seen.run
    status = output.status_text(run.status.value, run.reason.value if run.reason is not None else "")
    return Text.assemble(("run ", "dim"), (visible(run.id), "bold"), f"  {visible(run.workflow)}  ", status)


def _queue(seen: Seen) -> Iterator[tuple[str, str]]:
    """Yield where a run on a queue waits, and for what."""
    run = seen.run
    if run.queue:
        turn = f", priority {run.priority}" if run.priority else ""
        yield "queue", visible(run.queue + (f" (key {run.queue_key})" if run.queue_key else "") + turn)
    if seen.held_up:
        yield "held up", visible(seen.held_up)


def _facts(seen: Seen, length: int | None) -> Iterator[tuple[str, str]]:
    """Yield what is known of the run, a name and a text each."""
    run, now = seen.run, seen.now
    yield "created", f"{clock_time(run.created)} ({ago(run.created, now)})"
    if run.started is not None:
        end = f", ended {clock_time(run.ended)}" if run.ended is not None else ""
        yield "started", f"{clock_time(run.started)}{end}, {lasted((run.ended or now) - run.started)}"
    if run.owner:
        owner = next((worker for worker in seen.workers if worker.row.id == run.owner), None)
        condition = owner.condition if owner is not None else "unknown to the store"
        yield "worker", run.owner + ("" if condition == "alive" else f" ({condition})")
    code = (run.definition, run.version, f"Python {run.python}" if run.python else "")
    yield "code", visible("  ".join(part for part in code if part))
    if run.claim > 1 or run.crashes:
        died = f", taken over from {counted(run.crashes, 'worker')} in a row" if run.crashes else ""
        yield "claims", f"{run.claim}{died}"
    yield from _course(run, now)
    if seen.parent is not None:
        yield "parent", f"{visible(seen.parent.id)} {visible(run.parent_key)}"
    yield from _queue(seen)
    yield "arguments", shortened(as_call(run.input, whole=True), length)
    yield from _usage(seen.usage)
    yield from _standing(run, now)
    for asked in seen.asked:
        for name, text in facts_of(asked, length):
            yield name, f"{visible(asked.id)}  {text}"
    for row in seen.loaded.inbox:
        yield "inbox", visible(f"{row.kind.value} {row.key} since {clock_time(row.created)}")
    yield from _output(seen, length)
    if run.result is not None:
        yield "result", shortened(one_line(run.result), length)
    if run.error is not None:
        error = plain_error(run.error)
        yield "error", error.line(LONG) if length is not None else visible_lines("\n".join(error.tree))
    if seen.entries:
        yield "each line", LEGEND


def _usage(usage: Usage) -> Iterator[tuple[str, str]]:
    """Yield what the run has used of models, and its budget."""
    if usage.spent.calls or usage.unknown:
        parts = [f"{usage.spent.input:,} in, {usage.spent.output:,} out"]
        parts += [f"{tokens_told(usage.again)} again by retries"] if usage.again.total else []
        parts += [f"{tokens_told(usage.saved)} saved by replay"] if usage.saved.total else []
        parts += [f"no price for {', '.join(visible(repr(name)) for name in usage.unpriced)}"] if usage.unpriced else []
        parts += [f"{calls_told(usage.unknown)} told nothing"] if usage.unknown else []
        used = f"{tokens_told(usage.spent)} ({'; '.join(parts)})"
        yield "usage", used if usage.spent.calls else parts[-1]
    limits = [f"{usage.max_tokens:,} tokens"] if usage.max_tokens is not None else []
    limits += [f"a cost of {cost_told(usage.max_cost)}"] if usage.max_cost is not None else []
    if limits:
        copied = f"; {tokens_told(usage.copied)} of the run it was forked from count" if usage.copied.total else ""
        yield "budget", " and ".join(limits) + copied


def _standing(run: RunRow, now: float) -> Iterator[tuple[str, str]]:
    """Yield why a run stands where it does."""
    if run.status is Status.STUCK:
        yield "stuck", visible_lines(why_stuck(run))
    elif run.status in ENDED and run.detail:
        yield "ended as", visible_lines(run.detail)
    elif waits := awaited_in(run):
        yield "waits for", "\n".join(visible(each.told(clock_time)) for each in waits)
    if run.due is not None and run.status in (Status.PENDING, Status.WAITING):
        yield "due", f"{clock_time(run.due)} ({ago(run.due, now)})"


def _course(run: RunRow, now: float) -> Iterator[tuple[str, str]]:
    """Yield what is out of the usual in a run's course."""
    if run.turn > 1:
        yield "turn", f"{run.turn}, since {clock_time(run.began)}"
    if (durability := shown_of_options(run.options)) != Durability.SYNC:
        yield "durability", visible(durability)
    if run.held and run.status not in ENDED:
        yield "held back", f"no worker claims it until: outlast release {visible(run.id)}"
    if run.cancelling is not None and run.status not in ENDED:
        yield "cancelling", f"since {clock_time(run.cancelling)} ({ago(run.cancelling, now)})"


def _output(seen: Seen, length: int | None) -> Iterator[tuple[str, str]]:
    """Yield what the run published, and which streams it has."""
    for name, data in seen.values.items():
        yield "published", shortened(f"{visible(name)} = {one_line(data)}", length)
    for stream in seen.streams:
        final = "" if stream.final is None else f", final up to {stream.final}"
        yield "stream", f"{visible(stream.name)}, up to position {stream.last}{final}"


def _json(seen: Seen, advice: list[str]) -> dict[str, Any]:
    run = run_json(seen.info)
    records = {place_of(record): record for record in seen.loaded.records}
    steps = []
    for entry in seen.entries:
        step, record = entry.step, records.get(entry.step.id)
        times = {name: iso_time(getattr(step, name) or None) for name in ("started", "ended", "due")}
        fields = asdict(replace(step, value=None)) | times | {"branch": step.id.rpartition("/")[0]}
        fields["value"] = value_of(step, record)
        fields["usage"] = tokens_json(step.usage) if step.usage is not None else None
        fields["args"] = plain(step.args.encode())
        fields["child"] = entry.child.id if entry.child is not None else None
        steps.append(fields)
    result = plain(seen.run.result) if seen.run.result is not None else None
    run |= {"held_up": seen.held_up or None}
    run |= {"arguments": plain(seen.run.input), "result": result, "parent": seen.parent.id if seen.parent else None}
    inbox = [{"kind": row.kind.value, "key": row.key, "created": iso_time(row.created)} for row in seen.loaded.inbox]
    return {
        "run": run,
        "steps": steps,
        "usage": usage_json(seen.usage),
        "children": [c.id for c in seen.children],
        "inbox": inbox,
        "approvals": [approval_json(asked) for asked in seen.asked],
        "published": {name: plain(data) for name, data in seen.values.items()},
        "streams": [{"name": s.name, "last": s.last, "final": s.final} for s in seen.streams],
        "advice": advice,
    }
