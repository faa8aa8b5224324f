"""Answers come in live, are recorded whole, and readers of a run's stream end with each token once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import PartDeltaEvent, TextPartDelta

import outlast
from outlast import workflow
from outlast.pydantic_ai import Durable
from tests.adapters.pydantic_ai.provider import Provider
from tests.adapters.stand_in import Reply, ToolCall
from tests.behaviour.stage import OpenApp, Restart

WORDS = "one two three four"


async def test_a_consumer_has_the_first_token_before_the_last_is_sent(provider: Provider, open_app: OpenApp) -> None:
    seen = threading.Event()
    held = Reply(WORDS, before=lambda n: None if n < 2 else _wait(seen))
    provider.script = lambda asked: held
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> list[str]:
        parts = []
        async with agent.run_stream("go") as answer:
            async for text in answer.stream_text(delta=True, debounce_by=None):
                parts.append(text)
                seen.set()
            parts.append(answer.response.state)
        return parts

    async with open_app() as app:
        assert await (await app.start(go())).result() == ["one", " two", " three", " four", "complete"]


def _wait(event: threading.Event) -> None:
    assert event.wait(20), "the consumer has not seen the first token"


async def test_a_recorded_answer_is_told_in_its_pieces_and_ends_the_same(provider: Provider, restart: Restart) -> None:
    provider.script = lambda asked: Reply(WORDS)
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])
    passes: list[list[str]] = []

    @workflow(loop="native")
    async def go() -> list[Any]:
        async with agent.run_stream("go") as answer:
            parts = [text async for text in answer.stream_text(delta=True, debounce_by=None)]
            whole, usage = await answer.get_output(), answer.usage
        passes.append(parts)
        await restart.point()
        return [whole, usage.output_tokens, [message.kind for message in answer.all_messages()]]

    assert await restart.result(go()) == [WORDS, 5, ["request", "response"]]
    assert passes == [["one", " two", " three", " four"]] * 2
    assert provider.times == 1


async def test_a_consumer_that_stops_reading_leaves_the_whole_answer_recorded(
    provider: Provider, restart: Restart
) -> None:
    provider.script = lambda asked: Reply(WORDS)
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> str:
        first = ""
        async with agent.run_stream("go") as answer:
            async for text in answer.stream_text(delta=True, debounce_by=None):
                first = text
                break
        await restart.point()
        second = await agent.run("again")
        return f"{first.split()[0]} / {second.output}"

    assert await restart.result(go()) == f"one / {WORDS}"
    assert provider.times == 2


@pytest.mark.parametrize("by", ["break", "error"])
async def test_a_consumer_that_stops_before_the_end_reads_the_same_again(
    by: str, provider: Provider, restart: Restart
) -> None:
    stopped = threading.Event()
    provider.script = lambda asked: Reply(WORDS, before=lambda n: None if n < 3 else _wait(stopped))
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])
    acted: list[str] = []

    @outlast.step
    async def act(what: str) -> str:
        acted.append(what)
        return what

    @workflow(loop="native")
    async def go() -> str:
        parts = []
        try:
            async with agent.run_stream("go") as answer:
                async for text in answer.stream_text(delta=True, debounce_by=None):
                    parts.append(text)
                    if len(parts) == 2:
                        stopped.set()
                        if by == "break":
                            break
                        raise KeyError(text)
        except KeyError:
            parts.append("error")
        said = await act("|".join(parts))
        await restart.point()
        return said

    assert await restart.result(go()) == acted[0] == "one| two" + ("|error" if by == "error" else "")
    assert len(acted) == 1
    assert provider.times == 1


async def test_a_consumer_that_is_cancelled_does_not_wait_for_the_rest(provider: Provider, open_app: OpenApp) -> None:
    over = threading.Event()
    provider.script = lambda asked: Reply(WORDS, before=lambda n: None if n < 2 else _wait(over))
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> str:
        begun = asyncio.Event()

        async def read() -> None:
            async with agent.run_stream("go") as answer:
                async for _ in answer.stream_text(delta=True, debounce_by=None):
                    begun.set()

        reading = asyncio.create_task(read())
        await begun.wait()
        reading.cancel()
        await asyncio.wait({reading})
        return "cancelled" if reading.cancelled() and not over.is_set() else "read on"

    async with open_app() as app:
        try:
            assert await (await app.start(go())).result(timeout=15) == "cancelled"
        finally:
            over.set()


async def test_an_answer_that_breaks_off_raises_where_it_is_read(provider: Provider, restart: Restart) -> None:
    def breaks(n: int) -> None:
        if n == 2:
            raise ConnectionError

    provider.script = lambda asked: Reply(WORDS, before=breaks)
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> str:
        said = ""
        try:
            async with agent.run_stream("go") as answer:
                async for text in answer.stream_text(delta=True, debounce_by=None):
                    said += text
        except ModelAPIError:
            said += ", broken off"
        await restart.point()
        return said

    assert await restart.result(go()) == "one two, broken off"
    assert provider.times == 1


async def test_tokens_of_all_answers_are_in_the_stream_of_the_run(provider: Provider, open_app: OpenApp) -> None:
    agent = Agent(provider.calls(ToolCall("c1", "act", {})), name="agent", capabilities=[Durable(tokens="tokens")])

    @agent.tool_plain
    def act() -> str:
        outlast.stream("tokens").write("[acting]")
        return "acted and done"

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go())
        assert [item.value async for item in run.stream("tokens")] == ["[acting]", "c1", " acted", " and", " done"]
    assert all(body["stream"] for body in provider.stand_in.asked())


async def test_a_handler_of_the_agent_is_told_of_each_event_once(provider: Provider, restart: Restart) -> None:
    told: list[str] = []

    async def handler(ctx: RunContext[None], events: AsyncIterable[Any]) -> None:
        told.extend([type(event).__name__ async for event in events])

    agent = Agent(
        provider.calls(ToolCall("c1", "act", {}), ToolCall("c2", "act", {})),
        name="agent",
        capabilities=[Durable(event_stream_handler=handler)],
    )

    @agent.tool_plain
    async def act() -> str:
        return "acted"

    @workflow(loop="native")
    async def go() -> str:
        output = (await agent.run("go")).output
        await restart.point()
        return output

    assert await restart.result(go()) == "c1 acted; c2 acted"
    assert told.count("FunctionToolResultEvent") == 2
    assert told.count("PartDeltaEvent") == 3  # of four words


async def test_a_handler_of_one_call_sees_the_answer_come_in(provider: Provider, open_app: OpenApp) -> None:
    provider.script = lambda asked: Reply(WORDS)
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])
    deltas: list[str] = []

    async def handler(ctx: RunContext[None], events: AsyncIterable[Any]) -> None:
        parts = [event.delta async for event in events if isinstance(event, PartDeltaEvent)]
        deltas.extend(part.content_delta for part in parts if isinstance(part, TextPartDelta))

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go", event_stream_handler=handler)).output

    async with open_app() as app:
        assert await (await app.start(go())).result() == WORDS
    assert deltas == [" two", " three", " four"]


@pytest.mark.parametrize("loop", ["native", None])
async def test_an_agent_is_iterated_in_either_kind_of_workflow(
    loop: Any, provider: Provider, open_app: OpenApp
) -> None:
    agent = Agent(provider.calls(ToolCall("c1", "act", {})), name="agent", capabilities=[Durable()])

    @agent.tool_plain
    async def act() -> str:
        return "acted"

    async def go() -> list[Any]:
        texts = []
        async with agent.iter("go") as running:
            async for node in running:
                if Agent.is_model_request_node(node):
                    async with node.stream(running.ctx) as events:
                        texts += [type(event).__name__ async for event in events]
        assert running.result is not None
        return [running.result.output, "PartStartEvent" in texts]

    made = workflow(go) if loop is None else workflow(loop=loop)(go)
    async with open_app() as app:
        assert await (await app.start(made())).result() == ["c1 acted", True]


async def test_a_cancelled_run_ends_the_request_that_streams(provider: Provider, open_app: OpenApp) -> None:
    asked, let_go = threading.Event(), threading.Event()

    def hold(n: int) -> None:
        asked.set()
        let_go.wait(20)

    provider.script = lambda asked: Reply(WORDS, before=hold)
    agent = Agent(provider.model(), name="agent", capabilities=[Durable(tokens="tokens")])
    cleaned: list[str] = []

    @workflow(loop="native")
    async def go() -> str:
        try:
            return (await agent.run("go")).output
        except asyncio.CancelledError:
            cleaned.append("up")
            raise

    async with open_app() as app:
        run = await app.start(go())
        await asyncio.to_thread(asked.wait, 20)
        await run.cancel()
        with pytest.raises(outlast.RunCancelled):
            await run.result()
        let_go.set()
    assert cleaned == ["up"]
