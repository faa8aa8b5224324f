"""Confirmations that tools ask for, as approvals: people answer them days later, and by whatever process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from google.adk.events.event import Event
from google.genai import types

from outlast.adapters.questions import call_in_words
from outlast.core.errors import WrongUse
from outlast.runtime.approvals import approve

_ASKS = "adk_request_confirmation"


async def confirmations(events: Iterable[Event], *, to: str = "", timeout: float | None = None) -> types.Content | None:
    """Ask people, in a workflow, for the confirmations that tools ask for in the events of an invocation.

    Returns the message to go on with, which has all their answers: `runner.run_async(..., new_message=message)`. None
    where nothing is asked. Each question is an approval by itself (`outlast.approve`), with the tool's name, its
    arguments, the id of its call and the hint; `to` and `timeout` are those of `outlast.approve`. Where one expires,
    the call is not confirmed.
    """
    seen = list(events)
    answered = {response.id for event in seen for response in event.get_function_responses()}
    asked = [
        call
        for event in seen
        if not event.partial
        for call in event.get_function_calls()
        if call.name == _ASKS and call.id not in answered
    ]
    if not asked:
        return None
    answers = await asyncio.gather(*(_ask(call, to, timeout) for call in asked))
    parts = [
        types.Part(function_response=types.FunctionResponse(id=call.id, name=_ASKS, response={"confirmed": confirmed}))
        for call, confirmed in zip(asked, answers, strict=True)
    ]
    return types.Content(role="user", parts=parts)


async def _ask(call: types.FunctionCall, to: str, timeout: float | None) -> bool:
    args: dict[str, Any] = call.args or {}
    of, confirmation = args.get("originalFunctionCall") or {}, args.get("toolConfirmation") or {}
    if not of.get("name"):
        raise WrongUse(f"the confirmation {call.id} does not say which call of a tool it is for: {args!r}")
    data = {"tool": of["name"], "args": of.get("args", {}), "tool_call_id": of.get("id"), **_asked_for(confirmation)}
    question = f"{call_in_words(of['name'], data['args'])}?"
    try:
        return bool(await approve(question, data=data, to=to, timeout=timeout, key=of.get("id")))
    except TimeoutError:
        return False


def _asked_for(confirmation: dict[str, Any]) -> dict[str, Any]:
    return {name: confirmation[name] for name in ("hint", "payload") if confirmation.get(name)}
