"""Approvals: what a paused run of an agent waits for, asked of people by Outlast."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from agents import RunResult, RunResultStreaming, RunState, ToolApprovalItem

import outlast
from outlast.adapters.questions import call_in_words
from outlast.core.errors import WrongUse


async def decide(
    result: RunResult | RunResultStreaming,
    *,
    question: Callable[[ToolApprovalItem], str] | None = None,
    timeout: float | None = None,
    to: str = "",
) -> RunState[Any]:
    """Ask people about all the calls of tools that a run of an agent has paused for; return its state to go on with.

        result = await Runner.run(agent, goal)
        while result.interruptions:
            result = await Runner.run(agent, await decide(result))

    Each call is an approval of the Outlast run (`outlast.approve`): listed with its tool and its arguments, answered
    once, and waited for across restarts, with `to` and `timeout` as there. The note of a rejection is what the model
    is told. `question(item)` says what people are asked; as a rule it is the call. Raises WrongUse outside of a run and
    for a result that waits for nothing, TimeoutError when nobody has answered in time.
    """
    waiting = result.interruptions
    if not waiting:
        raise WrongUse("this result waits for no approval; ask while result.interruptions has some")
    state = result.to_state()
    asked = [
        outlast.approve(
            question(item) if question is not None else _question(item),
            data=_data(item),
            timeout=timeout,
            to=to,
            key=f"approve:{item.call_id}",
        )
        for item in waiting
    ]
    for item, answer in zip(waiting, await asyncio.gather(*asked), strict=True):
        if answer.approved:
            state.approve(item)
        else:
            state.reject(item, rejection_message=answer.note or None)
    return state


def _question(item: ToolApprovalItem) -> str:
    return f"{item.agent.name}: {call_in_words(item.tool_name or '', item.arguments or '')}"


def _data(item: ToolApprovalItem) -> dict[str, Any]:
    try:
        arguments = json.loads(item.arguments or "{}")
    except ValueError:
        arguments = item.arguments
    return {"agent": item.agent.name, "tool": item.tool_name, "arguments": arguments, "call_id": item.call_id}
