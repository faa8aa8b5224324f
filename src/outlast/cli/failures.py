"""What a command says when it cannot do what it was asked: one message on stderr, and an exit code."""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from outlast.cli.exits import ExitCode, exit_code_of
from outlast.cli.streams import is_of_output, let_go, let_go_of_lost_words, output_fault
from outlast.cli.wording import visible_lines
from outlast.core.errors import OutlastError


class Told(Exception):
    """The command has said all there is to say; it only ends, with this code."""

    def __init__(self, code: ExitCode) -> None:
        super().__init__(code)
        self.code = code


class OutputLost(Exception):
    """What the command had to say could not be written to stdout."""

    def __init__(self, fault: OSError) -> None:
        super().__init__(fault.strerror or str(fault))
        self.quiet = isinstance(fault, BrokenPipeError)  # as whoever pipes into `head` expects


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
        return _exit_of(command, as_json=as_json, debug=debug)
    except OutputLost as lost:
        let_go(sys.stdout)
        if not lost.quiet:
            tell(f"the output cannot be written: {lost}", "OutputLost", as_json=as_json)
        return ExitCode.BROKEN_PIPE
    finally:
        let_go_of_lost_words()


def _exit_of(command: Callable[[], object], *, as_json: bool, debug: bool) -> int:
    try:
        code = command()
        if (fault := output_fault()) is not None:
            raise OutputLost(fault)
    except Told as told:
        return told.code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # click's way to end help that nobody reads
            raise OutputLost(leaving.__context__) from None
        raise
    except OutlastError as error:
        if debug:
            traceback.print_exc()
        tell(str(error), type(error).__name__, as_json=as_json)
        return exit_code_of(error)
    except Exception as error:  # click's, or a fault of ours: that one keeps its traceback
        if isinstance(error, OSError) and is_of_output(error):  # in help, which click writes
            raise OutputLost(error) from None
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
