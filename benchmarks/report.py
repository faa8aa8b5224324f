"""Saying what was found: the table, and the JSON beside it."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import apsw
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.bench import Bench
from benchmarks.figures import Row

WIDTH = 170  # where no terminal says how wide it is
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


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def console() -> Console:
    """Return where the table is printed."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def as_json(bench: Bench, *, began: datetime, load_before: Sequence[float], failed: dict[str, str]) -> dict[str, Any]:
    """Return all that was found, with what is needed to read it: when, on what, under which load."""
    return {
        "began": began.isoformat(timespec="seconds"),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "store": bench.ground.name,
        "repeats": bench.repeats,
        "quick": bench.quick,
        "machine": machine(),
        "load_before": list(load_before),
        "load_after": list(os.getloadavg()),
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
        "sqlite": apsw.sqlite_lib_version(),
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
