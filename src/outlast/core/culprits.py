"""Which step's error it is that ended a run."""

from __future__ import annotations


class Culprits:
    """The recorded errors that a run's body was given, and whose they are."""

    def __init__(self) -> None:
        self._given: dict[int, tuple[object, str]] = {}  # each is kept, so that no other gets its address

    def remember(self, error: BaseException, key: str) -> None:
        """Note that this error is the outcome of the call with this identity."""
        self._given[id(error)] = (error, key)

    def blame(self, error: object, key: str) -> None:
        """Say whose an error is that was made of several; or what an error holds that the code makes of an outcome."""
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
            for thing in vars(e).values():  # a client's own error, with the response that a step was answered with
                if id(thing) in self._given:
                    return self._given[id(thing)][1]
            todo += [e.__cause__, e.__context__]
        return ""
