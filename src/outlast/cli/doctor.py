"""`outlast doctor`."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer
from rich.text import Text

from outlast.cli import output
from outlast.cli.diagnosis import MOST_RUNS, MOST_SHOWN, Diagnosis, Finding, diagnose
from outlast.cli.exits import ExitCode
from outlast.cli.failures import Told
from outlast.cli.fleet import Fleet, Lag, Member
from outlast.cli.opening import Where, with_existing
from outlast.cli.options import AppName, Json, Outbox, Url
from outlast.cli.outboxes import as_json as outboxes_json
from outlast.cli.outboxes import print_outboxes
from outlast.cli.wording import ago, counted, iso_time, lasted, shortened, size, visible, visible_lines
from outlast.core.transitions import Status
from outlast.runtime.registry import STEP_PREFIX
from outlast.stores.databases.sources import source_of

SERVES_LENGTH = 60
LEFT_SHOWN_S = 3600.0
WORKER_COLUMNS = (
    "worker", "state", "pid", "host", "age", "beat", "lease", "runs", "version", "python", "serves",
)  # fmt: skip
CONDITION_STYLE = {"alive": "green", "disconnected": "yellow", "expired": "yellow", "dead": "red"}


def doctor(
    check: Annotated[bool, typer.Option("--check", help="Also check the store's content; reads all of it.")] = False,
    outbox: Outbox = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Say how a store and its workers stand: what is wrong, why, and what to do.

    The exit code is 1 when something needs a person. It only reads, so it
    also works while something else holds the store's write lock.

    \b
    outlast doctor
    outlast doctor --check --json
    """
    where = Where(url, app_name)
    app = where.make()
    sources, app.outboxes = [source_of(each) for each in outbox or ()] or app.outboxes, []  # an open App makes tables
    found = with_existing(app, lambda app: diagnose(app, where, sources, check=check))
    if as_json:
        output.print_json(_json(found))
    else:
        _print_store(found)
        _print_lag(found.lags, all_seen=found.looked_at_all)
        _print_workers(found.fleet, found.now)
        print_outboxes(found.outboxes, found.now)
        _print_findings(found.findings)
    if found.needs_person:
        raise Told(ExitCode.FAILED)


def _print_store(found: Diagnosis) -> None:
    info = found.info
    output.print_line(f"store    {visible(info.location)}")
    output.print_line(f"         {info.engine}, schema {info.schema_version}, {size(info.size_bytes)}")
    if holder := info.details.get("write_lock"):
        output.print_line(f"         {visible(str(holder))}")
    counts = Text("runs     ")
    for status in Status:
        if number := info.counts.get(status.value, 0):
            counts.append(f"{number} ").append(output.status_text(status.value)).append("  ")
    output.show(counts if info.counts else Text("runs     none"))
    oldest = found.oldest_running
    if oldest is not None:
        name, since = f"{oldest.id} ({oldest.workflow})", ago(oldest.started or oldest.created, found.now)
        output.print_line(f"         oldest running: {visible(name)}, started {since}")
    if not found.looked_at_all:
        output.print_line(f"         more than {MOST_RUNS} runs of one status: only the newest were looked at")


def _print_lag(lags: list[Lag], *, all_seen: bool) -> None:
    if not lags:
        return
    (first, *others), runs = lags, counted(sum(lag.runs for lag in lags), "run")
    runs = runs if all_seen else f"at least {runs}"
    whose = f"{first.oldest} ({first.workflow})" if first.oldest else f"a run of {first.workflow}"
    output.print_line(f"lag      {lasted(first.waits_s)}: so long {visible(whose)} waits, the first of {runs} due")
    if others:
        each = [f"{lag.workflow} {lasted(lag.waits_s)} ({counted(lag.runs, 'run')})" for lag in lags[:MOST_SHOWN]]
        more = f", and {len(lags) - MOST_SHOWN} more" if len(lags) > MOST_SHOWN else ""
        output.print_line(f"         {visible(', '.join(each))}{more}")


def _print_workers(fleet: Fleet, now: float) -> None:
    shown = [member for member in fleet.members if _is_shown(member, now)]
    if not shown:
        output.print_line("workers  none")
        return
    others = Counter(member.seen.condition for member in shown if not member.seen.alive)
    facts = [f"{len(fleet.alive)} alive", *(f"{number} {condition}" for condition, number in sorted(others.items()))]
    hosts, runs = counted(fleet.hosts, "host"), counted(sum(member.runs for member in fleet.alive), "run")
    held = f"; {runs} held, on {hosts}" if fleet.alive else ""
    output.print_line(f"workers  {', '.join(facts)}{held}")
    output.print_table(WORKER_COLUMNS, [_worker_cells(member, now) for member in shown])


def _is_shown(member: Member, now: float) -> bool:
    """Tell whether a worker is there, or may still be of interest: where many are killed, as many rows are left."""
    left = member.seen.row.left
    return member.seen.condition != "gone" and (member.runs > 0 or left is None or left > now - LEFT_SHOWN_S)


def _worker_cells(member: Member, now: float) -> tuple[str | Text, ...]:
    row, left = member.seen.row, member.seen.lease_left_s
    lease = "" if left is None else f"{lasted(left)} left" if left > 0 else f"ran out {lasted(-left)} ago"
    if member.lease_s is not None and left is not None and left > 0:
        lease += f" of {lasted(member.lease_s)}"
    serves = ", ".join(name for name in row.serves or () if not name.startswith(STEP_PREFIX))
    return (
        row.id,
        Text(member.seen.condition, style=CONDITION_STYLE.get(member.seen.condition, "")),
        str(row.pid),
        row.host,
        lasted(now - row.started) if row.started else "",
        "" if member.since_beat_s is None else f"{lasted(member.since_beat_s)} ago",
        lease,
        str(member.runs),
        row.version,
        row.python,
        shortened(serves, SERVES_LENGTH),
    )


def _print_findings(findings: list[Finding]) -> None:
    if not findings:
        output.show(Text("all is well", style="green"))
        return
    for finding in findings:
        style = "bold red" if finding.needs_person else "yellow"
        output.print_line("")
        word = "needs a person: " if finding.needs_person else "note: "
        output.show(Text.assemble((word, style), visible_lines(finding.what)))
        for line in finding.do:
            output.print_line(f"  {visible(line)}")
        if len(finding.runs) > 1:
            more = f" and {len(finding.runs) - MOST_SHOWN} more" if len(finding.runs) > MOST_SHOWN else ""
            output.print_line(f"  runs: {', '.join(visible(run) for run in finding.runs[:MOST_SHOWN])}{more}")


def _json(found: Diagnosis) -> dict[str, Any]:
    info, oldest, fleet = found.info, found.oldest_running, found.fleet
    return {
        "ok": not found.needs_person,
        "store": {
            "kind": info.kind, "location": info.location, "engine": info.engine, "schema_version": info.schema_version,
            "size_bytes": info.size_bytes, "counts": info.counts, "details": info.details,
        },
        "fleet": {
            "alive": len(fleet.alive), "hosts": fleet.hosts, "runs": sum(member.runs for member in fleet.alive),
            "versions": dict(fleet.versions()),
        },
        "workers": [
            {
                "id": row.id, "state": member.seen.condition, "pid": row.pid, "host": row.host,
                "started": iso_time(row.started or None), "beat": iso_time(row.beat or None),
                "since_beat_s": member.since_beat_s, "lease_s": member.lease_s,
                "lease_left_s": member.seen.lease_left_s, "runs": member.runs,
                "version": row.version, "python": row.python, "serves": row.serves,
            }
            for member in fleet.members for row in (member.seen.row,)
        ],
        "lag_s": max((lag.waits_s for lag in found.lags), default=0.0),
        "lags": [
            {"workflow": lag.workflow, "runs": lag.runs, "oldest": lag.oldest or None, "waits_s": lag.waits_s}
            for lag in found.lags
        ],
        "queued": [
            {"queue": each.queue, "why": each.why, "runs": each.runs, "oldest": each.oldest, "waits_s": each.waits_s}
            for each in found.queued
        ],
        "outboxes": list(outboxes_json(found.outboxes)),
        "oldest_running": None if oldest is None else {"id": oldest.id, "started": iso_time(oldest.started)},
        "findings": [
            {"what": finding.what, "do": finding.do, "needs_person": finding.needs_person, "runs": finding.runs}
            for finding in found.findings
        ],
        "looked_at_all": found.looked_at_all,
    }  # fmt: skip
