"""The clients of providers of models, over one transport."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from outlast import App, BudgetExceeded, workflow
from tests.adapters.http.stage import Breaks, Gate, Server, across_a_restart

OPENAI = {
    "id": "r1", "object": "response", "created_at": 1, "model": "gpt", "status": "completed", "output": [
        {"type": "message", "id": "m", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "yes", "annotations": []}]}
    ], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 2, "total_tokens": 11},
}  # fmt: skip
ANTHROPIC = [
    {"type": "message_start", "message": {
        "id": "m", "type": "message", "role": "assistant", "content": [], "model": "claude", "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 1, "output_tokens": 1,
        },
    }},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ye"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "s"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
]  # fmt: skip
GOOGLE = {
    "candidates": [], "modelVersion": "gemini",
    "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 2, "thoughtsTokenCount": 3},
}  # fmt: skip


def provider(request: httpx2.Request) -> httpx2.Response:
    if request.url.path.endswith("/responses"):
        return httpx2.Response(200, json=OPENAI)
    if request.url.path.endswith("/messages"):
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in ANTHROPIC)
        pieces = [text[at : at + 50].encode() for at in range(0, len(text), 50)]
        return httpx2.Response(200, stream=Breaks(*pieces), headers={"content-type": "text/event-stream"})
    return httpx2.Response(200, json=GOOGLE)


def test_the_clients_of_providers_need_no_more_and_their_tokens_are_counted(tmp_path: Path) -> None:
    async def main() -> None:
        server, gate = Server(provider), Gate()

        @workflow(loop="native", name="http_providers")
        async def flow() -> list[str]:
            http = server.client(stream="events")
            gpt = openai.AsyncOpenAI(api_key="k", http_client=http)
            claude = anthropic.AsyncAnthropic(api_key="k", http_client=http)
            said = [(await gpt.responses.create(model="gpt", input="is it?")).output_text]
            request: Any = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "is it?"}]}
            async with claude.messages.stream(**request) as stream:
                said.append("".join([text async for text in stream.text_stream]))
            said.append(str((await http.post("https://google.example.com/generate?key=SECRET")).status_code))
            await gate.passed()
            return said

        assert await across_a_restart(tmp_path, flow, gate) == ["yes", "yes", "200"]
        assert len(server.requests) == 3
        async with App(str(tmp_path / "runs.db"), worker=False) as app:
            run = await app.get("one")
            models = (await run.usage()).models
            assert {name: (t.input, t.output, t.cached) for name, t in models.items()} == {
                "gpt": (9, 2, 4),
                "claude": (9, 7, 3),
                "gemini": (8, 5, 0),
            }
            assert [item.value async for item in run.stream("events")] == ANTHROPIC  # type: ignore[union-attr]

    asyncio.run(main())


def test_a_budget_is_looked_at_before_a_request(tmp_path: Path) -> None:
    server = Server(provider)

    @workflow(loop="native", name="http_budget", max_tokens=10)
    async def flow() -> None:
        client = openai.AsyncOpenAI(api_key="k", http_client=server.client(spends=True))
        for question in ("one", "two"):
            await client.responses.create(model="gpt", input=question)

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            run = await app.start(flow(), id="one")
            with pytest.raises(BudgetExceeded):
                await run.result()
            await app.resume("one", max_tokens=100)
            await run.result()
        assert len(server.requests) == 2

    asyncio.run(main())


CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt"}
SAID = CHUNK | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]}
USED = CHUNK | {
    "choices": [],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
}


def chatting(request: httpx2.Request) -> httpx2.Response:
    """Tell the usage of a streamed answer to those who ask."""
    if request.method == "GET":
        return httpx2.Response(200, json={"object": "list", "data": []})
    asks = json.loads(request.content).get("stream_options", {}).get("include_usage")
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in ([SAID, USED] if asks else [SAID]))
    headers = {"content-type": "text/event-stream"}
    return httpx2.Response(200, content=f"{text}data: [DONE]\n\n".encode(), headers=headers)


@pytest.mark.parametrize("asks", [True, False])
def test_a_stream_that_tells_no_usage_is_not_taken_for_nothing(asks: bool, tmp_path: Path) -> None:
    server, said = Server(chatting), list[str]()
    more: Any = {"stream_options": {"include_usage": True}} if asks else {}

    @workflow(loop="native", name="http_streams", max_tokens=100)
    async def flow() -> None:
        client = openai.AsyncOpenAI(api_key="k", http_client=server.client(spends=True))
        await client.models.list()
        for question in ("one", "two"):
            messages: Any = [{"role": "user", "content": question}]
            stream = await client.chat.completions.create(model="gpt", messages=messages, stream=True, **more)
            said.extend([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def main() -> None:
        async with App(str(tmp_path / "runs.db")) as app:
            run = await app.start(flow(), id="one")
            if asks:
                await run.result()
                assert (await run.usage()).spent.total == 22
            else:
                with pytest.raises(BudgetExceeded, match="have told nothing of it"):
                    await run.result()
                assert list((await run.usage()).unknown.values()) == [1]
        assert len(server.requests) == (3 if asks else 2)
        bodies = [json.loads(request.content) for request in server.requests if request.method == "POST"]
        assert [body.get("stream_options") for body in bodies] == [more.get("stream_options")] * len(bodies)

    asyncio.run(main())
