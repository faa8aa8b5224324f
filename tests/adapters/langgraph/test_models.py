"""Models that nodes call by themselves: asked once, whatever becomes of the node; elsewhere they are what they were."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel

from outlast import App, BudgetExceeded, Price, WrongUse, workflow
from outlast.langgraph import durable, durable_model
from tests.adapters.langgraph.graphs import Log
from tests.adapters.langgraph.test_tokens import model
from tests.adapters.stand_in import Asked, Reply, StandIn, ToolCall, serving


def says(asked: Asked) -> Reply:
    """Say what was said last; where there is a tool, have it called."""
    if asked.body.get("tools"):
        name = asked.body["tools"][0]["function"]["name"]
        return Reply(calls=(ToolCall("c1", name, {"city": asked.said(-1)}),))
    if asked.said(-1) == "fail once" and asked.number == 0:
        return Reply("no", status=400)
    return Reply(f"you said {asked.said(-1)}")


def asked(stand_in: StandIn) -> list[str]:
    return sorted(body["messages"][-1]["content"] for body in stand_in.asked())


class Weather(BaseModel):
    """What the weather is asked of."""

    city: str


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


async def once(made: BaseChatModel) -> Any:
    return [(await made.ainvoke("hello")).content, (await made.ainvoke("again")).content]


async def the_same_twice(made: BaseChatModel) -> Any:
    return [(await made.ainvoke("hello")).content, (await made.ainvoke("hello")).content]


async def at_once(made: BaseChatModel) -> Any:
    return [answer.content for answer in await asyncio.gather(*(made.ainvoke(f"n{n}") for n in range(5)))]


async def as_a_batch(made: BaseChatModel) -> Any:
    return [answer.content for answer in await made.abatch([f"n{n}" for n in range(5)])]


async def with_tools(made: BaseChatModel) -> Any:
    answer = await made.bind_tools([weather]).ainvoke([HumanMessage("Rome")])
    return [answer.tool_calls[0]["name"], answer.tool_calls[0]["args"]["city"]]


async def structured(made: BaseChatModel) -> Any:
    return (await made.with_structured_output(Weather, method="function_calling").ainvoke("Rome")).model_dump()  # type: ignore[union-attr]


async def retried(made: BaseChatModel) -> Any:
    return (await made.with_retry(wait_exponential_jitter=False).ainvoke("fail once")).content


async def in_pieces(made: BaseChatModel) -> Any:
    whole: Any = None
    async for chunk in made.bind_tools([weather]).astream("Rome"):
        assert isinstance(chunk, AIMessageChunk)
        whole = chunk if whole is None else whole + chunk
    return whole.tool_calls[0]["args"]["city"]


ASYNC = (once, the_same_twice, at_once, as_a_batch, with_tools, structured, retried, in_pieces)


async def run_again(url: str, node: Callable[..., Any]) -> Any:
    """Have a node run twice, the second time in another App: it asks people at its end."""
    graph = StateGraph(Log).add_node("node", node).add_edge(START, "node").compile(name="graph")
    made = durable(graph)
    async with App(url, park_after=0.01) as app:
        run = await app.start(made({"log": []}), id="t")
        waiting = asyncio.ensure_future(run.result())
        while not (questions := await run.approvals()):
            assert not waiting.done(), waiting.exception()
            await asyncio.sleep(0.01)
        waiting.cancel()
    async with App(url) as app:
        await app.approve(questions[0].id)
        return (await (await app.get("t")).result())["log"]


@pytest.mark.parametrize("use", ASYNC, ids=lambda use: use.__name__)
async def test_a_node_that_runs_again_is_told_what_its_model_said(
    url: str, tmp_path: Path, use: Callable[..., Any]
) -> None:
    with serving(says, tmp_path / "plain") as plainly:
        expected = await use(model(plainly))
    with serving(says, tmp_path / "asked") as stand_in:
        made = durable_model(model(stand_in))

        async def node(_: Log) -> Any:
            said = await use(made)
            interrupt("go on?")
            return {"log": [said]}

        assert await run_again(url, node) == [expected]
        assert asked(stand_in) == asked(plainly)


async def test_so_is_one_that_runs_in_a_thread(url: str, tmp_path: Path) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        made = durable_model(model(stand_in))

        def node(_: Log) -> Any:
            said = [made.invoke("hello").content, *(one.content for one in made.batch(["a", "b", "c"]))]
            said.append("".join(str(chunk.content) for chunk in made.stream("in pieces")))
            interrupt("go on?")
            return {"log": said}

        log = await run_again(url, node)
        assert log == [f"you said {what}" for what in ("hello", "a", "b", "c", "in pieces")]
        assert asked(stand_in) == sorted(["hello", "a", "b", "c", "in pieces"])


async def test_what_it_says_goes_to_a_stream_of_the_run_and_counts(tmp_path: Path) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        made = durable_model(model(stand_in), tokens="tokens")

        async def node(_: Log) -> Any:
            return {"log": [(await made.ainvoke("hello")).content, (await made.ainvoke("again")).content]}

        graph = durable(StateGraph(Log).add_node("node", node).add_edge(START, "node").compile(name="graph"))
        async with App(f"sqlite:///{tmp_path}/agent.db", prices={"stand-in": Price(input=1, output=1)}) as app:
            run = await app.start(graph({"log": []}), id="t")
            assert [item.value async for item in run.stream("tokens")] == [
                "you",
                " said",
                " hello",
                "you",
                " said",
                " again",
            ]
            usage = await run.usage()
            assert (usage.spent.input, usage.spent.output) == (20, 10)
            poor = await app.start(graph.options(max_tokens=10)({"log": []}), id="poor")
            with pytest.raises(BudgetExceeded):
                await poor.result()


async def test_in_a_native_body_without_a_graph_it_is_recorded_too(tmp_path: Path) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        made, failing = durable_model(model(stand_in)), [True]

        @workflow(name="plain", loop="native")
        async def plain() -> list[Any]:
            said = await the_same_twice(made)
            if failing:
                raise RuntimeError("the body has a fault")
            return [*said, (await made.ainvoke("last")).content]

        async with App(f"sqlite:///{tmp_path}/agent.db") as app:
            run = await app.start(plain(), id="t")
            with pytest.raises(RuntimeError, match="has a fault"):
                await run.result()
            failing.clear()
            await app.resume("t")
            assert await run.result() == ["you said hello", "you said hello", "you said last"]
        assert asked(stand_in) == ["hello", "hello", "last"]


async def test_models_that_are_asked_the_same_keep_their_own_answers(url: str, tmp_path: Path) -> None:
    """Which of them is asked first may be otherwise when the node runs again."""
    with serving(lambda asked: Reply(f"I am {asked.body['model']}"), tmp_path / "asked") as stand_in:
        names = ["a", "b"]
        jury = {name: durable_model(model(stand_in).model_copy(update={"model_name": name})) for name in names}

        async def node(_: Log) -> Any:
            answers = await asyncio.gather(*(jury[name].ainvoke("guilty?") for name in names))
            said = {name: answer.content for name, answer in zip(names, answers, strict=True)}
            names.sort(reverse=True)
            interrupt("go on?")
            return {"log": [said]}

        assert await run_again(url, node) == [{"a": "I am a", "b": "I am b"}]
        assert len(stand_in.asked()) == 2


class Thing:
    """What a maker's own model takes, and prints as another text each time."""


async def test_what_is_bound_may_be_an_object(url: str, tmp_path: Path) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        asked_with: list[Any] = []

        class Model(ChatOpenAI):
            async def ainvoke(self, *args: Any, thing: Any = None, **kwargs: Any) -> Any:
                asked_with.append(thing)
                return await super().ainvoke(*args, **kwargs)

        made = Model(base_url=stand_in.url, api_key="none", model="stand-in")  # type: ignore[arg-type]

        async def node(_: Log) -> Any:
            said = (await durable_model(made).bind(thing=Thing()).ainvoke("hello")).content
            interrupt("go on?")
            return {"log": [said]}

        assert await run_again(url, node) == ["you said hello"]
        assert [type(thing) for thing in asked_with] == [Thing]


async def test_fields_may_be_set_by_the_config(url: str, tmp_path: Path) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        made = durable_model(model(stand_in), settings={"timeout": 20}).configurable_fields(
            temperature=ConfigurableField(id="heat")
        )

        async def node(_: Log) -> Any:
            warm, cold = (made.with_config(configurable={"heat": heat}) for heat in (1.0, 0.5))
            said = [(await warm.ainvoke("hello")).content, (await cold.ainvoke("hello")).content]
            interrupt("go on?")
            return {"log": said}

        assert await run_again(url, node) == ["you said hello"] * 2
        assert sorted(body["temperature"] for body in stand_in.asked()) == [0.5, 1.0]


async def test_a_call_that_blocks_is_refused_in_an_async_body(tmp_path: Path) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        made = durable_model(model(stand_in))

        @workflow(name="blocks", loop="native")
        async def blocks() -> Any:
            return made.invoke("hello").content

        async with App(f"sqlite:///{tmp_path}/agent.db") as app:
            run = await app.start(blocks(), id="t")
            with pytest.raises(WrongUse, match=r"workflow blocks \(run t\), .* write: await \.\.\.\.ainvoke\("):
                await run.result()
        assert stand_in.asked() == []


async def test_elsewhere_it_is_the_model_that_it_was(tmp_path: Path) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        plain = model(stand_in)
        made = durable_model(plain)
        assert isinstance(made, ChatOpenAI)
        assert type(made).__name__ == "ChatOpenAI"
        assert made.model_dump() == plain.model_dump()
        assert type(plain) is ChatOpenAI
        assert (await made.ainvoke("hello")).content == "you said hello"
        assert len([chunk async for chunk in made.astream("hello")]) > 2
        assert durable_model(made, tokens="t").invoke("hello").content == "you said hello"


@pytest.mark.parametrize("what", ["gpt-5", None, weather])
def test_what_is_no_model_is_refused(what: Any) -> None:
    with pytest.raises(WrongUse, match=f"a {type(what).__name__} is no chat model of LangChain"):
        durable_model(what)
