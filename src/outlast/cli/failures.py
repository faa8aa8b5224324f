"""What a command says when it cannot do what it was asked: one message on stderr, and an exit code."""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from outlast.cli.exits import ExitCode, exit_code_of
from outlast.cli.wording import visible_lines
from outlast.core.errors import OutlastError


class Told(Exception):
    """The command has said all there is to say; it only ends, with this code."""

    def __init__(self, code: ExitCode) -> None:
        super().__init__(code)
        self.code = code


@runtime_checkable
class UsageFault(Protocol):
    """A wrong command line. typer carries its own copy of click, whose classes have no public name."""

    exit_code: int
    ctx: Any

    def format_message(self) -> str:
        """Return what is wrong."""
        ...


def exit_of(command: Callable[[], object], *, as_json: bool, debug: bool) -> int:
    """Call `command` and return the exit code, having told of what went wrong."""
    try:
        code = command()
    except Told as told:
        return told.code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except OutlastError as error:
        if debug:
            traceback.print_exc()
        tell(str(error), type(error).__name__, as_json=as_json)
        return exit_code_of(error)
    except Exception as error:  # click's, or a fault of ours: that one keeps its traceback
        if not isinstance(error, UsageFault):
            raise
        _tell_usage(error, as_json=as_json)
        return error.exit_code
    return code if isinstance(code, int) else ExitCode.OK


def tell(message: str, type_name: str, *, as_json: bool, **more: Any) -> None:
    """Write an error to stderr: `error: ...` or, with --json, an object with `error` and `type`."""
    if as_json:
        text = json.dumps({"error": message, "type": type_name, **more}, ensure_ascii=False)
    else:
        text = f"error: {visible_lines(message)}"
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is where a command line speaks


def _tell_usage(fault: UsageFault, *, as_json: bool) -> None:
    if fault.ctx is not None and not as_json:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{fault.ctx.get_usage()}\nTry '{fault.ctx.command_path} --help'.\n")
    tell(fault.format_message(), "WrongUse", as_json=as_json)
