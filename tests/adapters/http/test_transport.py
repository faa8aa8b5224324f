"""Requests of a run's body are steps: recorded, told again as they were told, and sent once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

import outlast
from outlast import App, WrongUse, step, workflow
from outlast.core import native_engine
from outlast.http import DurableTransport
from tests.adapters.http.stage import PARAMETERS, Breaks, Gate, Server, across_a_restart


def test_a_recorded_answer_is_given_again_as_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        server, gate = Server(), Gate()
        seen: list[Any] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            if request.url.path == "/picture":
                return httpx2.Response(200, content=b"\x00\xff\x00", headers={"content-type": "image/png"})
            return httpx2.Response(201, json={"n": len(server.requests)}, headers={"x-request-id": "r1"})

        server.handler = answer

        @workflow(loop="native", name="http_again")
        async def flow() -> Any:
            async with server.client() as client:
                one, two = await client.post("/things", json={"a": 1}), await client.post("/things", json={"a": 1})
                picture = await client.get("/picture")
            seen.append((one.status_code, one.json(), dict(one.headers), two.json(), picture.content))
            await gate.passed()
            return one.json(), two.json()

        assert await across_a_restart(tmp_path, flow, gate) == ({"n": 1}, {"n": 2})
        assert len(server.requests) == 3
        assert seen[0] == seen[1]
        assert seen[0][:2] == (201, {"n": 1})

    asyncio.run(main())


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_both_packages_have_it_in_all_kinds_of_workflows(module: Any, tmp_path: Path) -> None:
    requests: list[Any] = []

    def answer(request: Any) -> Any:
        requests.append(request)
        return module.Response(200, json={"said": json.loads(request.content)["ask"]})

    def ask(client: Any, what: str) -> Any:
        return client.post("https://api.example.com/ask", json={"ask": what})

    @workflow(loop="native", name=f"http_native_{module.__name__}")
    async def native() -> list[str]:
        async with module.AsyncClient(transport=DurableTransport(module.MockTransport(answer))) as client:
            answers = await asyncio.gather(ask(client, "a"), ask(client, "b"))
            answers.append(await asyncio.to_thread(in_thread))
            return [answer.json()["said"] for answer in answers]

    def in_thread() -> Any:
        with module.Client(transport=DurableTransport(module.MockTransport(answer))) as client:
            return ask(client, "c")

    @workflow(name=f"http_deterministic_{module.__name__}")
    async def deterministic() -> list[str]:
        client = module.AsyncClient(transport=DurableTransport(module.MockTransport(answer)))
        return [(await ask(client, what)).json()["said"] for what in ("a", "b")]

    @workflow(name=f"http_sync_{module.__name__}")
    def sync() -> list[str]:
        client = module.Client(transport=DurableTransport(module.MockTransport(answer)))
        return [ask(client, what).json()["said"] for what in ("a", "b")]

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            for flow, said in ((native, ["a", "b", "c"]), (deterministic, ["a", "b"]), (sync, ["a", "b"])):
                run = await app.start(flow(), id=flow.name)
                assert await run.result() == said
                assert [s.name for s in await run.steps()] == ["http_api_example_com"] * len(said)
        assert len(requests) == 7

    asyncio.run(main())


def test_elsewhere_it_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    server = Server()

    @step(name="http_in_step")
    async def in_step() -> str:
        async with server.client(effect="once") as client:
            return str((await client.post("/in-step")).json()["path"])

    async def main() -> None:
        async with server.client(effect="idempotent") as client:
            assert (await client.post("/outside")).json() == {"path": "/outside"}
        with httpx2.Client(transport=server.transport()) as client:
            assert client.get("https://api.example.com/sync").status_code == 200
        async with App(str(tmp_path / "runs.db")) as app:
            run = await app.start(in_step())
            assert await run.result() == "/in-step"
            assert len(await run.steps()) == 1
        assert server.keys == [None, None, None]
        assert all("gzip" in request.headers["accept-encoding"] for request in server.requests)

    asyncio.run(main())


def test_an_answer_passes_live_and_is_recorded_before_its_end_is_given(tmp_path: Path) -> None:
    async def main() -> None:
        first, go = asyncio.Event(), asyncio.Event()

        class Slow(httpx2.AsyncByteStream):
            async def __aiter__(self) -> Any:
                yield b"one"
                await go.wait()
                yield b"two"

        server = Server(lambda _: httpx2.Response(200, stream=Slow()))

        @workflow(loop="native", name="http_live")
        async def flow() -> str:
            text = ""
            async with server.client() as client, client.stream("GET", "/slow") as response:
                async for piece in response.aiter_text():
                    text += piece
                    first.set()
            return text

        async with App(str(tmp_path / "runs.db")) as app:
            run = await app.start(flow(), id="live")
            await asyncio.wait_for(first.wait(), 10)
            assert await run.steps() == []
            go.set()
            assert await run.result() == "onetwo"
            [made] = await run.steps()
            assert made.value["sizes"] == [3, 3]

    asyncio.run(main())


@pytest.mark.parametrize("native", [True, False])
def test_an_answer_that_breaks_off_does_so_again(native: bool, tmp_path: Path) -> None:
    async def main() -> None:
        broken = Breaks(b"one", b"two", error=httpx2.ReadError("cut"))
        server, gate = Server(lambda _: httpx2.Response(200, stream=broken)), Gate()
        seen: list[Any] = []

        @workflow(loop="native" if native else "deterministic", name=f"http_broken_{native}")
        async def flow() -> Any:
            pieces = []
            try:
                async with server.client().stream("GET", "/broken") as response:
                    async for piece in response.aiter_raw():
                        pieces.append(piece.decode())  # noqa: PERF401 - it breaks off
            except httpx2.ReadError as error:
                pieces.append(type(error).__name__)
            seen.append(pieces)
            await gate.passed()
            return pieces

        assert await across_a_restart(tmp_path, flow, gate) == ["one", "two", "ReadError"]
        assert seen[0] == seen[1]
        assert len(server.requests) == 1

    asyncio.run(main())


def test_an_answer_that_is_closed_early_is_told_as_far_as_it_was_read(tmp_path: Path) -> None:
    async def main() -> None:
        class Endless(httpx2.AsyncByteStream):
            closed = 0

            async def __aiter__(self) -> Any:
                try:
                    while True:
                        yield b"more"
                        await asyncio.sleep(0)
                finally:
                    Endless.closed += 1

        server, gate = Server(lambda _: httpx2.Response(200, stream=Endless())), Gate()
        greedy: list[bool] = []

        @workflow(loop="native", name="http_closed")
        async def flow() -> list[str]:
            pieces: list[str] = []
            async with server.client().stream("GET", "/endless") as response:
                async for piece in response.aiter_text():
                    pieces.append(piece)
                    if len(pieces) == 3 and not (gate.is_open and greedy):
                        break
            await gate.passed()
            return pieces

        assert await across_a_restart(tmp_path, flow, gate) == ["more"] * 3
        assert Endless.closed == 1
        assert len(server.requests) == 1
        greedy.append(True)
        async with App(str(tmp_path / "runs.db"), **PARAMETERS) as app:
            fork = await app.fork("one", "gate")
            with pytest.raises(WrongUse, match="read beyond where it was closed"):
                await fork.result()

    asyncio.run(main())


def test_a_cancelled_request_ends_its_step(tmp_path: Path) -> None:
    async def main() -> None:
        begun, over = asyncio.Event(), asyncio.Event()

        class Hanging(httpx2.AsyncByteStream):
            async def __aiter__(self) -> Any:
                yield b"x"
                begun.set()
                await asyncio.Event().wait()

            async def aclose(self) -> None:
                over.set()

        server = Server(lambda _: httpx2.Response(200, stream=Hanging()))

        @workflow(loop="native", name="http_cancelled")
        async def flow() -> None:
            await server.client().get("/hangs")

        async with App(str(tmp_path / "runs.db")) as app:
            run = await app.start(flow())
            await asyncio.wait_for(begun.wait(), 10)
            await run.cancel()
            with pytest.raises(outlast.RunCancelled):
                await run.result()
            await asyncio.wait_for(over.wait(), 10)

    asyncio.run(main())


def test_a_client_that_blocks_is_refused_on_the_loop(tmp_path: Path) -> None:
    server = Server()

    @workflow(loop="native", name="http_blocking")
    async def flow() -> None:
        with httpx2.Client(transport=server.transport()) as client:
            client.get("https://api.example.com/")

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            with pytest.raises(WrongUse, match=r"use an async client, or asyncio\.to_thread"):
                await (await app.start(flow())).result()

    asyncio.run(main())


# -- what is not recorded -----------------------------------------------------------------------


def stored(folder: Path) -> bytes:
    """Return all that the store's files hold."""
    return b"".join(path.read_bytes() for path in folder.glob("runs.db*") if path.is_file())


def test_no_secret_is_recorded(tmp_path: Path) -> None:
    headers = [("set-cookie", "SECRET=1"), ("authorization", "SECRET"), ("x-kept", "yes")]
    server = Server(lambda _: httpx2.Response(200, headers=headers, text="fine"))

    @workflow(loop="native", name="http_secrets")
    async def flow() -> None:
        client = server.client()
        await client.get(
            "https://user:SECRET@api.example.com/?api_key=SECRET&page=2",
            headers={"authorization": "SECRET", "x-api-key": "SECRET"},
        )

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            run = await app.start(flow())
            await run.result()
            [made] = await run.steps()
            assert made.value["headers"]["x-kept"] == "yes"
        assert b"SECRET" not in stored(tmp_path)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"params": {"key": "old"}}, {"params": {"key": "new"}}, True),  # which the transport is told to ignore
        ({"params": {"api_key": "old"}}, {"params": {"api_key": "new"}}, False),
        ({"headers": {"authorization": "old"}}, {"headers": {"authorization": "new"}}, True),
        ({"files": {"f": b"data"}}, {"files": {"f": b"data"}}, True),
        ({"params": {"page": 1}}, {"params": {"page": 2}}, False),
        ({"files": {"f": b"data"}}, {"files": {"f": b"other"}}, False),
        ({"json": {"a": 1}}, {"json": {"a": 2}}, False),
    ],
)
def test_what_tells_requests_from_each_other(
    one: Any, other: Any, same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_engine, "HELD_AT_MOST_S", 0.1)

    async def main() -> None:
        server, gate = Server(), Gate()

        @workflow(loop="native", name="http_telling")
        async def flow() -> None:
            await server.client(ignore=["key"]).post("/", **(other if gate.is_open else one))
            await gate.passed()

        if same:
            await across_a_restart(tmp_path, flow, gate)
            assert len(server.requests) == 1
        else:
            async with App(str(tmp_path / "runs.db")) as app:
                run = await app.start(flow(), id="one")
                gate.is_open = True
                await run.result()
                fork = await app.fork("one", "gate")
                with pytest.raises(outlast.RunStuck, match="diverged"):
                    await fork.result(timeout=20)

    asyncio.run(main())
