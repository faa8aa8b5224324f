"""The command line, `outlast`. One file per verb; a verb is imported when it is used."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from outlast import __version__
from outlast.cli.exits import exit_code_table
from outlast.cli.hashseed import executes_runs, fix_hash_seed
from outlast.cli.streams import open_closed_streams
from outlast.cli.verbs import Verbs

EPILOG = f"Exit codes:\n\n\b\n{exit_code_table()}"

app = typer.Typer(
    cls=Verbs, epilog=EPILOG, invoke_without_command=True, rich_markup_mode="rich", pretty_exceptions_enable=False
)


@app.callback()
def outlast(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show an error's traceback; goes with all verbs.")] = False,
) -> None:
    """Durable execution for Python agents: a run outlives the process that started it.

    \b
    outlast demo                                    see it at work
    outlast worker agent.py                         execute runs
    outlast start agent.py:fulfil '["order 55"]'    start one
    outlast runs                                    list them
    outlast doctor                                  what needs a person

    Every verb has --help with examples. The store is ./outlast.db, or what
    --url or the environment's OUTLAST_URL names. --app or OUTLAST_APP names
    your program's own App, whose codec and settings are used then.
    """
    if version:
        typer.echo(f"outlast {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Be the command `outlast`."""
    if executes_runs(sys.argv[1:]):
        fix_hash_seed()
    open_closed_streams()
    app(prog_name="outlast")
