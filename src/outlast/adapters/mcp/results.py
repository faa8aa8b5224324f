"""What is recorded of a server's answers, and of its errors."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
from mcp import MCPError
from pydantic import BaseModel

from outlast.core.errors import OutlastError, WrongUse


class FailedCall(OutlastError):
    """A server answered a call with an error, or its connection was lost: the failure of the step, as it is recorded.

    The code that makes the call is raised an `MCPError`, as ever.
    """

    def __init__(self, message: str = "", *, code: int = types.INTERNAL_ERROR, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class UnsentCall(FailedCall):
    """A call failed before it was sent, so its server has done nothing.

    No answer of a server says as much, whatever its code: what "wrong arguments" and "no such method" are told by may
    come out of the midst of a tool that has acted already, and so may all that the client itself makes of an answer.
    """


def failure_of(error: MCPError, kind: type[FailedCall] = FailedCall) -> FailedCall:
    """Return the failure that an error of the protocol is recorded as."""
    return kind(error.message, code=error.code, data=error.data)


def error_of(failed: FailedCall) -> MCPError:
    """Return the error that a failure is to the code that made the call."""
    return MCPError(failed.code, str(failed), failed.data)


def kept(result: BaseModel) -> dict[str, Any]:
    """Return what the journal keeps of a result."""
    dumped: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def call_result(result: Any) -> dict[str, Any]:
    """Return what the journal keeps of the result of a call. Raises WrongUse for that of an extension."""
    if isinstance(result, types.CallToolResult):
        return kept(result)
    if isinstance(result, types.InputRequiredResult):
        return {"needs": kept(result)}
    raise WrongUse(f"a result of the type {type(result).__name__}, which an extension claims, cannot be recorded")


def is_question(outcome: Any) -> bool:
    """Tell whether the outcome of a step is that its server asks something."""
    return isinstance(outcome, dict) and bool({"asked", "needs"} & outcome.keys())


def result_of(outcome: Any) -> types.CallToolResult:
    """Return the result of a call that a journal has, or that somebody gave who resolved a doubt.

    Such a person may give a text, or JSON as the tool has it: it is recorded for good by now, so nothing is refused.
    """
    if isinstance(outcome, dict) and "content" in outcome:
        return types.CallToolResult.model_validate(outcome)
    text = outcome if isinstance(outcome, str) else json.dumps(outcome)
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    if isinstance(outcome, dict):
        return types.CallToolResult(content=content, structured_content=outcome)
    return types.CallToolResult(content=content)
