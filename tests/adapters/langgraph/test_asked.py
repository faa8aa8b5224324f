"""By what calls of models are told apart: the same in every process, and another for each model and each question."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from outlast.adapters.langgraph.asked import digest_of

HELLO = [HumanMessage("hello")]


class Plain(BaseChatModel):
    """A model whose maker names no identifying parameters."""

    tag: str = "m"
    api_key: str = ""
    base_url: str = ""
    secret: SecretStr = SecretStr("")
    client: Any = None

    @property
    def _llm_type(self) -> str:
        return "plain"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **settings: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.tag))])


class Other(Plain):
    """A model of another class."""


class Thing:
    """An object that prints as another text in each process."""


class Colour(Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


class Weather(BaseModel):
    """What is asked for."""

    city: str
    near: Any = None


@dataclass
class Strategy:
    """How it is asked for."""

    schema: Any
    made_at: Any = field(default=None, repr=False)


@tool
def look(city: str) -> str:
    """Look out."""
    return city


def call(f: Any) -> Any:
    return f


def everything() -> list[Any]:
    """Return settings of all kinds."""
    settings: list[Any] = [Thing(), {"b", "a", "c"}, frozenset({Thing()}), Weather, Weather(city="Rome", near=Thing())]
    settings += [
        Strategy(Weather, Thing()),
        Colour.RED,
        look,
        call,
        partial(call, Thing()),
        b"bytes",
        Path("/a"),
        {1: 2},
    ]
    settings += [ToolMessage("said", tool_call_id="c", artifact=Thing()), SecretStr("secret"), lambda: None, int, 1.5]
    loop: list[Any] = []
    loop.append(loop)
    return [*settings, loop]


def digests() -> str:
    """Return the digests of calls with each of these, as this process computes them."""
    models = [Plain(client=Thing()), ChatOpenAI(api_key="k", model="gpt")]  # type: ignore[arg-type]
    return " ".join(digest_of(model, HELLO, value) for model in models for value in everything())


def test_another_process_computes_the_same() -> None:
    here = digests()
    program = "from tests.adapters.langgraph.test_asked import digests; print(digests())"
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        told = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
        assert told.stdout.split() == here.split(), told.stderr
    assert re.fullmatch(r"([0-9a-f]{8} ?)+", here)


DIFFERENT: list[tuple[Any, Any]] = [
    ({"a", "b"}, {"a", "c"}),
    (Weather(city="Rome"), Weather(city="Oslo")),
    (Strategy(Weather), Strategy(None)),
    (Colour.RED, Colour.BLUE),
    (call, everything),
    (partial(call, 1), partial(call, 2)),
    (b"a", b"b"),
    (Path("/a"), Path("/b")),
    (look, look.model_copy(update={"description": "Look in."})),
    (Weather, Strategy),
    (Thing(), Strategy(None)),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_is_the_same_elsewhere_tells_calls_apart(one: Any, other: Any) -> None:
    assert digest_of(Plain(), HELLO, one) != digest_of(Plain(), HELLO, other)


def test_which_model_is_asked_tells_calls_apart() -> None:
    def of(**settings: Any) -> ChatOpenAI:
        return ChatOpenAI(**{"api_key": "k", "model": "gpt", **settings})

    models = [Plain(), Plain(tag="n"), Other(), of(), of(model="gpt-2"), of(temperature=0.5), of().bind(stop=["x"])]
    assert len({digest_of(model, HELLO) for model in models}) == len(models)


def test_secrets_and_the_ways_to_a_model_do_not() -> None:
    made = {"api_key": "one", "base_url": "http://one", "secret": SecretStr("one"), "client": Thing()}
    assert digest_of(Plain(**made), HELLO) == digest_of(Plain(), HELLO)
    one = ChatOpenAI(api_key="k", base_url="http://one", model="gpt", max_retries=0, timeout=1)  # type: ignore[arg-type]
    two = ChatOpenAI(api_key="l", base_url="http://two", model="gpt", default_headers={"authorization": "l"})  # type: ignore[arg-type]
    assert digest_of(one, HELLO) == digest_of(two, HELLO)
