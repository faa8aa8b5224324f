"""Saying what was found: the table, and the JSON beside it."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.bench import Bench
from benchmarks.figures import Row

WIDTH = 170  # where no terminal says how wide it is
TABLE_BEGINS = "<!-- table of {}: written by `make bench` -->"
TABLE_ENDS = "<!-- end of table -->"
MET = {True: "yes", False: "MISSED", None: ""}


def table_of(bench: Bench) -> Table:
    """Make the table of all rows."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("measure", "figure", "yardstick", "ratio", "target", "met?"):
        table.add_column(heading, no_wrap=heading not in ("measure", "yardstick"))
    for row in bench.rows:
        met = MET[row.met]
        table.add_row(
            row.measure, str(row.figure), "" if row.yardstick is None else str(row.yardstick), ratio_of(row),
            "" if row.target is None else str(row.target), f"[bold red]{met}[/]" if row.met is False else met,
        )  # fmt: skip
    return table


def ratio_of(row: Row) -> str:
    """Write a ratio with the least and the greatest of its repeats."""
    if row.ratio is None:
        return ""
    low, high = min(row.ratios), max(row.ratios)
    spread = f" ({_short(low)} to {_short(high)})" if len(row.ratios) > 1 else ""
    return _short(row.ratio) + spread


def into_page(page: Path, bench: Bench) -> None:
    """Put the table, as Markdown, between its two marks in a page of the documentation."""
    lines = [
        heading(bench),
        "",
        "| measure | figure | yardstick | ratio | target | met? |",
        "|---|---|---|---|---|---|",
    ]
    for row in bench.rows:
        yardstick, target = row.yardstick or "", row.target or ""
        lines.append(f"| {row.measure} | {row.figure} | {yardstick} | {ratio_of(row)} | {target} | {MET[row.met]} |")
    begins = TABLE_BEGINS.format(bench.ground.name)
    before, _, rest = page.read_text(encoding="utf-8").partition(f"{begins}\n")
    _, _, after = rest.partition(TABLE_ENDS)
    if not after:
        raise ValueError(f"{page} has no place for the table: it needs the lines {begins} and {TABLE_ENDS}")
    page.write_text("\n".join((f"{before}{begins}", "", *lines, "", f"{TABLE_ENDS}{after}")), encoding="utf-8")


def heading(bench: Bench) -> str:
    """Say on what the table was measured, and how."""
    on, loads = machine(), [bench.load_before[0], *bench.load_after.values()]
    return (
        f"{bench.ground.engine}, Python {on['python']}, {on['cpus']} CPUs, "
        f"load average {min(loads):.1f} to {max(loads):.1f} (with its own). "
        f"Medians of {bench.repeats} interleaved repeats; a ratio is the median of the repeats' ratios."
    )


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def console() -> Console:
    """Return where the table is printed."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def as_json(bench: Bench, *, began: datetime, failed: dict[str, str]) -> dict[str, Any]:
    """Return all that was found, with what is needed to read it: when, on what, under which load."""
    return {
        "began": began.isoformat(timespec="seconds"),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "store": bench.ground.engine,
        "repeats": bench.repeats,
        "quick": bench.quick,
        "machine": machine(),
        "load_before": list(bench.load_before),
        "load_after": bench.load_after,
        "rows": [row.as_json() for row in bench.rows],
        "series": [asdict(line) for line in bench.series],
        "failed": failed,
    }


def machine() -> dict[str, Any]:
    """Say what was measured on."""
    return {
        "cpus": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "outlast": version("outlast"),
        "dbos": _version("dbos"),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def write(path: Path, found: dict[str, Any]) -> None:
    """Write the JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
