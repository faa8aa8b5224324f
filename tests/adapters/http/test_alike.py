"""Requests that look alike are told apart by all that tells them apart, or refused: nobody gets another's answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

import outlast
from outlast import App, WrongUse, workflow
from outlast.http import DurableTransport
from tests.adapters.http.stage import Gate, Server, across_a_restart

REFUSED = "from which it differs in headers alone"


def said(request: httpx2.Request) -> httpx2.Response:
    """Answer with what tells the requests of these tests apart."""
    return httpx2.Response(200, json=[request.url.query.decode(), request.headers.get("x-account")])


def _values(what: dict[str, dict[str, str]]) -> list[str]:
    return [value for values in what.values() for value in values.values()]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"params": {"code": "one"}}, {"params": {"code": "other"}}),
        ({"params": {"access_token": "one"}}, {"params": {"access_token": "other"}}),
        ({"headers": {"x-account": "one"}}, {"headers": {"x-account": "other"}}),
        ({"headers": {"range": "bytes=0-9"}}, {"headers": {"range": "bytes=10-19"}}),
    ],
)
def test_requests_that_change_their_order_keep_their_answers(one: Any, other: Any, tmp_path: Path) -> None:
    async def main() -> None:
        server, gate = Server(lambda r: httpx2.Response(200, text=f"{r.url.query!r} {r.headers}")), Gate()

        @workflow(loop="native", name="http_order")
        async def flow() -> list[Any]:
            client = server.client(identify=["X-Account"])

            async def ask(what: Any) -> str:
                return (await client.get("/rate", **what)).text

            turns = [other, one] if gate.is_open else [one, other]
            answers = await asyncio.gather(*map(ask, turns))
            await gate.passed()
            return [value in text for what, text in zip(turns, answers, strict=True) for value in _values(what)]

        assert await across_a_restart(tmp_path, flow, gate) == [True, True]
        assert len(server.requests) == 2

    asyncio.run(main())


async def _at_once(client: httpx2.AsyncClient, one: Any, other: Any) -> None:
    await asyncio.gather(client.get("/", headers=one), client.get("/", headers=other))


async def _in_turn(client: httpx2.AsyncClient, one: Any, other: Any) -> None:
    await client.get("/", headers=one)
    await client.get("/", headers=other)


async def _in_turn_in_tasks(client: httpx2.AsyncClient, one: Any, other: Any) -> None:
    await asyncio.create_task(client.get("/", headers=one))
    await asyncio.create_task(client.get("/", headers=other))


async def _in_a_task_of_the_first(client: httpx2.AsyncClient, one: Any, other: Any) -> None:
    await client.get("/", headers=one)
    await asyncio.create_task(client.get("/", headers=other))


async def _in_scopes(client: httpx2.AsyncClient, one: Any, other: Any) -> None:
    async def ask(headers: dict[str, str]) -> None:
        with outlast.scope(str(headers)):
            await client.get("/", headers=headers)

    await asyncio.gather(ask(one), ask(other))


ANN, BOB = {"x-account": "ann"}, {"x-account": "bob"}
HERS, HIS = {"authorization": "Bearer hers"}, {"authorization": "Bearer his"}
SIGNED = [
    {"authorization": f"AWS4-HMAC-SHA256 Credential=AKID/20260101/eu, Signature={n}", "x-amz-date": n} for n in "12"
]


@pytest.mark.parametrize(
    ("send", "one", "other", "refused"),
    [
        (_at_once, ANN, BOB, "x-account"),
        (_at_once, ANN, {}, "x-account"),
        (_at_once, HERS, HIS, "authorization"),
        (_in_turn_in_tasks, ANN, BOB, "x-account"),
        (_at_once, ANN, ANN, None),
        (_at_once, {"traceparent": "1", "x-request-id": "1"}, {"traceparent": "2", "x-request-id": "2"}, None),
        (_at_once, *SIGNED, None),
        (_in_turn, ANN, BOB, None),
        (_in_turn_in_tasks, HERS, HIS, None),
        (_in_a_task_of_the_first, ANN, BOB, None),
        (_in_scopes, ANN, BOB, None),
        (_at_once, {"x-attempt": "1"}, {"x-attempt": "2"}, None),  # which the transport is told to ignore
    ],
)
def test_requests_are_refused_that_could_be_taken_for_each_other(
    send: Any, one: Any, other: Any, refused: str | None, tmp_path: Path
) -> None:
    server = Server(said)

    @workflow(loop="native", name="http_alike")
    async def flow() -> None:
        async with server.client(ignore=["x-attempt"]) as client:
            await send(client, one, other)

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            run = await app.start(flow())
            if refused is None:
                await run.result()
                assert len(server.requests) == 2
                return
            with pytest.raises(WrongUse, match=REFUSED) as raised:
                await run.result()
            assert f"({refused})" in str(raised.value)
            assert not any(value in str(raised.value) for value in (*one.values(), *other.values()))

    asyncio.run(main())


def test_one_that_was_refused_stays_so_when_its_client_tries_again(tmp_path: Path) -> None:
    server = Server(said)

    @workflow(loop="native", name="http_again_refused")
    async def flow() -> list[str]:
        client = server.client()
        first = asyncio.ensure_future(client.get("/", headers=HERS))

        async def ask() -> list[str]:
            raised = []
            for _ in range(2):
                try:
                    await client.get("/", headers=HIS)
                except WrongUse as error:
                    raised.append(str(error))
                await first
            return raised

        return (await asyncio.gather(first, ask()))[1]

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            raised = await (await app.start(flow())).result()
            assert [REFUSED in text for text in raised] == [True, True]
            assert len(server.requests) == 1

    asyncio.run(main())


def test_a_secret_cannot_be_found_by_trying_and_a_fork_knows_it(tmp_path: Path) -> None:
    server = Server(said)

    @outlast.step(name="http_then")
    async def then() -> None: ...

    @workflow(loop="native", name="http_guessing")
    async def flow() -> Any:
        answer = (await server.client().get("/", params={"code": "1234"})).json()
        await then()
        return answer

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            runs = [await app.start(flow(), id=name) for name in ("one", "two")]
            for run in runs:
                assert await run.result() == ["code=1234", None]
            digests = [(await run.steps())[0].args for run in runs]
            assert digests[0] != digests[1]
            fork = await app.fork("one", "http_then")
            assert await fork.result() == ["code=1234", None]
            again = await app.fork(fork.id, "http_then")
            assert await again.result() == ["code=1234", None]
            assert len(server.requests) == 2

    asyncio.run(main())


def test_the_same_request_by_another_client_has_another_key(tmp_path: Path) -> None:
    server = Server(said)

    @workflow(loop="native", name="http_two_clients")
    async def flow() -> None:
        for _ in range(2):
            async with server.client(effect="once") as client:
                await client.post("/charges", json={"cents": 500})

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            await (await app.start(flow())).result()
        assert None not in server.keys
        assert len(set(server.keys)) == 2

    asyncio.run(main())


@pytest.mark.parametrize("given", ["x-account", [1]])
def test_names_that_are_no_list_of_names_are_refused(given: Any) -> None:
    with pytest.raises(WrongUse, match=r"identify=.*must be a list of names"):
        DurableTransport(identify=given)
