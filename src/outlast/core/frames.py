"""Where in the user's code an error was raised: the last line of it, to be kept with the error, and its traceback.

What is kept is for people. No body sees it (it is no part of a value, nor of what replay compares), so a line
that moved is no divergence.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from opcode import opmap
from types import CodeType
from typing import Any

KEPT = "__outlast_where__"
"""The attribute of an error that was rebuilt from its record which says where the original was raised."""

RAISE = opmap["RAISE_VARARGS"]

_OUTLAST = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}{os.sep}"
_STDLIB = f"{os.path.dirname(os.path.abspath(os.__file__))}{os.sep}"
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_ELSEWHERE = "site-packages/"
"""What the place of a line in installed code begins with: people know by it that it is not theirs, and so do we."""


def where_of(error: BaseException) -> str:
    """Return where an error was raised, `agent.py:12 in deep`, or '' where none of the user's code took part.

    That is the innermost line of the user's own code. Where it has none, as in a request that a framework makes in a
    step by itself, it is that of the code which Outlast called, wherever that is installed. Of a group it is that of
    its first member that has a line of the user's. Never raises.
    """
    places = [place for place in _places(error, set()) if place]
    return next((place for place in places if not place.startswith(_ELSEWHERE)), places[0] if places else "")


def _places(error: BaseException, seen: set[int]) -> Iterator[str]:
    """Yield where an error may be said to come from, the best first: what was kept, its members, itself, its cause."""
    if id(error) in seen:
        return
    seen.add(id(error))
    kept = _attributes(error).get(KEPT)
    if isinstance(kept, str):
        yield kept
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _places(member, seen)
    yield _raised_at(error)
    if error.__cause__ is not None:  # a framework's own error, which it makes of what the user's tool raised
        yield from _places(error.__cause__, seen)


def _raised_at(error: BaseException) -> str:
    """Return the innermost line of the user's own code in a traceback; else of the package that Outlast called."""
    own: tuple[CodeType, int] | None = None
    called: tuple[CodeType, int] | None = None
    home = ""
    for code, line in _lines(error):
        package = _package(code.co_filename)
        if package:
            home = home or package
            called = (code, line) if package == home else called
        elif not _is_stdlib(code.co_filename):
            own = code, line
    found = own or called
    return "" if found is None else _place(*found)


def was_interrupted(error: BaseException) -> bool:
    """Tell whether this is a Ctrl-C that met the code by chance, and not an error which that raised itself.

    Ctrl-C is the `KeyboardInterrupt` that the handler of SIGINT raises, in the main thread: a function (asyncio's, or
    one of the user), or Python's own, which leaves no line. The code itself raises by a `raise` of its own.
    """
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    innermost = error.__traceback__
    if innermost is None:
        return False
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    code, handler = innermost.tb_frame.f_code, signal.getsignal(signal.SIGINT)
    if code is getattr(getattr(handler, "func", handler), "__code__", None):
        return True
    return code.co_code[innermost.tb_lasti] != RAISE


def where_defined(function: Callable[..., Any]) -> str:
    """Return where a function stands, for an error that was raised in calling it: wrong arguments, a timeout.

    '' for a function of Outlast's own, such as the step that sends a message: the user's line is where it is awaited.
    """
    inner: Any = function
    while inner is not None:
        function, inner = inner, getattr(inner, "__wrapped__", None) or getattr(inner, "func", None)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or code.co_filename.startswith(_OUTLAST):
        return ""
    return _place(code, code.co_firstlineno)


def locate(error: BaseException, function: Callable[..., Any]) -> None:
    """Note in an error that none of the user's code raised which function it came of."""
    if not where_of(error):
        keep_where(error, where_defined(function))


def keep_where(error: BaseException, where: str) -> None:
    """Note in an error where it, or its original, was raised."""
    if where:
        _attributes(error)[KEPT] = where


def add_note(error: BaseException, text: str) -> None:
    """Add a note to an error, also to one whose class lets nobody set an attribute."""
    notes = _attributes(error).setdefault("__notes__", [])
    if isinstance(notes, list):
        notes.append(text)


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an error and of all that led to it, without Outlast's own lines.

    '' where nothing of the user's code is in it: that of an error out of a record was told when it was recorded.
    """
    try:
        told = traceback.TracebackException.from_exception(error)
        kept = sum(_without_ours(part) for part in _parts(told))
        return "".join(told.format()).rstrip("\n") if kept else ""
    except Exception:  # noqa: BLE001 - it reads user code, and formats what user code made
        return ""


def _parts(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    todo: list[traceback.TracebackException | None] = [told]
    while todo:
        part = todo.pop()
        if part is not None:
            yield part
            todo += [part.__cause__, part.__context__, *(part.exceptions or ())]


def _without_ours(part: traceback.TracebackException) -> int:
    """Leave out Outlast's frames; return how many are left."""
    part.stack = traceback.StackSummary.from_list([f for f in part.stack if not f.filename.startswith(_OUTLAST)])
    return len(part.stack)


def _lines(error: BaseException) -> Iterator[tuple[CodeType, int]]:
    """Yield the frames of an error that are not Outlast's, outermost first."""
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if not code.co_filename.startswith(_OUTLAST):
            yield code, step.tb_lineno or code.co_firstlineno
        step = step.tb_next


def _is_stdlib(filename: str) -> bool:
    return filename.startswith("<frozen") or (filename.startswith(_STDLIB) and not _package(filename))


def _package(filename: str) -> str:
    """Return which installed package a file belongs to, '' for code that is not installed."""
    for folder in _INSTALLED:
        before, found, inside = filename.rpartition(folder)
        if found:
            return f"{before}{found}{inside.partition(os.sep)[0]}"
    return ""


def _place(code: CodeType, line: int) -> str:
    name = code.co_filename
    for folder in _INSTALLED:
        if folder in name:
            name = _ELSEWHERE + name.rpartition(folder)[2]
    with contextlib.suppress(OSError):
        name = name.removeprefix(f"{os.getcwd()}{os.sep}")
    return f"{name}:{line} in {code.co_qualname.rpartition('<locals>.')[2]}"


def _attributes(error: BaseException) -> dict[str, Any]:
    """Return an error's own `__dict__`: not by attribute, for a class may have a `__getattr__`."""
    found = object.__getattribute__(error, "__dict__")
    return found if isinstance(found, dict) else {}
