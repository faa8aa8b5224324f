"""The verbs of `outlast`: what there is, and where. A verb's module is imported when it is used, not before."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from outlast.cli.failures import exit_of

VERBS = {
    "demo": "Kill an agent in the middle of its work and watch it go on.",
    "worker": "Execute runs until told to stop.",
    "start": "Start a run of a workflow or step.",
    "runs": "List runs, newest first.",
    "show": "Show one run: its steps, and what it waits for.",
    "stream": "Print what a run writes to a stream.",
    "result": "Wait for a run's result and print it.",
    "send": "Send a message to a run.",
    "approvals": "List what runs ask people for.",
    "approve": "Answer an approval with yes.",
    "reject": "Answer an approval with no.",
    "schedules": "List schedules, and pause, trigger or backfill one.",
    "cancel": "Ask a run to end.",
    "hold": "Hold runs back, so that no worker claims them.",
    "release": "Give runs free that were held back.",
    "move": "Have the runs of a workflow executed as another.",
    "resume": "Take a failed, cancelled or stuck run up again.",
    "resolve": "Decide a step that is in doubt.",
    "fork": "Start a new run from the middle of another.",
    "queues": "List queues, and pause them.",
    "doctor": "Say what is wrong and what to do.",
    "version": "Print the versions of Outlast, Python and SQLite.",
}
"""Each verb is the function of that name in the module of that name, here in `outlast.cli`."""


def command_of(verb: str) -> Any:
    """Import a verb's module and return its command."""
    function = getattr(importlib.import_module(f"outlast.cli.{verb}"), verb)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    alone.command(verb, short_help=VERBS[verb])(function)
    return typer.main.get_command(alone)


class Verbs(TyperGroup):
    """The group of all verbs. Help and completion see their names and one line each; using one imports it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"name": "outlast"})
        self.commands.update({verb: TyperCommand(verb, help=line) for verb, line in VERBS.items()})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the verbs in the order of the table."""
        return list(VERBS)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the real command of the verb that was asked for."""
        verb, command, rest = super().resolve_command(ctx, args)
        return verb, (command_of(verb) if verb in VERBS else command), rest

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Do what the command line says and exit. Errors are told in one way, whatever the verb."""
        words = list(args) if args is not None else sys.argv[1:]
        own = words[: words.index("--")] if "--" in words else words
        debug = "--debug" in own
        if debug:  # it may stand anywhere, so that it can be added to a command that went wrong
            words.remove("--debug")
        run = super().main

        def command() -> Any:
            return run(words, prog_name, complete_var, standalone_mode=False, **extra)

        raise SystemExit(exit_of(command, as_json="--json" in own, debug=debug))
