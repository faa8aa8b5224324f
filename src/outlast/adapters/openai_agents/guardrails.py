"""Guardrails: what one has decided is recorded, in the order in which it was decided.

Its function is code of the body. An agent that it runs has a scope of its own there, and its calls are recorded as
those of any agent. What the function returns is recorded in the scope of the run that it guards, so that a replay trips
at the same place; what it did beside is done again, and its new verdict is dropped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agents import GuardrailFunctionOutput, InputGuardrailResult, OutputGuardrailResult, ToolGuardrailFunctionOutput

from outlast.adapters.journaled import journaled
from outlast.adapters.openai_agents.outcomes import same, storable
from outlast.adapters.openai_agents.settings import NOTED, durable, scoped


async def check_input(
    original: Callable[..., Awaitable[InputGuardrailResult]], self: Any, agent: Any, input: Any, context: Any
) -> InputGuardrailResult:
    """Replaces `InputGuardrail.run`."""

    async def check() -> GuardrailFunctionOutput:
        return (await original(self, agent, input, context)).output

    return InputGuardrailResult(guardrail=self, output=await _verdict("input", self.get_name(), check))


async def check_output(
    original: Callable[..., Awaitable[OutputGuardrailResult]], self: Any, context: Any, agent: Any, agent_output: Any
) -> OutputGuardrailResult:
    """Replaces `OutputGuardrail.run`."""

    async def check() -> GuardrailFunctionOutput:
        return (await original(self, context, agent, agent_output)).output

    verdict = await _verdict("output", self.get_name(), check)
    return OutputGuardrailResult(guardrail=self, agent=agent, agent_output=agent_output, output=verdict)


async def check_tool(
    original: Callable[..., Awaitable[ToolGuardrailFunctionOutput]], self: Any, data: Any
) -> ToolGuardrailFunctionOutput:
    """Replaces `ToolInputGuardrail.run` and `ToolOutputGuardrail.run`."""

    async def check() -> ToolGuardrailFunctionOutput:
        return await original(self, data)

    side = "result" if hasattr(data, "output") else "call"
    verdict: ToolGuardrailFunctionOutput = await _verdict(f"{side}:{data.context.tool_call_id}", self.get_name(), check)
    return verdict


async def _verdict(kind: str, name: str, check: Callable[[], Awaitable[Any]]) -> Any:
    if durable() is None:
        return await check()
    key = f"{kind}:{name}"
    with scoped(f"guardrail:{key}"):
        verdict = await check()
    verdict.output_info = storable(verdict.output_info)

    async def decided() -> Any:
        return verdict

    return await journaled("guardrail", decided, encode=same, decode=same, settings=NOTED, key=key)
