"""The example `examples/refund_desk`, as its README says, with its workers killed in the middle."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.adapters.stand_in import Asked, Reply, StandIn, ToolCall, serving

DESK = Path(__file__).parents[3] / "examples" / "refund_desk"
WORDS = "Your money is on its way, the receipt is"


class Desk:
    """The processes of the example."""

    def __init__(self, folder: Path, model: StandIn) -> None:
        self.bank = folder / "bank.jsonl"
        self.model = model
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.environment = os.environ | {
            "OUTLAST_URL": f"sqlite:///{folder / 'desk.db'}",
            "OPENAI_BASE_URL": model.url,
            "REFUND_DESK_BANK": str(self.bank),
        }
        self.client = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=30)
        self._processes: list[subprocess.Popen[bytes]] = []

    def worker(self, **environment: str) -> subprocess.Popen[bytes]:
        code = "from outlast.cli import main; main()"
        return self._run(["-c", code, "worker", "agent.py", "--lease", "3"], environment)

    async def replace(self, victim: subprocess.Popen[bytes]) -> None:
        while victim.poll() is None:  # noqa: ASYNC110 - another process ends
            await asyncio.sleep(0.01)
        self.worker()

    async def serve(self) -> None:
        server = self._run(["-m", "uvicorn", "web:web", "--port", str(self.port), "--log-level", "warning"], {})
        while server.poll() is None:
            try:
                await self.client.get("/approvals")
            except httpx2.ConnectError:
                await asyncio.sleep(0.05)
            else:
                return
        raise AssertionError("the web server did not start")

    def _run(self, arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, *arguments], cwd=DESK, env=self.environment | environment)
        self._processes.append(process)
        return process

    async def ask(self, id: str, text: str) -> None:
        (await self.client.post("/requests", json={"id": id, "text": text})).raise_for_status()

    async def events(self, id: str) -> AsyncIterator[tuple[str, int, Any]]:
        """Yield what the page gets: kind, position, data."""
        async with self.client.stream("GET", f"/requests/{id}/events") as response:
            kind, position = "item", 0
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "id":
                    position = int(value)
                elif name == "data":
                    yield kind, position, json.loads(value)
                    kind = "item"

    async def answer(self, id: str, seen: Callable[[str], None] = lambda text: None) -> str:
        """Return what the page shows at the end; `seen` is told what it shows after each event."""
        shown: list[tuple[int, str]] = []
        async for kind, position, data in self.events(id):
            if kind == "reset":
                shown = [(at, word) for at, word in shown if at <= position]
            elif kind == "item":
                shown.append((position, data))
            seen("".join(word for _, word in shown))
        return "".join(word for _, word in shown)

    async def until_asked(self) -> dict[str, Any]:
        while not (asked := (await self.client.get("/approvals")).json()):  # noqa: ASYNC110 - over HTTP
            await asyncio.sleep(0.02)
        return dict(asked[0])

    @property
    def payments(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.bank.read_text().splitlines()] if self.bank.exists() else []

    async def until_paid(self) -> None:
        while not self.payments:  # noqa: ASYNC110 - the file of another process
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        await self.client.aclose()
        for process in self._processes:
            process.kill()
            process.wait()


def says(asked: Asked) -> Reply:
    results = asked.results()
    order = "56" if any("56" in str(m.get("content")) for m in asked.messages) else "55"
    if "look" not in results:
        return Reply(calls=(ToolCall("look", "look_up", {"order": order}),))
    if "pay" not in results:
        cents = int(results["look"].split()[2])
        return Reply(calls=(ToolCall("pay", "refund", {"order": order, "cents": cents}),))
    return Reply(text=f"{WORDS} {results['pay']}", before=lambda n: None)


@asynccontextmanager
async def opened(folder: Path, script: Callable[[Asked], Reply] = says) -> AsyncIterator[Desk]:
    with serving(script, ledger=folder / "asked") as model:
        desk = Desk(folder, model)
        try:
            await desk.serve()
            yield desk
        finally:
            await desk.close()


@pytest.mark.timeout(90)
async def test_a_person_decides_above_the_limit_and_a_worker_that_dies_meanwhile_is_replaced(tmp_path: Path) -> None:
    async with opened(tmp_path) as desk:
        first = desk.worker()
        await desk.ask("req-1", "Please refund order 56.")
        question = await desk.until_asked()
        assert question["data"]["args"] == {"order": "56", "cents": 25_000}
        first.send_signal(signal.SIGKILL)
        first.wait()
        desk.worker()
        answers = [
            desk.client.post(f"/approvals/{question['id']}", json={"approved": True, "by": f"person {n}"})
            for n in range(5)
        ]
        codes = sorted(response.status_code for response in await asyncio.gather(*answers))
        assert codes == [200, 409, 409, 409, 409]
        text = await desk.answer("req-1")
        assert text == f"{WORDS} {desk.payments[0]['receipt']}"
        assert len(desk.payments) == 1
        assert len(desk.model.asked()) == 3
        assert (await desk.client.get("/requests/req-1")).json()["status"] == "succeeded"


@pytest.mark.timeout(90)
async def test_a_worker_that_dies_while_the_bank_pays_does_not_pay_twice(tmp_path: Path) -> None:
    async with opened(tmp_path) as desk:
        victim = desk.worker(REFUND_DESK_BANK_SLOWNESS="60")
        await desk.ask("req-2", "Please refund order 55.")
        await desk.until_paid()
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        desk.worker()
        assert await desk.answer("req-2") == f"{WORDS} {desk.payments[0]['receipt']}"
        assert len(desk.payments) == 1


@pytest.mark.timeout(90)
async def test_a_worker_that_dies_while_the_model_writes_shows_no_word_twice(tmp_path: Path) -> None:
    victims: list[subprocess.Popen[bytes]] = []
    shown, seen = threading.Event(), list[str]()

    def see(text: str) -> None:
        seen.append(text)
        if text.startswith("Your money is"):
            shown.set()

    def kills(asked: Asked) -> Reply:
        reply = says(asked)
        if not reply.text:
            return reply

        def before(piece: int) -> None:
            if piece == 4 and victims:
                assert shown.wait(20)
                victim = victims.pop()
                victim.send_signal(signal.SIGKILL)
                victim.wait()

        return Reply(text=reply.text, before=before)

    async with opened(tmp_path, kills) as desk:
        victim = desk.worker()
        victims.append(victim)
        await desk.ask("req-3", "Please refund order 55.")
        replacing = asyncio.create_task(desk.replace(victim))
        text = await desk.answer("req-3", see)
        assert text == f"{WORDS} {desk.payments[0]['receipt']}"
        await replacing
        assert any(len(text) < len(before) for before, text in itertools.pairwise(seen))  # it was told to drop some
        assert len(desk.payments) == 1
        assert len(desk.model.asked()) == 4
