"""What a durable session records, and that it behaves as the client does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import outlast
from outlast import AlreadyAnswered, App, WrongUse, workflow
from outlast.mcp import DurableSession, elicit
from tests.behaviour.stage import eventually, reaches


class Answer(BaseModel):
    """What people fill in."""

    sure: bool
    limit: int = 0


calls: list[Any] = []
forgetful: list[bool] = []
server = MCPServer("things")


def needs(request: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests={"it": request}, request_state="state")


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
def read(what: str) -> str:
    calls.append(what)
    return f"{what}: {len(calls)}"


@server.tool()
def write(what: str) -> str:
    calls.append(what)
    return what


@server.tool(annotations=types.ToolAnnotations(idempotent_hint=False))
def pay(amount: int) -> str:
    calls.append(amount)
    if amount == 13:
        raise MCPError(types.INTERNAL_ERROR, "no luck")
    if amount == 12:
        raise MCPError(types.INVALID_PARAMS, "a dozen is too much")
    return f"paid {amount}"


@server.tool()
async def confirmed(ctx: Context[Any, Any]) -> types.CallToolResult | types.InputRequiredResult:
    if not ctx.input_responses:
        form = types.ElicitRequestFormParams(message="Sure?", requested_schema=Answer.model_json_schema())
        return needs(types.ElicitRequest(params=form))
    if forgetful:
        forgetful.clear()
        raise MCPError(types.INVALID_PARAMS, "the state is unknown")
    answer: Any = ctx.input_responses["it"]
    return types.CallToolResult(content=[types.TextContent(type="text", text=f"{answer.action} {answer.content}")])


@server.tool()
async def visited(ctx: Context[Any, Any]) -> types.CallToolResult | types.InputRequiredResult:
    if not ctx.input_responses:
        return needs(
            types.ElicitRequest(params=types.ElicitRequestURLParams(message="Log in", url="https://a.example"))
        )
    answer: Any = ctx.input_responses["it"]
    return types.CallToolResult(content=[types.TextContent(type="text", text=answer.action)])


@server.tool()
async def sampled(ctx: Context[Any, Any]) -> types.CallToolResult | types.InputRequiredResult:
    if not ctx.input_responses:
        said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="?"))
        params = types.CreateMessageRequestParams(messages=[said], max_tokens=5)
        return needs(types.CreateMessageRequest(params=params))
    answer: Any = ctx.input_responses["it"]
    return types.CallToolResult(content=[types.TextContent(type="text", text=answer.content.text)])


@server.resource("thing://one")
def one() -> str:
    return "a thing"


@server.prompt()
def ask(topic: str) -> str:
    return f"Tell me about {topic}"


async def sample(context: Any, params: Any) -> types.CreateMessageResult:
    calls.append("sampled")
    return types.CreateMessageResult(
        role="assistant", model="m", content=types.TextContent(type="text", text="sampled")
    )


def session(**settings: Any) -> DurableSession:
    return DurableSession(Client(server, elicitation_callback=elicit, sampling_callback=sample), **settings)


@pytest.fixture(autouse=True)
def nothing_was_called() -> None:
    calls.clear()
    forgetful.clear()


def text(result: Any) -> str:
    return str(result.content[0].text)


def run(test: Callable[[App], Coroutine[Any, Any, None]], folder: Path) -> None:
    """Run a test with an App."""

    async def main() -> None:
        async with App(str(folder / "runs.db"), park_after=0.05) as app:
            await test(app)

    asyncio.run(main())


@workflow(loop="native", name="mcp_all")
async def everything() -> list[str]:
    async with session() as s:
        tools = await s.list_tools()
        said = [text(await s.call_tool(name, {"what": "x"})) for name in ("read", "write")]
        said.append(text(await s.call_tool("pay", {"amount": 3})))
        resources = await s.list_resources()
        said.append((await s.read_resource(str(resources.resources[0].uri))).contents[0].text)  # type: ignore[union-attr]
        prompts = await s.list_prompts()
        said.append((await s.get_prompt(prompts.prompts[0].name, {"topic": "it"})).messages[0].content.text)  # type: ignore[union-attr]
        return [*said, str(len(tools.tools))]


SAID = ["x: 1", "x", "paid 3", "a thing", "Tell me about it", "6"]


def test_all_that_is_asked_is_recorded_with_its_effect(tmp_path: Path) -> None:
    async def test(app: App) -> None:
        made = await app.start(everything(), id="one")
        assert await made.result() == SAID
        effects = {step.name: step.effect for step in await made.steps()}
        assert {name: effects[name] for name in ("read", "write", "pay")} == {
            "read": "pure",
            "write": "idempotent",
            "pay": "once",
        }
        assert {effect for name, effect in effects.items() if name.startswith("mcp_")} == {"pure"}
        last = (await made.steps())[-1].id
        forks = [await app.fork("one", last, new_id=name) for name in ("f1", "f2")]
        assert [await fork.result() for fork in forks] == [SAID, SAID]
        assert calls == ["x", "x", 3]

    run(test, tmp_path)


def test_outside_of_a_run_it_is_the_client() -> None:
    async def main() -> None:
        async with session(effects={"pay": "once"}) as s:
            assert len((await s.list_tools()).tools) == 6
            assert text(await s.call_tool("pay", {"amount": 1}, key="k", meta={"a": 1})) == "paid 1"
            assert text(await s.call_tool("confirmed")) == "cancel None"
            assert (await s.read_resource("thing://one")).contents
            with pytest.raises(MCPError, match="a dozen"):
                await s.call_tool("pay", {"amount": 12})

    asyncio.run(main())


def test_errors_of_the_protocol_are_raised_as_ever_and_a_resume_asks_again(tmp_path: Path) -> None:
    @workflow(loop="native", name="mcp_failing")
    async def flow() -> list[Any]:
        async with session(effects={"pay": "idempotent"}) as s:
            seen: list[Any] = []
            bad = await s.call_tool("write", {"what": 5})
            seen.append(bad.is_error)
            try:
                await s.call_tool("pay", {"amount": 12})
            except MCPError as error:
                seen.append((error.code, error.message))
            await s.call_tool("pay", {"amount": 13})
            return seen

    async def test(app: App) -> None:
        made = await app.start(flow(), id="one")
        for _ in range(2):
            with pytest.raises(ExceptionGroup) as raised:  # as the client's own task group has it
                await made.result()
            assert raised.group_contains(MCPError, match="no luck")
            assert (await made.info()).culprit.startswith("main/pay~")
            await app.resume("one")
        with pytest.raises(ExceptionGroup):
            await made.result()
        assert calls == [12, 13, 13, 13]

    run(test, tmp_path)


# -- what a server asks -------------------------------------------------------------------------


async def asked(app: App) -> outlast.ApprovalInfo:
    """Wait for a question."""
    found: list[outlast.ApprovalInfo] = []

    async def there() -> bool:
        found[:] = await app.approvals()
        return bool(found)

    await eventually(there)
    return found[0]


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("state_is_lost", [True, False])
def test_a_question_is_an_approval_and_waits_outside_of_memory(
    approved: bool, state_is_lost: bool, tmp_path: Path
) -> None:
    @workflow(loop="native", name="mcp_asked")
    async def flow() -> str:
        async with session() as s:
            return text(await s.call_tool("confirmed"))

    async def test(app: App) -> None:
        made = await app.start(flow())
        waiting = await asked(app)
        assert waiting.question == "Sure?"
        assert waiting.data["requestedSchema"]["required"] == ["sure"]
        await reaches(made, "waiting")
        if state_is_lost:
            forgetful.append(True)
        answering = [
            app.approve(waiting.id, form={"sure": True}) if approved else app.reject(waiting.id) for _ in range(5)
        ]
        outcomes = await asyncio.gather(*answering, return_exceptions=True)
        assert sum(isinstance(outcome, AlreadyAnswered) for outcome in outcomes) == 4
        assert await made.result() == ("accept {'sure': True}" if approved else "decline None")
        assert len(await app.approvals(status=None)) == 1

    run(test, tmp_path)


def test_a_form_is_filled_in_as_the_server_asks_and_not_left_out(tmp_path: Path) -> None:
    @workflow(loop="native", name="mcp_form")
    async def flow() -> str:
        async with session() as s:
            return text(await s.call_tool("confirmed"))

    async def test(app: App) -> None:
        made = await app.start(flow())
        waiting = await asked(app)
        assert waiting.form["properties"]["limit"]["default"] == 0  # the server's own
        with pytest.raises(
            WrongUse, match=r"without its form, whose fields are: sure \(boolean\), limit \(integer, may"
        ):
            await app.approve(waiting.id)
        with pytest.raises(WrongUse, match='sure must be boolean, not "maybe"'):
            await app.approve(waiting.id, form={"sure": "maybe"})
        with pytest.raises(WrongUse, match=r"has no field 'limits'\. Its fields: sure"):
            await app.approve(waiting.id, form={"sure": True, "limits": 3})
        await app.approve(waiting.id, form={"sure": True, "limit": 3})
        assert await made.result() == "accept {'sure': True, 'limit': 3}"
        (answer,) = [step for step in await made.steps() if step.kind == "approval"]
        assert answer.value[4] == {"sure": True, "limit": 3}

    run(test, tmp_path)


def test_a_page_to_be_visited_is_an_approval_without_a_form(tmp_path: Path) -> None:
    @workflow(loop="native", name="mcp_url")
    async def flow() -> str:
        async with session() as s:
            return text(await s.call_tool("visited"))

    async def test(app: App) -> None:
        made = await app.start(flow())
        waiting = await asked(app)
        assert (waiting.data, waiting.form) == ({"url": "https://a.example"}, None)
        await app.approve(waiting.id)
        assert await made.result() == "accept"

    run(test, tmp_path)


def test_what_is_not_for_people_the_clients_own_callbacks_answer_once(tmp_path: Path) -> None:
    @workflow(loop="native", name="mcp_sampled")
    async def flow() -> str:
        async with session() as s:
            said = text(await s.call_tool("sampled"))
        await outlast.receive("go")
        return said

    async def test(app: App) -> None:
        made = await app.start(flow())
        await reaches(made, "waiting")
        await made.send("go")
        assert await made.result() == "sampled"
        assert calls == ["sampled"]

    run(test, tmp_path)


# -- what is refused -------------------------------------------------------------------------------


def test_a_deterministic_body_has_no_connections(tmp_path: Path) -> None:
    waiting = session()

    @workflow(name="mcp_deterministic")
    async def flow() -> None:
        await waiting.call_tool("read", {"what": "x"})

    async def test(app: App) -> None:
        with pytest.raises(WrongUse, match='loop="native"'):
            await (await app.start(flow())).result()

    run(test, tmp_path)


@pytest.mark.parametrize("effects", [{"pay": "twice"}, {"pay": {"effect": "pure", "confirm": len}}])
def test_effects_that_make_no_sense_are_refused(effects: Any) -> None:
    with pytest.raises(WrongUse):
        session(effects=effects)
