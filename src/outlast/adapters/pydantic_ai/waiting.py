"""What an agent waits for from outside: people who allow a tool's call, and events that other code brings.

Both are waits of the run, so they hold no memory, and survive every crash. An approval is one of `outlast.approve`.
What the framework calls an external event is a message to the run; its token says to which run, and which message.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.durable_exec import ExternalEventError, ExternalEventWaiter
from pydantic_core import to_jsonable_python

from outlast.adapters.journaled import journaled
from outlast.adapters.questions import call_in_words
from outlast.core.effects import InBody
from outlast.core.errors import WrongUse
from outlast.core.identity import here
from outlast.core.settings import Settings
from outlast.runtime.approvals import approve
from outlast.runtime.messages import receive

if TYPE_CHECKING:
    from pydantic_ai.messages import ToolCallPart

    from outlast.runtime.app import App

ASKED = Settings().with_(check_args=False)


async def allowed(requests: DeferredToolRequests, to: str) -> DeferredToolResults | None:
    """Ask people about the calls of tools that need approval; return their answers. None where there is no such call.

    Each question is answered by itself: it is the call, and its data has the tool, its arguments, and the call's id.
    """
    if not requests.approvals:
        return None
    answers = await asyncio.gather(*(_ask(call, requests, to) for call in requests.approvals))
    return requests.build_results(approvals=dict(answers))


async def _ask(call: ToolCallPart, requests: DeferredToolRequests, to: str) -> tuple[str, ToolApproved | ToolDenied]:
    data: dict[str, Any] = {
        "tool": call.tool_name,
        "args": to_jsonable_python(call.args_as_dict()),
        "tool_call_id": call.tool_call_id,
    }
    if requests.metadata.get(call.tool_call_id):
        data["metadata"] = to_jsonable_python(requests.metadata[call.tool_call_id])
    question = f"{call_in_words(call.tool_name, data['args'])}?"
    answer = await approve(question, data=data, to=to, key=call.tool_call_id)
    if answer:
        return call.tool_call_id, ToolApproved()
    return call.tool_call_id, ToolDenied(answer.note) if answer.note else ToolDenied()


class EventWaiter(ExternalEventWaiter):
    """Waits for what resolves a token: a message to the run, the first that is sent for it."""

    async def wait(
        self, name: str, *, ask: Callable[[str], Awaitable[JsonValue]], timeout: timedelta | None
    ) -> JsonValue:
        place = cast("InBody", here.get())
        message = _message_of(place.branch.current().draw(f"event {name}"))
        token = f"{place.ops.run_id}:{message}"
        asked = await journaled(
            "ask", lambda: ask(token), encode=_same, decode=_same, settings=ASKED, key=name, arguments={"token": token}
        )
        if asked is not None:
            return cast("JsonValue", asked)
        try:
            come = await receive(message, timeout=None if timeout is None else timeout.total_seconds())
        except TimeoutError:
            raise ExternalEventError(f"No resolution arrived within {timeout}.") from None
        if "failed" in come:
            raise ExternalEventError(str(come["failed"]))
        return cast("JsonValue", come["payload"])


def _same(value: Any) -> Any:
    return value


def _message_of(drawn: str) -> str:
    """Return the name of a message. It does not depend on the run: a fork, too, waits where its original did."""
    return f"event-{hashlib.blake2b(drawn.encode(), digest_size=8).hexdigest()}"


async def resolve_event(app: App, token: str, payload: Any) -> None:
    """End the wait for an external event: the agent goes on with `payload`, which is what JSON has.

    `token` is what the agent has handed out (`RequestInput(ask=...)`, `wait_for_external_event`). Any process may do so
    with any App on the same store, at any time after that, also while no worker is alive; the first counts, and later
    ones change nothing. Raises RunNotFound, RunEnded, WrongUse for a token that is none.
    """
    await _answer(app, token, {"payload": to_jsonable_python(payload)})


async def fail_event(app: App, token: str, reason: str) -> None:
    """End the wait for an external event with a failure: the agent's `ExternalEventError` says `reason`.

    Raises what `resolve_event` raises.
    """
    await _answer(app, token, {"failed": reason})


async def _answer(app: App, token: str, value: dict[str, Any]) -> None:
    run, colon, message = token.rpartition(":")
    if not (colon and message.startswith("event-")):
        raise WrongUse(f"{token!r} is no token of an external event; those are handed to `ask`, as run:event-...")
    await app.send(run, message, value, id=message)
