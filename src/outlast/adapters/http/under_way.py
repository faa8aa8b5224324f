"""The requests of one execution of a run: which are alike, and whether they can be taken for each other.

Requests of one key in one scope are told apart by their order. It is the same in each execution where they follow one
another, in one task or in one that it has started. Others may be sent in another order after a crash, and then each is
given the other's answer. That harms nobody where they are alike. Where a header tells them apart that is no part of the
key, it would be a silent mistake, and is refused.

A header that holds a secret may be another one later, as secrets are renewed. So of requests that differ in secrets
alone, those are refused that are under way at once.
"""

from __future__ import annotations

import re
import threading
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from outlast.adapters.http.requests import Asked, Tries
from outlast.core.effects import InBody
from outlast.core.errors import WrongUse

Headers = dict[str, list[str]]

SECRET_LIKE = re.compile(r".*(auth|cookie|credential|dpop|jwt|key|password|secret|session|token).*")


class Sent:
    """A request that was sent, and the one before it in its line of control."""

    __slots__ = ("before",)

    def __init__(self, before: Sent | None) -> None:
        self.before = before


_sent: ContextVar[Sent | None] = ContextVar("outlast_http_sent", default=None)


class Alike:
    """The requests of one key in one scope, by whichever transport."""

    def __init__(self) -> None:
        self.tries = Tries()
        self._under_way: list[Headers] = []
        self._sent: list[tuple[Headers, list[Sent]]] = []
        self._refused: list[tuple[Headers, list[str]]] = []
        self._lock = threading.Lock()  # clients in threads send requests, too

    def begin(self, headers: Headers) -> list[str]:
        """A request is about to be sent. Return the names of headers by which alone it differs from another."""
        with self._lock:
            # One that was refused stays so: many clients send such a request again, when the other may have ended.
            known = next((names for refused, names in self._refused if refused == headers), None)
            differ = known or self._difference(headers)
            if differ:
                self._refused.append((headers, differ))
                return differ
            self._under_way.append(headers)
            lasting = _lasting(headers)
            sent = next((sent for others, sent in self._sent if others == lasting), None)
            if sent is None:
                self._sent.append((lasting, sent := []))
            sent.append(this := Sent(_sent.get()))
            _sent.set(this)
            return []

    def end(self, headers: Headers) -> None:
        """A request is over: its answer is recorded, or it has failed."""
        with self._lock:
            self._under_way.remove(headers)

    def _difference(self, headers: Headers) -> list[str]:
        for other in self._under_way:
            if other != headers:
                return _names(headers, other)
        lasting = _lasting(headers)
        for other, sent in self._sent:
            if other != lasting and not _are_before(sent):
                return _names(lasting, other)
        return []


def _lasting(headers: Headers) -> Headers:
    return {name: values for name, values in headers.items() if not SECRET_LIKE.fullmatch(name)}


def _names(one: Headers, other: Headers) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _are_before(sent: list[Sent]) -> bool:
    """Tell whether all of these were sent before this code, in its line of control."""
    left, at = set(sent), _sent.get()
    while left and at is not None:
        left.discard(at)
        at = at.before
    return not left


_runs: WeakKeyDictionary[Any, dict[tuple[Any, str], Alike]] = WeakKeyDictionary()


def begin(place: InBody, asked: Asked, headers: Headers) -> Alike:
    """A request of this run's body is about to be sent; return those of its key. Raises WrongUse, see above."""
    scope = place.branch.current()
    alike = _runs.setdefault(place.ops, {}).setdefault((scope, asked.digest), Alike())
    differ = alike.begin(headers)
    if differ:
        raise WrongUse(
            f"run {place.ops.run_id}: {asked.line} was sent beside another such request of the scope {scope.path}, "
            f"from which it differs in headers alone ({', '.join(differ)}): after a crash each could be given the "
            "other's answer. Name the header in DurableTransport(identify=[...]) where it tells requests apart, in "
            "ignore=[...] where it is another one each time; or send each in an outlast.scope(name) of its own"
        )
    return alike
