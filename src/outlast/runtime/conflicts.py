"""A run id that is taken: by the very call that was to be started, spelt in another way, or by another one.

Stores compare the bytes of arguments. `flow(1)` and `flow(n=1)` are the same call in other bytes, and under a codec
that encrypts no two are the same. So where a store finds a conflict, calls are compared by the parameters they fill.
"""

from __future__ import annotations

import inspect
import reprlib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from outlast.core.errors import OutlastError, RunConflict
from outlast.core.functions import Definition
from outlast.core.records import RunRow

if TYPE_CHECKING:
    from outlast.codec import Codec

Arguments = tuple[Sequence[Any], dict[str, Any]]

MOST_SHOWN = 200
"""Characters of a call that a message shows."""


def check_same_call(codec: Codec, definition: Definition[..., Any] | None, row: RunRow, taken: RunRow) -> None:
    """Return when the run that has the id of `row` is of the same call. Raises RunConflict.

    An argument that was left out is not the same as its default, which new code may change. Where the definition is not
    known, no arguments in other bytes are the same.
    """
    if row.dedup and taken.dedup == row.dedup and taken.id != row.id:
        raise RunConflict(
            f"dedup key {row.dedup!r} of workflow {row.workflow!r} is held by run {taken.id!r}, with other arguments, "
            f"until that has ended (status {taken.status.value}); nothing was started. Wait for that, or use another "
            f"key; {_look_at(taken)}"
        )
    if taken.workflow != row.workflow:
        raise _conflict(taken, f"workflow {taken.workflow!r}", "")
    if definition is None:
        raise _conflict(taken, "other arguments", "")
    wanted, kept = _arguments(codec, definition, row.input), _arguments(codec, definition, taken.input)
    if wanted is None or kept is None:
        raise _conflict(taken, "other arguments", "")
    if _compared(codec, definition, wanted) == _compared(codec, definition, kept):
        return
    both = ""
    if codec.comparable([list(wanted[0]), wanted[1]], row.input) == row.input:  # it hides nothing
        both = f": it is {_shown(definition, kept)}, and not {_shown(definition, wanted)}"
    raise _conflict(taken, "other arguments", both)


def _conflict(taken: RunRow, what: str, both: str) -> RunConflict:
    return RunConflict(
        f"run {taken.id!r} exists already, with {what} (status {taken.status.value}){both}; nothing was changed. "
        f"Use another id, or {_look_at(taken)}"
    )


def _look_at(taken: RunRow) -> str:
    return f"look at that run: outlast show {shlex.quote(taken.id)} (in Python: app.get({taken.id!r}))"


def _arguments(codec: Codec, definition: Definition[..., Any], data: bytes) -> Arguments | None:
    """Return stored arguments; None where they cannot be rebuilt here."""
    try:
        args, kwargs = codec.decode(data, definition.input_type)
    except OutlastError:
        return None
    return args, kwargs


def _compared(codec: Codec, definition: Definition[..., Any], arguments: Arguments) -> bytes:
    """Return bytes that are the same for the same arguments, however the call was spelt."""
    filled = _by_parameter(definition.signature, *arguments)
    return codec.comparable(filled, codec.encode(filled))


def _by_parameter(signature: inspect.Signature | None, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Return which parameter has which value, in the order of the signature."""
    try:
        bound = None if signature is None else signature.bind(*args, **kwargs)
    except TypeError:  # it was started when the signature was another
        bound = None
    if bound is None or signature is None:
        return [list(args), sorted(kwargs.items())]
    filled = []
    for name, value in bound.arguments.items():
        gathers = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        filled.append([name, sorted(value.items()) if gathers else value])
    return filled


def _shown(definition: Definition[..., Any], arguments: Arguments) -> str:
    args, kwargs = arguments
    texts = [_reprs.repr(arg) for arg in args] + [f"{name}={_reprs.repr(value)}" for name, value in kwargs.items()]
    call = f"{definition.name}({', '.join(texts)})"
    return call if len(call) <= MOST_SHOWN else f"{call[: MOST_SHOWN - 4]}...)"


_reprs = reprlib.Repr()
_reprs.maxstring = _reprs.maxother = 60
