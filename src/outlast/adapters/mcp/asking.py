"""What a server asks people in the midst of a call (elicitation), as approvals of the run.

Newer servers answer a call by saying what they need, and are called again with it. Older ones ask over the connection
and wait, which nobody could go on with in another process: there the question is dismissed, the call comes to its
end, people are asked, and the tool is called again, where the same question is answered at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession

from outlast.codec.forms import SchemaForm
from outlast.runtime.approvals import approve

DISMISSED = types.ElicitResult(action="cancel")


class Questions:
    """What one call has asked over its connection, and what was answered to it before."""

    def __init__(self, answered: Iterable[tuple[str, dict[str, Any]]] = ()) -> None:
        self.asked: list[dict[str, Any]] = []
        self._answered = list(answered)

    def answer(self, params: Any) -> types.ElicitResult:
        """Return what was answered to a question; one that is new is dismissed, and kept to be asked."""
        question = plain(params)
        for place, (content, answer) in enumerate(self._answered):
            if content == content_of(question):
                del self._answered[place]
                return types.ElicitResult.model_validate(answer)
        self.asked.append(question)
        return DISMISSED


under_way: WeakKeyDictionary[ClientSession, Questions] = WeakKeyDictionary()
"""The call of each session that is under way in a run."""


async def elicit(context: ClientRequestContext, params: Any) -> types.ElicitResult | types.ErrorData:
    """Have people answer what a server asks: `Client(server, elicitation_callback=elicit)`.

    In a run the question becomes an approval: approved is `accept`, with what was filled in; rejected is `decline`. For
    a session that `DurableSession` makes durable; elsewhere questions are dismissed.
    """
    questions = under_way.get(context.session)
    return DISMISSED if questions is None else questions.answer(params)


async def ask(question: dict[str, Any], key: str) -> dict[str, Any]:
    """Ask people in the body of a run, and wait; return the answer as the protocol has it."""
    schema = question.get("requestedSchema")
    data = {name: question[name] for name in ("url", "requestedSchema") if name in question}
    form: Any = SchemaForm(schema) if schema else None
    answer = await approve(question["message"], data=data, form=form, key=key)
    if not answer:
        return {"action": "decline"}
    if not schema:
        return {"action": "accept"}
    return {"action": "accept", "content": answer.form or {}}


def plain(params: Any) -> dict[str, Any]:
    """Return a question in JSON's own types."""
    dumped: dict[str, Any] = params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "task"})
    return dumped


def content_of(question: dict[str, Any]) -> str:
    """Return what tells a question from others."""
    told = {name: value for name, value in question.items() if name != "elicitationId"}  # drawn anew each time
    return json.dumps(told, sort_keys=True)
