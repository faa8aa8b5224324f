"""How an error is told: in one line, or as the tree of its parts. Nothing here ever raises, whatever the error holds.

The line is the same wherever an error is shown: a run's and a step's, in logs, in `outlast show` and `outlast runs`,
and in the reasons of doubts and divergences.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from outlast.core.errors import StepError
from outlast.core.frames import where_of

MOST_LEAVES = 3
"""So many errors of a group stand in its line; the tree has them all."""
MOST_NESTED = 20

_TASK_GROUP = "unhandled errors in a TaskGroup"  # what asyncio and anyio call every group: it says nothing
_GROUP: Any = vars(BaseExceptionGroup)


def text_of_error(error: BaseException) -> str:
    """Return `str(error)`; never raises."""
    try:
        return str.__str__(str(error))
    except BaseException as problem:  # noqa: BLE001 - user code; what it raises must not end the caller
        return f"<{type(error).__qualname__}, whose str() raised {type(problem).__name__}>"


def error_line(error: BaseException) -> str:
    """Return an error in one line: `CardDeclined: no funds`; a group by its leaves, an error with its cause."""
    name, text = name_and_text(error)
    return f"{name}: {text}" if text else name


def name_and_text(error: BaseException) -> tuple[str, str]:
    """Return the two halves of an error's line: the name of its class, and what there is to say."""
    return _name_and_text(error, MOST_NESTED)


def error_tree(error: BaseException) -> list[str]:
    """Return an error as lines, each member of a group and each cause indented below what it belongs to."""
    return list(_tree(error, "", "", MOST_NESTED))


def _name_and_text(error: BaseException, nested: int) -> tuple[str, str]:
    if isinstance(error, BaseExceptionGroup) and nested:
        return type(error).__name__, _of_group(error, nested)
    name, text = _plain(error)
    text = " ".join(line for line in map(str.strip, text.splitlines()) if line)
    cause = error.__cause__
    if cause is not None and nested:
        whole = ": ".join(part for part in _name_and_text(cause, nested - 1) if part)
        if _plain(cause)[1] not in text or isinstance(cause, BaseExceptionGroup):
            text = f"{text} (from {whole})".lstrip()
    return name, text


def _of_group(group: BaseExceptionGroup[Any], nested: int) -> str:
    leaves = list(_leaves(group, nested))
    lines = [": ".join(part for part in _name_and_text(leaf, nested - 1) if part) for leaf in leaves[:MOST_LEAVES]]
    if len(leaves) > MOST_LEAVES:
        lines.append(f"and {len(leaves) - MOST_LEAVES} more")
    message = _message(group)
    return ("" if message == _TASK_GROUP else f"{message}: ") + "; ".join(lines)


def _leaves(group: BaseExceptionGroup[Any], nested: int) -> Iterator[BaseException]:
    for member in _GROUP["exceptions"].__get__(group):
        if isinstance(member, BaseExceptionGroup) and nested and _message(member) in (_TASK_GROUP, _message(group)):
            yield from _leaves(member, nested - 1)
        else:
            yield member


def _message(group: BaseExceptionGroup[Any]) -> str:
    return str(_GROUP["message"].__get__(group))


def _plain(error: BaseException) -> tuple[str, str]:
    """Return the class and the text of an error by itself; those of the original, where a StepError stands for it."""
    text = text_of_error(error)
    if type(error) is StepError and (original := error.type_name):
        name = original.rpartition(":")[2].rpartition(".")[2]
        if text in (f"{original}: {error.text}", f"{name}: {error.text}"):
            return name or original, error.text
    return type(error).__name__, text


def _tree(error: BaseException, indent: str, link: str, nested: int) -> Iterator[str]:
    group = isinstance(error, BaseExceptionGroup)
    name, text = (type(error).__name__, _message(error)) if group else _plain(error)  # type: ignore[arg-type]
    where = where_of(error)
    first, *more = f"{link}{name}: {text}".removesuffix(": ").splitlines()
    yield f"{indent}{first}" + (f" ({where})" if where and not group else "")
    yield from (f"{indent}  {line}" for line in more)
    if nested and group:
        for member in _GROUP["exceptions"].__get__(error):
            yield from _tree(member, f"{indent}  ", "", nested - 1)
    cause = error.__cause__
    if nested and cause is not None:
        yield from _tree(cause, f"{indent}  ", "from ", nested - 1)
