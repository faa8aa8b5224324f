"""Calls of an agent's models and tools: what is recorded of them, and what passes by."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, interrupt
from openai import RateLimitError
from pydantic import BaseModel

import outlast
from outlast import RunStuck, WrongUse
from outlast.langgraph import Middleware, durable
from tests.adapters.langgraph.desk import model
from tests.adapters.langgraph.test_nodes import app_at, to_the_end
from tests.adapters.stand_in import Asked, Reply, Script, StandIn, ToolCall, serving

DONE: Counter[str] = Counter()
HELLO = {"messages": [("user", "hello")]}


class Provider:
    """A provider of models that says what a test scripts."""

    def __init__(self) -> None:
        self.script: Script = lambda asked: Reply(f"you said {asked.said(-1)}")
        self.stand_in: StandIn

    def says(self, asked: Asked) -> Reply:
        return self.script(asked)

    def calls(self, *calls: ToolCall) -> Any:
        """Have the model ask for these calls, and say what came of them; return its client."""

        def says(asked: Asked) -> Reply:
            answers = asked.results()
            if not answers:
                return Reply(calls=calls)
            return Reply("; ".join(f"{call} {answers[call]}" for call in sorted(answers)))

        self.script = says
        return model(self.stand_in.url)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    DONE.clear()
    made = Provider()
    with serving(made.says, tmp_path / "asked") as made.stand_in:
        yield made


def last(result: Any) -> str:
    return str(result["messages"][-1].content)


def run_of(folder: Path, graph: Any, *, answers: int = 0) -> Any:
    async def scene() -> Any:
        async with app_at(folder) as app:
            return await to_the_end(app, durable(graph), HELLO, answers=answers)

    return asyncio.run(scene())


@tool
async def asks_then_pays(cents: int) -> str:
    """Ask, then pay."""
    DONE["begun"] += 1
    answer = interrupt("may I?")
    DONE["paid"] += 1
    return f"paid {cents}: {answer}"


@tool
def plain(what: str) -> str:
    """Do it."""
    DONE[what] += 1
    return f"did {what}"


TWO = (ToolCall("a", "asks_then_pays", {"cents": 5}), ToolCall("b", "plain", {"what": "it"}))


def test_a_tool_that_interrupts_is_called_again_with_the_answer_and_its_sibling_is_not(
    tmp_path: Path, provider: Provider
) -> None:
    agent = create_agent(provider.calls(*TWO), [asks_then_pays, plain], middleware=[Middleware()], name="asks")
    assert last(run_of(tmp_path, agent, answers=1)) == "a paid 5: True; b did it"
    assert (DONE["paid"], DONE["it"]) == (1, 1)
    assert DONE["begun"] in (2, 3)  # it begins once more where the run has left memory meanwhile
    assert len(provider.stand_in.asked()) == 2


def test_a_tool_node_of_ones_own_calls_its_tools_in_steps(tmp_path: Path, provider: Provider) -> None:
    """One node has all the calls of an answer, and runs again when one of them interrupts."""

    async def ask(state: MessagesState) -> Any:
        return {"messages": [AIMessage("", tool_calls=[{"name": c.name, "args": c.args, "id": c.id} for c in TWO])]}

    node = ToolNode([asks_then_pays, plain], awrap_tool_call=Middleware().awrap_tool_call)
    graph = StateGraph(MessagesState).add_node("ask", ask).add_node("tools", node)
    graph.add_edge(START, "ask").add_edge("ask", "tools")
    result = run_of(tmp_path, graph.compile(name="node"), answers=1)
    assert [message.content for message in result["messages"][2:]] == ["paid 5: True", "did it"]
    assert (DONE["paid"], DONE["it"]) == (1, 1)


def test_an_agent_that_a_node_invokes_in_its_thread_is_recorded_too(tmp_path: Path, provider: Provider) -> None:
    agent = create_agent(provider.calls(*TWO[1:]), [plain], middleware=[Middleware()], name="inner")

    def node(_: MessagesState) -> Any:
        answer = last(agent.invoke(HELLO))
        return {"messages": [("ai", f"{answer}, {interrupt('go on?')}")]}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile(name="outer")
    assert last(run_of(tmp_path, graph, answers=1)) == "b did it, True"
    assert DONE == {"it": 1}
    assert len(provider.stand_in.asked()) == 2


@pytest.mark.parametrize("by", ["middleware", "policy"])
def test_an_error_of_the_model_is_what_retries_see(tmp_path: Path, provider: Provider, by: str) -> None:
    seen: list[BaseException] = []

    def says(asked: Asked) -> Reply:
        return Reply("slower", status=429) if asked.number < 2 else Reply("at last")

    def retried(error: Exception) -> bool:
        seen.append(error)
        return isinstance(error, RateLimitError)

    provider.script = says
    retry = ModelRetryMiddleware(max_retries=3, initial_delay=0.01, retry_on=retried)
    agent = create_agent(
        model(provider.stand_in.url), [], middleware=[*([retry] if by == "middleware" else []), Middleware()], name="r"
    )
    if by == "policy":
        policy = RetryPolicy(initial_interval=0.01, max_attempts=4, retry_on=retried)
        graph = StateGraph(MessagesState).add_node("agent", agent, retry_policy=policy).add_edge(START, "agent")
        agent = graph.compile(name="outer")
    assert last(run_of(tmp_path, agent)) == "at last"
    assert [(isinstance(error, RateLimitError), str(error)) for error in seen] == [(True, str(seen[0]))] * 2
    assert "slower" in str(seen[0])
    assert len(provider.stand_in.asked()) == 3


def test_an_error_of_a_tool_is_what_retries_see(tmp_path: Path, provider: Provider) -> None:
    @tool
    def flaky() -> str:
        """Fail at first."""
        DONE["flaky"] += 1
        if DONE["flaky"] < 3:
            raise ConnectionError("not yet")
        return "at last"

    retry = ToolRetryMiddleware(max_retries=3, initial_delay=0.01)
    agent = create_agent(
        provider.calls(ToolCall("f", "flaky", {})), [flaky], middleware=[retry, Middleware()], name="r"
    )
    assert last(run_of(tmp_path, agent)) == "f at last"
    assert DONE == {"flaky": 3}


class Weather(BaseModel):
    """An answer with a structure."""

    sunny: bool


def results(provider: Provider, middleware: list[Any]) -> Any:
    """Make an agent whose tools give all that tools can give."""

    @tool(response_format="content_and_artifact")
    def with_artifact() -> tuple[str, Any]:
        """Give an artifact."""
        return "content", {"rows": [1, 2]}

    @tool
    def commands() -> Any:
        """Give a command."""
        message = ToolMessage("commanded", tool_call_id="c")
        return Command(update={"messages": [message]})

    calls = (
        ToolCall("a", "with_artifact", {}),
        ToolCall("c", "commands", {}),
        ToolCall("p", "plain", {"what": "x"}),
        ToolCall("w", "plain", {"wrong": "argument"}),
        ToolCall("n", "no_such_tool", {}),
    )
    client = provider.calls(*calls)
    tools: list[BaseTool] = [with_artifact, commands, plain]
    return create_agent(client, tools, middleware=middleware, system_prompt="be brief", name="same")


def told(result: Any) -> list[Any]:
    """Return messages but for the ids that are drawn."""
    return [message.model_dump(exclude={"id"}) for message in result["messages"]]


def test_an_agent_gives_in_a_run_what_it_gives_elsewhere(tmp_path: Path, provider: Provider) -> None:
    async def scene() -> Any:
        yield await results(provider, []).ainvoke(HELLO)
        yield await results(provider, [Middleware()]).ainvoke(HELLO)
        yield await asyncio.to_thread(results(provider, [Middleware()]).invoke, HELLO)
        async with app_at(tmp_path) as app:
            yield await to_the_end(app, durable(results(provider, [Middleware()])), HELLO)

    async def all_of() -> Any:
        return [result async for result in scene()]

    expected, transparent, in_thread, in_run = asyncio.run(all_of())
    assert told(expected) == told(transparent) == told(in_thread) == told(in_run)
    asked = [body["messages"] for body in provider.stand_in.asked()]
    assert asked[0:2] == asked[2:4] == asked[4:6] == asked[6:8]


def test_a_structured_answer_keeps_its_type(tmp_path: Path, provider: Provider) -> None:
    provider.script = lambda asked: Reply(calls=(ToolCall("s", "Weather", {"sunny": True}),))
    agent = create_agent(
        model(provider.stand_in.url), [], response_format=Weather, middleware=[Middleware()], name="structured"
    )
    assert run_of(tmp_path, agent)["structured_response"] == Weather(sunny=True)


def test_agents_of_a_native_body_keep_their_own_answers(tmp_path: Path, provider: Provider) -> None:
    """There no task tells their calls apart, and which of them comes first may be otherwise after a crash."""
    provider.script = lambda asked: Reply(f"you said {asked.said(-1)}")
    agent = create_agent(model(provider.stand_in.url), [plain], middleware=[Middleware()], name="plain")
    order = ["one", "two"]

    @outlast.workflow(name="agents", loop="native")
    async def body() -> dict[str, str]:
        answers = await asyncio.gather(*(agent.ainvoke({"messages": [("user", name)]}) for name in order))
        said = {name: last(answer) for name, answer in zip(order, answers, strict=True)}
        if order[0] == "one":
            order.reverse()
            raise RuntimeError("the body has a fault")
        return said

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            run = await app.start(body(), id="r")
            with pytest.raises(RuntimeError, match="has a fault"):
                await run.result(30)
            await app.resume("r")
            return await run.result(30)

    assert asyncio.run(scene()) == {"one": "you said one", "two": "you said two"}
    assert len(provider.stand_in.asked()) == 2


def test_what_a_model_uses_is_counted(tmp_path: Path, provider: Provider) -> None:
    agent = durable(create_agent(provider.calls(*TWO[1:]), [plain], middleware=[Middleware()], name="counted"))

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            await to_the_end(app, agent, HELLO)
            return (await (await app.get("r")).usage()).models

    (used,) = asyncio.run(scene()).values()
    assert (used.input, used.output, used.calls) == (20, 10, 2)


@pytest.mark.parametrize("handles", [True, False])
def test_an_error_of_a_tool_that_acts_once_leaves_its_call_in_doubt(
    tmp_path: Path, provider: Provider, handles: bool
) -> None:
    @tool
    @outlast.effect("once")
    def pay(cents: int) -> str:
        """Pay."""
        raise ConnectionError("the line went dead")

    async def ask(state: MessagesState) -> Any:
        calls = [{"name": "pay", "args": {"cents": 5}, "id": "p"}]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    node = ToolNode([pay], handle_tool_errors=handles, awrap_tool_call=Middleware().awrap_tool_call)
    graph = StateGraph(MessagesState).add_node("ask", ask).add_node("tools", node)
    graph.add_edge(START, "ask").add_edge("ask", "tools")
    agent = durable(graph.compile(name="pays"))

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            run = await app.start(agent(HELLO), id="r")
            with pytest.raises(RunStuck):
                await run.result(30)
            (step,) = await run.steps()
            await app.resolve("r", step.id, outlast.Happened("paid 5"))
            return (await run.result(30))["messages"][-1]

    answer = asyncio.run(scene())
    assert (answer.content, answer.tool_call_id, answer.name) == ("paid 5", "p", "pay")


def test_arguments_that_a_tool_does_not_take_are_no_doubt(tmp_path: Path, provider: Provider) -> None:
    agent = create_agent(
        provider.calls(ToolCall("w", "plain", {"wrong": 1})),
        [plain],
        middleware=[Middleware(effects={"plain": "once"})],
        name="wrong",
    )
    assert "what" in last(run_of(tmp_path, agent))
    assert DONE == {}


def test_what_is_no_effect_is_refused() -> None:
    with pytest.raises(WrongUse):
        Middleware(effects={"pay": "twice"})
    with pytest.raises(WrongUse, match="the effect of the tool pay"):
        Middleware(effects={"pay": True})


def test_messages_pass_live_and_a_reader_has_each_token_once(tmp_path: Path, provider: Provider) -> None:
    """A node streams a graph by itself: what the model says reaches it while the step is under way."""
    provider.script = lambda asked: Reply("one two three")
    agent = create_agent(model(provider.stand_in.url), [], middleware=[Middleware(tokens="tokens")], name="speaks")
    live: list[list[str]] = []

    async def node(_: MessagesState) -> Any:
        live.append([])
        async for chunk, _about in agent.astream(HELLO, stream_mode="messages"):
            live[-1].append(str(chunk.content))
        return {"messages": [("ai", f"{live[-1]} {interrupt('go on?')}")]}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
    agent_of_run = durable(graph.compile(name="streams"))

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            await to_the_end(app, agent_of_run, HELLO, answers=1)
            return [item.value async for item in (await app.get("r")).stream("tokens")]

    assert asyncio.run(scene()) == ["one", " two", " three"]
    assert [part for part in live[0] if part] == ["one", " two", " three"]
    assert len(provider.stand_in.asked()) == 1
