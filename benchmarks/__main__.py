"""`python -m benchmarks`: measure, print one table, write JSON, draw plots."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import plots, report
from benchmarks.bench import Bench, Measure
from benchmarks.figures import Row
from benchmarks.grounds import Postgres, Sqlite
from benchmarks.measures import MEASURES
from benchmarks.processes import ROOT

RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"


def main() -> int:
    """Measure what the command line asks for; return 1 when a measure could not run, else 0."""
    options = _parser().parse_args()
    grounds = options.on or list(MEASURES)
    if options.list:
        for name, measure in {name: found for ground in grounds for name, found in MEASURES[ground].items()}.items():
            print(f"{name}: {(measure.__doc__ or '').strip()}\n")
        return 0
    failed = [_measure_on(ground, options) for ground in grounds]
    return 1 if any(failed) else 0


def _measure_on(kind: str, options: argparse.Namespace) -> dict[str, str]:
    """Measure on one kind of store, and say, write and draw what was found; return what failed, by name."""
    full = not (options.quick or options.only or options.no_peers or options.repeats)
    repeats = options.repeats or (1 if options.quick else 5)
    names = [name for name in MEASURES[kind] if name in (options.only or MEASURES[kind])]
    if not names:
        return {}
    began = datetime.now(UTC)
    RESULTS.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=options.scratch or RESULTS)).resolve()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        ground = Postgres(scratch) if kind == "postgresql" else Sqlite(scratch)
        stack.callback(ground.close)
        bench = Bench(ground, repeats, quick=options.quick, peers=not options.no_peers)
        failed = _measure(bench, {name: MEASURES[kind][name] for name in names})
    found = report.as_json(bench, began=began, failed=failed)
    _print(bench, failed)
    report.write(options.json or RESULTS / f"{began:%Y-%m-%dT%H%M%S}-{kind}.json", found)
    full = full and not failed
    if full:
        report.write(DOCS / f"benchmarks-{kind}.json", found)
        report.into_page(DOCS / "benchmarks.md", bench)
    series = bench.series if kind == "sqlite" else []  # one set of plots: the cost against size is alike
    for path in plots.draw(series, DOCS / "plots" if full else RESULTS / "plots"):
        print(f"drawn: {path.relative_to(ROOT)}")
    return failed


def _measure(bench: Bench, measures: dict[str, Measure]) -> dict[str, str]:
    """Run the measures; return what failed, by name. One that fails does not keep the others from running."""
    failed = {}
    for name, measure in measures.items():
        began = time.monotonic()
        print(f"{bench.ground.name}: {name} ...", end="", file=sys.stderr, flush=True)
        try:
            for found in measure(bench):
                (bench.rows if isinstance(found, Row) else bench.series).append(found)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is shown, and the exit code tells
            failed[name] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        bench.load_after[name] = os.getloadavg()[0]
        took = f" {time.monotonic() - began:.0f} s, load average {bench.load_after[name]:.1f}"
        print(took, file=sys.stderr, flush=True)
    return failed


def _print(bench: Bench, failed: dict[str, str]) -> None:
    console = report.console()
    console.print(report.heading(bench))
    console.print(report.table_of(bench))
    for name, why in failed.items():
        console.print(f"{name} FAILED TO RUN: {why}", style="bold red", markup=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="a smoke run: small sizes, one repeat, under a minute")
    names = list(dict.fromkeys(name for measures in MEASURES.values() for name in measures))
    add("--on", action="append", metavar="STORE", choices=MEASURES, help=f"only on this store ({', '.join(MEASURES)})")
    add("--only", action="append", metavar="NAME", choices=names, help="only this measure; may be given again")
    add("--repeats", type=int, metavar="N", help="repeat each measure so often (default 5)")
    add("--json", type=Path, metavar="FILE", help="where to write the figures (default: benchmarks/results/)")
    add("--no-peers", action="store_true", help="leave out the systems that Outlast is compared with")
    add("--scratch", type=Path, metavar="DIR", help="where to put stores; has to be on a real disk")
    add("--list", action="store_true", help="say what each measure is, and measure nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
