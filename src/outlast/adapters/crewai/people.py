"""What a crew asks people: approvals, which they answer days later, and by whatever process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from crewai.core.providers.human_input import HumanInputProvider, SyncHumanInputProvider, get_provider

from outlast.adapters.crewai.calls import stopping, wait_in_thread
from outlast.adapters.crewai.places import key_here
from outlast.core.effects import InBody
from outlast.core.identity import here
from outlast.runtime.approvals import Approval, approve

if TYPE_CHECKING:
    from crewai.agents.parser import AgentFinish
    from crewai.core.providers.human_input import AsyncExecutorContext, ExecutorContext

NO_REASON = "The result was not accepted. No reason was given."


def provider_for(to: str) -> HumanInputProvider:
    """Return who asks people in a run: `People`, where the program has set no provider of its own."""
    given = get_provider()
    return People(to) if type(given) in (SyncHumanInputProvider, People) else given


class People(SyncHumanInputProvider):
    """Has people look at the result of a task with `human_input=True`: they accept it, or say what is to be changed."""

    def __init__(self, to: str) -> None:
        self._to = to

    def handle_feedback(self, formatted_answer: AgentFinish, context: ExecutorContext) -> AgentFinish:
        """Ask until the result is accepted."""
        answer = formatted_answer
        while context.ask_for_human_input:
            said = ask_in_thread(*self._question(answer, context), to=self._to)
            if said.approved:
                context.ask_for_human_input = False
            else:
                context.messages.append(context._format_feedback_message(said.note or NO_REASON))
                answer = context._invoke_loop()
        return answer

    async def handle_feedback_async(self, formatted_answer: AgentFinish, context: AsyncExecutorContext) -> AgentFinish:
        """Ask until the result is accepted."""
        answer = formatted_answer
        while context.ask_for_human_input:
            said = await ask(*self._question(answer, context), to=self._to)
            if said.approved:
                context.ask_for_human_input = False
            else:
                context.messages.append(context._format_feedback_message(said.note or NO_REASON))
                answer = await context._ainvoke_loop()
        return answer

    def _question(self, answer: AgentFinish, context: ExecutorContext) -> tuple[str, dict[str, Any], str]:
        agent = getattr(context.agent, "role", "the agent")
        task = "" if context.task is None else context.task.name or context.task.description
        data = {"task": task, "agent": agent, "result": self._get_output_string(answer)}
        return f"Is the result of {agent} to be accepted?", data, key_here()


async def ask(question: str, data: dict[str, Any], key: str, *, to: str) -> Approval[Any]:
    """Ask people, in the body, on its loop or on one that the framework runs in a thread."""
    ops: Any = cast("InBody", here.get()).ops
    with stopping():
        if ops.body.is_here():
            return await approve(question, data=data, to=to, key=key)
        asked: Any = ops.body.hand_over(lambda: approve(question, data=data, to=to, key=key).start())
        return cast("Approval[Any]", await asked)


def ask_in_thread(question: str, data: dict[str, Any], key: str, *, to: str) -> Approval[Any]:
    """Do so, blocking, in a thread of the body."""

    def wait() -> Approval[Any]:
        ops: Any = cast("InBody", here.get()).ops
        asked = ops.body.hand_over(lambda: approve(question, data=data, to=to, key=key).start())  # on the body's loop
        return cast("Approval[Any]", ops.block(asked))

    with stopping():
        return wait_in_thread(wait, "approve")
