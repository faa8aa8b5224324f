"""What is certain of a `once` call that failed: nothing that its server says, only that it was never sent."""

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

from outlast import App, DidNotHappen, Happened, RunStuck, workflow
from outlast.mcp import DurableSession, elicit
from tests.behaviour.stage import eventually

server = MCPServer("bank")
paid: list[Any] = []
lost: list[bool] = []


class Address(BaseModel):
    """What people fill in."""

    mail: str


@server.tool()
def pay(code: int) -> str:
    paid.append(code)
    if code:
        raise MCPError(code, "the receipt has no address")
    return "paid"


@server.tool()
async def pay_and_ask(ctx: Context[Any, Any]) -> str:
    paid.append("asks")
    await ctx.elicit("Paid. Where to mail the receipt?", Address)
    return "paid"


@server.tool()
def pay_badly() -> types.CallToolResult:
    paid.append("badly")
    return types.CallToolResult(content=[types.TextContent(type="text", text="no ink")], is_error=True)


@server.tool()
async def pay_if_sure(ctx: Context[Any, Any]) -> types.CallToolResult | types.InputRequiredResult:
    if not ctx.input_responses:
        form = types.ElicitRequestFormParams(message="Sure?", requested_schema=Address.model_json_schema())
        return types.InputRequiredResult(input_requests={"it": types.ElicitRequest(params=form)}, request_state="state")
    if lost:
        lost.pop()
        raise MCPError(types.INVALID_PARAMS, "the state is unknown")
    paid.append("sure")
    return types.CallToolResult(content=[types.TextContent(type="text", text="paid")])


@pytest.fixture(autouse=True)
def nothing_was_paid() -> None:
    paid.clear()
    lost.clear()


def session(**effect: Any) -> DurableSession:
    names = ("pay", "pay_and_ask", "pay_badly", "pay_if_sure")
    said = {name: {"effect": "once", **effect} for name in names}
    return DurableSession(Client(server, elicitation_callback=elicit), effects=said)


def text(result: types.CallToolResult) -> str:
    return str(result.content[0].text)  # type: ignore[union-attr]


def run(test: Callable[[App], Coroutine[Any, Any, None]], folder: Path) -> None:
    async def main() -> None:
        async with App(str(folder / "runs.db"), park_after=0.05) as app:
            await test(app)

    asyncio.run(main())


@workflow(loop="native", name="mcp_pays")
async def pays(tool: str, arguments: dict[str, Any]) -> str:
    async with session() as s:
        return text(await s.call_tool(tool, arguments, key="k"))


CODES = [
    types.PARSE_ERROR,
    types.INVALID_REQUEST,
    types.METHOD_NOT_FOUND,
    types.INVALID_PARAMS,
    types.INTERNAL_ERROR,
    types.HEADER_MISMATCH,
    types.CONNECTION_CLOSED,
    types.REQUEST_TIMEOUT,
]


@pytest.mark.parametrize(
    ("tool", "arguments"), [*(("pay", {"code": code}) for code in CODES), ("pay_and_ask", {})], ids=str
)
def test_whatever_error_a_server_answers_with_the_call_is_in_doubt_and_not_made_again(
    tool: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    async def test(app: App) -> None:
        made = await app.start(pays(tool, arguments), id="one")
        with pytest.raises(RunStuck, match="in_doubt"):
            await made.result()
        await app.resolve("one", f"main/{tool}[k]", Happened("paid after all"))
        assert await made.result() == "paid after all"
        assert len(paid) == 1

    run(test, tmp_path)


def test_that_a_tool_says_itself_that_it_failed_is_a_result(tmp_path: Path) -> None:
    async def test(app: App) -> None:
        assert await (await app.start(pays("pay_badly", {}))).result() == "no ink"
        assert paid == ["badly"]

    run(test, tmp_path)


def test_a_call_that_was_never_sent_has_failed_for_certain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @workflow(loop="native", name="mcp_unsent")
    async def flow() -> str:
        async with session() as s:
            s._listed.add("")  # as when the list was told from the journal, and its session has not seen it

            async def away(**_: Any) -> None:
                raise MCPError(types.INTERNAL_ERROR, "the list is not to be had")

            with monkeypatch.context() as patch:
                patch.setattr(s.session, "list_tools", away)
                with pytest.raises(MCPError, match="not to be had"):
                    await s.call_tool("pay", {"code": 0})
            return text(await s.call_tool("pay", {"code": 0}))

    async def test(app: App) -> None:
        assert await (await app.start(flow())).result() == "paid"
        assert paid == [0]

    run(test, tmp_path)


@pytest.mark.parametrize("confirmed", [True, False])
def test_where_a_server_has_forgotten_a_call_it_begins_anew_when_it_is_known_twice_that_nothing_happened(
    confirmed: bool, tmp_path: Path
) -> None:
    effect = {"confirm": lambda key: DidNotHappen(), "settle": 0.0} if confirmed else {"settle": 0.0}

    @workflow(loop="native", name=f"mcp_forgotten_{confirmed}")
    async def flow() -> str:
        async with session(**effect) as s:
            return text(await s.call_tool("pay_if_sure", key="k"))

    async def test(app: App) -> None:
        made = await app.start(flow(), id="one")

        async def asked() -> bool:
            return bool(await app.approvals())

        await eventually(asked)
        lost.extend([True, True])
        await app.approve((await app.approvals())[0].id, form={"mail": "a@b.example"})
        for _ in range(0 if confirmed else 2):
            with pytest.raises(RunStuck, match="in_doubt"):
                await made.result()
            assert paid == []
            await app.resolve("one", "main/pay_if_sure[k!2]", DidNotHappen())
        assert await made.result() == "paid"
        assert paid == ["sure"]
        assert len(await app.approvals(status=None)) == 1

    run(test, tmp_path)


@pytest.mark.parametrize(
    ("given", "content", "structured"),
    [
        ("paid", "paid", None),
        ({"cents": 5}, '{"cents": 5}', {"cents": 5}),
        ([5, None], "[5, null]", None),
        ({"content": [{"type": "text", "text": "paid"}]}, "paid", None),
    ],
)
def test_who_resolves_a_doubt_gives_a_text_or_what_the_tool_would_have(
    given: Any, content: str, structured: Any, tmp_path: Path
) -> None:
    @workflow(loop="native", name="mcp_resolved")
    async def flow() -> list[Any]:
        async with session() as s:
            result = await s.call_tool("pay", {"code": types.INTERNAL_ERROR}, key="k")
            return [text(result), result.structured_content]

    async def test(app: App) -> None:
        made = await app.start(flow(), id="one")
        with pytest.raises(RunStuck, match="in_doubt"):
            await made.result()
        await app.resolve("one", "main/pay[k]", Happened(given))
        assert await made.result() == [content, structured]

    run(test, tmp_path)
