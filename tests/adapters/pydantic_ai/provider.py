"""A provider of models as tests script it, and the framework's client for it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.adapters.stand_in import Asked, Reply, Script, StandIn, ToolCall, serving


class Provider:
    """A stand-in that runs for the length of a test."""

    def __init__(self, stack: ExitStack, ledger: Path) -> None:
        self.script: Script = lambda asked: Reply(f"you said {asked.said(-1)}")
        self.stand_in: StandIn = stack.enter_context(serving(self._says, ledger))
        self._clients: list[AsyncOpenAI] = []

    def _says(self, asked: Asked) -> Reply:
        return self.script(asked)

    def model(self) -> OpenAIChatModel:
        """Return a model of it."""
        client = AsyncOpenAI(base_url=self.stand_in.url, api_key="none", max_retries=0)
        self._clients.append(client)
        return OpenAIChatModel("stand-in", provider=OpenAIProvider(openai_client=client))

    def calls(self, *calls: ToolCall) -> OpenAIChatModel:
        """Have the model ask for these calls, and say what came of them; return it."""

        def says(asked: Asked) -> Reply:
            answers = asked.results()
            if not answers:
                return Reply(calls=calls)
            return Reply("; ".join(f"{call} {answers[call]}" for call in sorted(answers)))

        self.script = says
        return self.model()

    @property
    def times(self) -> int:
        """How often the model was asked."""
        return len(self.stand_in.asked())

    @property
    def saw(self) -> list[list[dict[str, Any]]]:
        """What the model saw, each time."""
        return [body["messages"] for body in self.stand_in.asked()]

    async def aclose(self) -> None:
        """Close the clients."""
        for client in self._clients:
            await client.close()
