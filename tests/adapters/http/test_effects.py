"""Requests that fail, are sent again, or act on the world."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

import outlast
from outlast import App, DidNotHappen, Happened, RunStuck, StepInfo, WrongUse, workflow
from outlast.http import DurableTransport
from tests.adapters.http.stage import PARAMETERS, Gate, Server, across_a_restart

FINE = httpx2.Response(200, json={"ok": True})


def sequence(*answers: httpx2.Response | Exception) -> Callable[[httpx2.Request], httpx2.Response]:
    """Return a script that gives these answers in turn, and the last of them for ever."""
    left = list(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        given = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(given, Exception):
            raise given
        return httpx2.Response(given.status_code, headers=given.headers, content=given.content)

    return answer


def client_of(server: Server, **settings: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="k", http_client=server.client(**settings))


async def ask(client: openai.AsyncOpenAI, text: str) -> None:
    await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])


CHAT = httpx2.Response(
    200,
    json={
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
    },
)  # fmt: skip


def test_a_client_tries_again_by_itself_and_a_replay_does_not_wait(tmp_path: Path) -> None:
    async def main() -> None:
        slow = httpx2.Response(429, headers={"retry-after": "1"}, json={"error": {"message": "slow down"}})
        server, gate = Server(sequence(slow, httpx2.ConnectError("gone"), CHAT)), Gate()
        took: list[float] = []

        @workflow(loop="native", name="http_retried")
        async def flow() -> None:
            begun = time.monotonic()
            await ask(client_of(server), "hi")
            took.append(time.monotonic() - begun)
            await gate.passed()

        await across_a_restart(tmp_path, flow, gate)
        assert len(server.requests) == 3
        assert took[0] > 1.0

        async with App(str(tmp_path / "runs.db"), worker=False) as app:
            steps = await (await app.get("one")).steps()
        assert [s.state for s in steps] == ["failed", "failed", "done", "done"]
        assert "429" in steps[0].error
        assert "ConnectError" in steps[1].error

    asyncio.run(main())


@pytest.mark.parametrize("failed", [httpx2.Response(401, json={"error": "no"}), httpx2.ConnectError("gone")])
def test_a_failure_that_ends_the_run_is_asked_for_again_by_resume(failed: Any, tmp_path: Path) -> None:
    server = Server(sequence(FINE, failed, CHAT))

    @workflow(loop="native", name="http_resumed")
    async def flow() -> None:
        await server.client().get("/first")
        await ask(client_of(server).with_options(max_retries=0), "hi")

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            run = await app.start(flow(), id="one")
            with pytest.raises(openai.APIError):
                await run.result()
            assert (await run.info()).culprit.startswith("main/http_api_openai_com")
            await (await app.resume("one")).result()
        assert len(server.requests) == 3

    asyncio.run(main())


@pytest.mark.parametrize("native", [True, False])
def test_code_that_goes_on_after_an_error_goes_on_in_the_same_way(native: bool, tmp_path: Path) -> None:
    async def main() -> None:
        server, gate = Server(sequence(httpx2.Response(404, text="none"), FINE)), Gate()

        @workflow(loop="native" if native else "deterministic", name=f"http_not_found_{native}")
        async def flow() -> list[int]:
            client = server.client()
            found = [(await client.get("/thing")).status_code]
            if found == [404]:
                found.append((await client.put("/thing", json={"a": 1})).status_code)
            await gate.passed()
            return found

        assert await across_a_restart(tmp_path, flow, gate) == [404, 200]
        assert len(server.requests) == 2

    asyncio.run(main())


# -- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
def test_requests_that_act_bear_a_key(effect: Any, tmp_path: Path) -> None:
    server = Server()

    @workflow(loop="native", name=f"http_keys_{effect}")
    async def flow() -> None:
        client = server.client(effect=effect)
        await asyncio.gather(client.post("/same"), client.post("/same"))
        await client.post("/same")
        await client.get("/read")
        await client.post("/given", headers={"idempotency-key": "mine"})

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            await (await app.start(flow())).result()
        *same, read, given = server.keys
        assert (read, given) == (None, "mine")
        assert len(set(same)) == (3 if effect == "idempotent" else 1)
        assert (None in same) == (effect == "pure")

    asyncio.run(main())


def test_who_tries_again_sends_the_same_key_whoever_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        begun, cut = asyncio.Event(), [True]

        class Hangs(httpx2.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                response = server(request)
                if len(server.requests) == 3 and cut:
                    begun.set()
                    await asyncio.Event().wait()
                return response

        unavailable = httpx2.Response(503)
        server = Server(sequence(unavailable, httpx2.ReadError("cut"), FINE))

        @workflow(loop="native", name="http_same_key")
        async def flow() -> None:
            transport = DurableTransport(Hangs(), effect="idempotent")
            async with httpx2.AsyncClient(transport=transport, base_url="https://api.example.com") as client:
                for _ in range(2):
                    try:
                        if (await client.post("/pay", json={"cents": 5})).status_code == 200:
                            return
                    except httpx2.ReadError:
                        pass
                await client.post("/pay", json={"cents": 5})
                await client.post("/pay", json={"cents": 5})  # another one

        async with App(str(tmp_path / "runs.db"), **PARAMETERS) as app:
            await app.start(flow(), id="one")
            await asyncio.wait_for(begun.wait(), 10)
        cut.clear()
        async with App(str(tmp_path / "runs.db"), **PARAMETERS) as app:
            await (await app.get("one")).result()
        assert len(server.keys) == 5
        assert len(set(server.keys[:4])) == 1  # two failures, one that was cut off, and the one that came through
        assert server.keys[4] not in server.keys[:4]

    asyncio.run(main())


def test_an_effect_is_chosen_by_request(tmp_path: Path) -> None:
    server = Server()

    def effect(request: Any) -> Any:
        return "idempotent" if request.method == "POST" else "pure"

    @workflow(loop="native", name="http_chosen")
    async def flow() -> None:
        client = server.client(effect=effect)
        await client.get("/")
        await client.post("/")

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            run = await app.start(flow())
            await run.result()
            assert [s.effect for s in await run.steps()] == ["pure", "idempotent"]

    asyncio.run(main())


@pytest.mark.parametrize("settings", [{"effect": "twice"}, {"effect": 5}, {"stream": ""}])
def test_settings_that_make_no_sense_are_refused(settings: Any) -> None:
    with pytest.raises(WrongUse):
        DurableTransport(**settings)


# -- once ------------------------------------------------------------------------------------------


async def in_doubt(app: App, run: Any) -> StepInfo:
    with pytest.raises(RunStuck, match="in_doubt"):
        await run.result(timeout=20)
    return next(step for step in await run.steps() if step.state == "in_doubt")


@pytest.mark.parametrize("failed", [httpx2.Response(503), httpx2.ReadTimeout("late"), httpx2.Response(408)])
def test_a_once_request_without_a_certain_answer_is_in_doubt(failed: Any, tmp_path: Path) -> None:
    server = Server(sequence(failed, FINE))

    @workflow(loop="native", name="http_doubt")
    async def flow() -> Any:
        return (await server.client(effect="once").post("/pay")).json()

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            run = await app.start(flow(), id="one")
            step = await in_doubt(app, run)
            await app.resolve("one", step.id, Happened({"status": 200, "body": {"paid": 5}}))
            assert await (await app.get("one")).result() == {"paid": 5}
        assert len(server.requests) == 1

    asyncio.run(main())


@pytest.mark.parametrize("failed", [httpx2.Response(402), httpx2.Response(429), httpx2.ConnectError("refused")])
def test_a_once_request_that_was_refused_is_not(failed: Any, tmp_path: Path) -> None:
    server = Server(sequence(failed, FINE))

    @workflow(loop="native", name="http_definite")
    async def flow() -> str:
        client = server.client(effect="once")
        try:
            first = str((await client.post("/pay")).status_code)
        except httpx2.ConnectError as error:
            first = str(error)
        return f"{first}, then {(await client.post('/pay')).status_code}"

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            said = await (await app.start(flow())).result()
        assert said == f"{getattr(failed, 'status_code', 'refused')}, then 200"

    asyncio.run(main())


def test_a_confirm_tells_what_became_of_a_once_request(tmp_path: Path) -> None:
    server = Server(sequence(httpx2.Response(503), FINE))
    asked: list[Any] = []

    def confirm(key: str, request: str, body: str) -> Happened | DidNotHappen:
        asked.append(request)
        return Happened({"status": 201, "headers": {"x": "y"}, "body": "paid"})

    @workflow(loop="native", name="http_confirmed")
    async def flow() -> Any:
        response = await server.client(effect="once", confirm=confirm).post("/pay")
        return [response.status_code, response.text, response.headers["x"]]

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            assert await (await app.start(flow())).result() == [201, "paid", "y"]
        assert asked == ["POST https://api.example.com/pay"]

    asyncio.run(main())


# -- what holds for every adapter ---------------------------------------------------------------------


def test_a_fork_repeats_nothing_and_leaves_its_original_alone(tmp_path: Path) -> None:
    server = Server(lambda _: httpx2.Response(200, json={"n": len(server.requests)}))

    @workflow(loop="native", name="http_forked")
    async def flow() -> list[int]:
        client = server.client()
        return [(await client.get(f"/{n}")).json()["n"] for n in range(3)]

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            run = await app.start(flow(), id="one")
            assert await run.result() == [1, 2, 3]
            last = (await run.steps())[-1].id
            forks = [await app.fork("one", last, new_id=name) for name in ("f1", "f2")]
            assert [await fork.result() for fork in forks] == [[1, 2, 4], [1, 2, 5]]
            assert await run.result() == [1, 2, 3]
        assert len(server.requests) == 5

    asyncio.run(main())


def test_recovering_twice_gives_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        server, gate = Server(lambda _: httpx2.Response(200, json={"n": len(server.requests)})), Gate()
        seen: list[Any] = []

        @workflow(loop="native", name="http_twice")
        async def flow() -> list[int]:
            client = server.client()
            found = [(await client.get("/same")).json()["n"] for n in range(3)]
            seen.append(found)
            await gate.passed()
            return found

        for _ in range(2):
            async with App(str(tmp_path / "runs.db"), **PARAMETERS) as app:
                gate.reached.clear()
                await app.start(flow(), id="one")
                await asyncio.wait_for(gate.reached.wait(), 10)
        gate.is_open = True
        async with App(str(tmp_path / "runs.db"), **PARAMETERS) as app:
            assert await (await app.get("one")).result() == [1, 2, 3]
        assert seen == [[1, 2, 3]] * 3
        assert len(server.requests) == 3

    asyncio.run(main())


def test_an_answer_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    server = Server(lambda _: httpx2.Response(200, content=b"x" * 17_000_000))

    @workflow(loop="native", name="http_too_large")
    async def flow() -> None:
        await server.client().get("/huge")

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            with pytest.raises(outlast.PayloadTooLarge, match="http_api_example_com"):
                await (await app.start(flow())).result()

    asyncio.run(main())
