"""Which step's error it is that ended a run."""

from __future__ import annotations


class Culprits:
    """The recorded errors that a run's body was given, and whose they are."""

    def __init__(self) -> None:
        self._given: dict[int, tuple[BaseException, str]] = {}  # each is kept, so that no other gets its address

    def remember(self, error: BaseException, key: str) -> None:
        """Note that this error is the outcome of the call with this identity."""
        self._given[id(error)] = (error, key)

    def blame(self, error: BaseException, key: str) -> None:
        """Say whose an error is that was made of several."""
        self._given[id(error)] = (error, key)

    def of(self, error: BaseException) -> str:
        """Return the identity of the call whose recorded error this is, or that it came from, or ''."""
        seen: set[int] = set()
        todo: list[BaseException | None] = [error]
        while todo:
            e = todo.pop(0)
            if e is None or id(e) in seen:
                continue
            seen.add(id(e))
            if id(e) in self._given:
                return self._given[id(e)][1]
            if isinstance(e, BaseExceptionGroup):
                todo += e.exceptions
            todo += [e.__cause__, e.__context__]
        return ""
