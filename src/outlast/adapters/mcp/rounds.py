"""The rounds of one call: a server that asks something is called again with the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types

from outlast.adapters.mcp.asking import ask, content_of, plain
from outlast.adapters.mcp.results import FailedCall, UnsentCall
from outlast.core.errors import WrongUse

MOST_ROUNDS = 20
"""So often one call may ask."""


class Rounds:
    """How far a call has come. `first` is the identity of its first step, after which its questions are named.

    Each round is a request of its own, with a key of its own: a server that keeps results by their keys would else give
    the question again.
    """

    def __init__(self, name: str) -> None:
        self.first = ""
        self.answered: list[tuple[str, dict[str, Any]]] = []
        self.sent: dict[str, Any] = {}
        self._name = name
        self._number = 1

    def key(self, key: str) -> str:
        """Return the key of the step of this round, where the call has one."""
        return key if self._number == 1 else f"{key}!{self._number}"

    def begins_anew(self, failed: FailedCall) -> bool:
        """Tell whether the call begins again: its server no longer knows what it has asked.

        Servers keep that for a time, and some for their own lifetime; people may take longer. What is asked again was
        answered, and is not asked of them a second time.
        """
        refused = failed.code == types.INVALID_PARAMS and not isinstance(failed, UnsentCall)
        lost = refused and self.sent.get("request_state") is not None
        if lost:
            self.sent = {}
            self._next()
        return lost

    def sends(self, attempt: int, *, once: bool) -> dict[str, Any]:
        """Return what an attempt of this round sends besides the arguments.

        A server that no longer knows a call with the effect `once` leaves it in doubt: it says so by an error that a
        tool which has acted may raise, too. Where it is known twice that nothing happened, the same state would be
        refused for ever, so the third attempt is a new call. The second is not: the first may have ended with its
        process, and a server that knows the call goes on with it, and repeats nothing that it did before it asked.
        """
        return {} if once and attempt > 2 else self.sent

    async def answer(self, outcome: dict[str, Any], other: Callable[[Any, str], Awaitable[Any]]) -> None:
        """Get what a server has asked for; `other` answers what is not for people."""
        self._next()
        if "asked" in outcome:
            for place, question in enumerate(outcome["asked"]):
                answer = await ask(question, f"{self.first} {self._number} {place}")
                self.answered.append((content_of(question), answer))
            return
        needs = types.InputRequiredResult.model_validate(outcome["needs"])
        responses: dict[str, Any] = {}
        for name, request in sorted((needs.input_requests or {}).items()):
            responses[name] = await self._answer(request, f"{self.first} {self._number} {name}", other)
        self.sent = {"input_responses": responses or None, "request_state": needs.request_state}

    async def _answer(self, request: Any, key: str, other: Callable[[Any, str], Awaitable[Any]]) -> Any:
        if not isinstance(request, types.ElicitRequest):
            return await other(request, key)
        question = plain(request.params)
        content = content_of(question)
        known = next((answer for asked, answer in self.answered if asked == content), None)
        if known is None:
            known = await ask(question, key)
            self.answered.append((content, known))
        return types.ElicitResult.model_validate(known)

    def _next(self) -> None:
        self._number += 1
        if self._number > MOST_ROUNDS:
            raise WrongUse(
                f"the tool {self._name!r} has asked {MOST_ROUNDS} times in one call, and asks again; it is given up"
            )
