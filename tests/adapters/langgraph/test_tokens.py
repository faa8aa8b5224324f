"""What models say goes to a stream of the run and is counted, in whatever form they are called."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph

from outlast import App, BudgetExceeded
from outlast.langgraph import Middleware, durable, durable_model
from tests.adapters.langgraph.graphs import Log
from tests.adapters.stand_in import Asked, Reply, StandIn, serving

WORDS = ["one", " two", " three"]


def says(_: Asked) -> Reply:
    return Reply("one two three")


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


class Hears(AsyncCallbackHandler):
    """A handler of the user's own: it is to hear what it heard before."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        if token:
            self.tokens.append(token)


FORMS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda made: made,
    "tools": lambda made: made.bind_tools([weather]),
    "bound": lambda made: made.bind(stop=["x"]),
    "config": lambda made: made.with_config(tags=["a"]),
    "callbacks": lambda made: made.with_config(callbacks=[Hears()]),
    "retry": lambda made: made.with_retry(),
    "fallbacks": lambda made: made.with_fallbacks([made]),
    "chain": lambda made: ChatPromptTemplate.from_messages([("human", "{input}")]) | made,
}


_others = itertools.count()


def model(stand_in: StandIn, **more: Any) -> ChatOpenAI:
    # Its clients are kept by address and limit, for one loop: the next test may have the same port, and another loop.
    limit = 60 + next(_others)
    return ChatOpenAI(base_url=stand_in.url, api_key="none", model="stand-in", max_retries=0, timeout=limit, **more)


async def tokens_of(folder: Path, node: Callable[..., Any]) -> tuple[list[Any], int]:
    """Run a node; return what is in the stream of tokens, and how many tokens were used."""
    graph = durable(StateGraph(Log).add_node("node", node).add_edge(START, "node").compile(name="graph"))
    async with App(f"sqlite:///{folder}/agent.db") as app:
        run = await app.start(graph({"log": []}), id="t")
        assert (await run.result())["log"] == ["one two three"]
        assert [step.name for step in await run.steps()].count("model") == 1
        return [item.value async for item in run.stream("tokens")], (await run.usage()).spent.total


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", ["ainvoke", "astream", "invoke", "abatch"])
async def test_in_each_form_and_way_it_is_called(tmp_path: Path, form: str, how: str) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        made = FORMS[form](durable_model(model(stand_in), tokens="tokens"))
        given: Any = {"input": "hello"} if form == "chain" else "hello"

        def in_thread(_: Log) -> Any:
            return {"log": [made.invoke(given).content]}

        async def on_loop(_: Log) -> Any:
            match how:
                case "ainvoke":
                    text = (await made.ainvoke(given)).content
                case "abatch":
                    text = (await made.abatch([given]))[0].content
                case _:
                    text = "".join([chunk.content async for chunk in made.astream(given)])
            return {"log": [text]}

        assert await tokens_of(tmp_path, in_thread if how == "invoke" else on_loop) == (WORDS, 15)


async def test_with_the_config_of_its_node_and_with_callbacks_of_its_own(tmp_path: Path) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        made, hears = durable_model(model(stand_in), tokens="tokens"), Hears()

        async def node(_: Log, config: RunnableConfig) -> Any:
            return {"log": [(await made.ainvoke("hello", config)).content]}

        assert await tokens_of(tmp_path, node) == (WORDS, 15)

        async def heard(_: Log) -> Any:
            return {"log": [(await made.ainvoke("hello", {"callbacks": [hears], "tags": ["mine"]})).content]}

        (tmp_path / "other").mkdir()
        assert await tokens_of(tmp_path / "other", heard) == (WORDS, 15)
        assert hears.tokens == WORDS


class Binds(AgentMiddleware[Any, Any, Any]):
    """Middleware of the user that binds a config with callbacks to the model."""

    def __init__(self, hears: Hears) -> None:
        super().__init__()
        self.hears = hears

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(model=request.model.with_config(callbacks=[self.hears])))


async def test_an_agents_model_that_has_a_config_bound_to_it_writes_its_tokens(tmp_path: Path) -> None:
    hears = Hears()
    with serving(says, tmp_path / "asked") as stand_in:
        middleware: list[Any] = [Binds(hears), Middleware(tokens="tokens")]
        agent = durable(create_agent(model(stand_in), [], middleware=middleware, name="speaks"))
        async with App(f"sqlite:///{tmp_path}/agent.db") as app:
            run = await app.start(agent({"messages": [("human", "hello")]}), id="t")
            await run.result()
            assert [item.value async for item in run.stream("tokens")] == WORDS
            assert (await run.usage()).spent.total == 15
    assert hears.tokens == WORDS


# -- what a stream used ---------------------------------------------------------------------------


async def test_where_the_user_wants_no_usage_none_is_asked_for_and_a_budget_refuses(tmp_path: Path) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        made = durable_model(model(stand_in, stream_usage=False), tokens="tokens")

        async def node(_: Log) -> Any:
            return {"log": [(await made.ainvoke("hello")).content, (await made.ainvoke("again")).content]}

        graph = durable(StateGraph(Log).add_node("node", node).add_edge(START, "node").compile(name="graph"))
        async with App(f"sqlite:///{tmp_path}/agent.db") as app:
            free = await app.start(graph({"log": []}), id="free")
            await free.result()
            assert (await free.usage()).unknown == {"model": 2}
            poor = await app.start(graph.options(max_tokens=1_000)({"log": []}), id="poor")
            with pytest.raises(BudgetExceeded, match=r"of the steps 'model' \(1\) have told nothing"):
                await poor.result()
        assert [body.get("stream_options") for body in stand_in.asked()] == [None] * 3


async def test_outside_of_a_run_nothing_is_asked_for_that_the_user_did_not(tmp_path: Path) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        made = durable_model(model(stand_in), tokens="tokens")
        assert len([chunk async for chunk in made.astream("hello")]) > 2
        [body] = stand_in.asked()
        assert body["stream"] is True
        assert "stream_options" not in body
