"""What a request costs more with Outlast than without: `python -m tests.adapters.http.overhead`.

A server that answers at once, without a network, is asked again and again, by httpx2 alone and by the client of OpenAI.
Prints the p50 of a request in milliseconds, bare and on SQLite, and the difference.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import openai

from outlast import App, workflow
from outlast.http import DurableTransport

CALLS = 500
ANSWER = {
    "id": "c", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "word " * 100}}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 100, "total_tokens": 200},
}  # fmt: skip
URL = "https://api.example.com/v1"

Ask = Callable[[httpx2.AsyncClient, int], Awaitable[Any]]


async def plain(client: httpx2.AsyncClient, number: int) -> Any:
    """Ask by httpx2 itself."""
    return await client.post(f"{URL}/chat/completions", json={"number": number})


async def by_openai(client: httpx2.AsyncClient, number: int) -> Any:
    """Ask by the client of OpenAI."""
    gpt = openai.AsyncOpenAI(api_key="k", base_url=URL, http_client=client)
    messages: Any = [{"role": "user", "content": f"{number} " + "word " * 100}]
    return await gpt.chat.completions.create(model="m", messages=messages)


ASKS: dict[str, Ask] = {"httpx2": plain, "openai": by_openai}


def server() -> httpx2.MockTransport:
    """Return a server that answers at once."""
    return httpx2.MockTransport(lambda request: httpx2.Response(200, json=ANSWER))


@workflow(loop="native")
async def measured(name: str) -> list[float]:
    """Ask in turns, so that both see the machine alike; return the p50s in milliseconds, bare and durable."""
    ask, times = ASKS[name], ([], [])
    async with httpx2.AsyncClient(transport=server()) as bare, durable_client() as durable:
        for number in range(CALLS):
            for client, mine in zip((bare, durable), times, strict=True):
                begun = time.perf_counter()
                await ask(client, number)
                mine.append(time.perf_counter() - begun)
    return [statistics.median(mine) * 1000 for mine in times]


def durable_client() -> httpx2.AsyncClient:
    """Return a client over the transport."""
    return httpx2.AsyncClient(transport=DurableTransport(server()))


async def main() -> None:
    """Measure, and print a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        async with App(f"sqlite:///{folder}/runs.db") as app:
            for name in ASKS:
                await (await app.start(measured(name))).result()  # to warm up
                bare, durable = await (await app.start(measured(name))).result()
                more = durable - bare
                sys.stdout.write(f"{name}: {bare:.2f} ms bare, {durable:.2f} ms durable, {more:.2f} ms more\n")


if __name__ == "__main__":
    asyncio.run(main())
