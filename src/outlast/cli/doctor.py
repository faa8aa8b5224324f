"""`outlast doctor`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.text import Text

from outlast.cli import output
from outlast.cli.diagnosis import MOST_RUNS, MOST_SHOWN, Diagnosis, Finding, diagnose
from outlast.cli.exits import ExitCode
from outlast.cli.failures import Told
from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, Url
from outlast.cli.wording import ago, iso_time, lasted, shortened, size, visible, visible_lines
from outlast.core.transitions import Status
from outlast.runtime.registry import STEP_PREFIX

SERVES_LENGTH = 60
CONDITION_STYLE = {"alive": "green", "expired": "yellow", "dead": "red"}


def doctor(
    check: Annotated[bool, typer.Option("--check", help="Also check the store's content; reads all of it.")] = False,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Say how a store stands: what is wrong, why, and what to do.

    The exit code is 1 when something needs a person. It only reads, so it
    also works while something else holds the store's write lock.

    \b
    outlast doctor
    outlast doctor --check --json
    """
    where = Where(url, app_name)
    found = with_store(where, lambda app: asyncio.to_thread(diagnose, app, where, check=check))
    if as_json:
        output.print_json(_json(found))
    else:
        _print_store(found)
        _print_workers(found)
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


def _print_workers(found: Diagnosis) -> None:
    shown = [worker for worker in found.workers if worker.condition != "gone"]
    if not shown:
        output.print_line("workers  none")
        return
    output.print_line("workers")
    rows: list[tuple[str | Text, ...]] = []
    for worker in shown:
        row, left = worker.row, worker.lease_left_s
        lease = "" if left is None else f"{lasted(left)} left" if left > 0 else f"ran out {lasted(-left)} ago"
        condition = Text(worker.condition, style=CONDITION_STYLE.get(worker.condition, ""))
        age = lasted(found.now - row.started) if row.started else ""
        serves = ", ".join(name for name in row.serves or () if not name.startswith(STEP_PREFIX))
        facts = (str(row.pid), row.host, age, lease, row.version, row.python, shortened(serves, SERVES_LENGTH))
        rows.append((row.id, condition, *facts))
    output.print_table(("worker", "state", "pid", "host", "age", "lease", "version", "python", "serves"), rows)


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
    info, oldest = found.info, found.oldest_running
    return {
        "ok": not found.needs_person,
        "store": {
            "kind": info.kind, "location": info.location, "engine": info.engine, "schema_version": info.schema_version,
            "size_bytes": info.size_bytes, "counts": info.counts, "details": info.details,
        },
        "workers": [
            {
                "id": worker.row.id, "state": worker.condition, "pid": worker.row.pid, "host": worker.row.host,
                "started": iso_time(worker.row.started or None), "lease_left_s": worker.lease_left_s,
                "version": worker.row.version, "python": worker.row.python, "serves": worker.row.serves,
            }
            for worker in found.workers
        ],
        "oldest_running": None if oldest is None else {"id": oldest.id, "started": iso_time(oldest.started)},
        "findings": [
            {"what": finding.what, "do": finding.do, "needs_person": finding.needs_person, "runs": finding.runs}
            for finding in found.findings
        ],
        "looked_at_all": found.looked_at_all,
    }  # fmt: skip
