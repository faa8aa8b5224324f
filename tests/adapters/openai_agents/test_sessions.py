"""A session holds what an agent and its user have said, once, whatever crashes, and whoever else wants to use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, OpenAIConversationsSession, OpenAIResponsesCompactionSession, Runner, SQLiteSession
from agents.memory import SessionSettings

from outlast import WrongUse
from outlast.openai_agents import DurableSession, SessionChanged
from tests.adapters.openai_agents import chats
from tests.adapters.openai_agents.scenes import again, asked, durably, processes
from tests.adapters.stand_in import Asked, Reply, serving


def says(asked: Asked) -> Reply:
    """Say the same each time, so that a conversation repeats itself."""
    return Reply("hello")


def session_in(folder: Path, limit: int | None = None) -> SQLiteSession:
    """Return the session."""
    return SQLiteSession("ada", folder / "chats.db", session_settings=SessionSettings(limit=limit))


async def texts(folder: Path) -> list[str]:
    """Return what the session holds."""
    session = session_in(folder)
    try:
        return [_text(item) for item in await session.get_items()]
    finally:
        session.close()


def _text(item: Any) -> str:
    content = item["content"]
    return content if isinstance(content, str) else content[0]["text"]


class DiesAfter(SQLiteSession):
    """A session whose addition is made, and then the process seems to die: the step ends without a record."""

    additions = 0
    fails_at = 6  # the answer of the third turn

    async def add_items(self, items: Any) -> None:
        await super().add_items(items)
        self.additions += 1
        if self.additions == self.fails_at:
            raise ConnectionError("the connection broke after the addition")


@pytest.mark.parametrize("limit", [None, 2, 50])
def test_turns_that_repeat_themselves_are_added_each_and_once(limit: int | None, tmp_path: Path) -> None:
    fails = [True]

    async def main() -> None:
        async with asked(says, tmp_path) as (model, stand_in):
            agent = Agent[Any]("helper", model=model)

            async def body() -> None:
                session = session_in(tmp_path, limit)
                try:
                    for _ in range(12):
                        await Runner.run(agent, "hi", session=session)
                finally:
                    session.close()
                if fails:
                    raise RuntimeError("once more")

            with pytest.raises(RuntimeError, match="once more"):
                await durably(body, tmp_path)
            fails.clear()
            await again(tmp_path)
            assert await texts(tmp_path) == ["hi", "hello"] * 12
            lengths = [len(body["messages"]) for body in stand_in.asked()]
            assert lengths == [1 + min(2 * n, limit or 99) for n in range(12)]

    asyncio.run(main())


@pytest.mark.parametrize("limit", [None, 2])
def test_an_addition_whose_record_is_missing_is_not_made_twice(limit: int | None, tmp_path: Path) -> None:
    session = DiesAfter("ada", tmp_path / "chats.db", session_settings=SessionSettings(limit=limit))

    async def main() -> None:
        async with asked(says, tmp_path) as (model, _):
            agent = Agent[Any]("helper", model=model)

            async def body() -> None:
                for _ in range(3):
                    await Runner.run(agent, "hi", session=session)

            with pytest.raises(ConnectionError):
                await durably(body, tmp_path)
            await again(tmp_path)
            assert await texts(tmp_path) == ["hi", "hello"] * 3

    asyncio.run(main())
    session.close()


def test_a_run_that_finds_words_of_another_is_refused_and_adds_nothing(tmp_path: Path) -> None:
    session = session_in(tmp_path)

    async def main() -> None:
        async def meanwhile(asked: Asked) -> None:
            await session.add_items([{"role": "user", "content": "somebody else"}])

        def interrupted(asked: Asked) -> Reply:
            asyncio.run(meanwhile(asked))
            return Reply("hello")

        async with asked(interrupted, tmp_path) as (model, _):

            async def body() -> None:
                await Runner.run(Agent("helper", model=model), "hi", session=session)

            with pytest.raises(SessionChanged, match="per_key=1"):
                await durably(body, tmp_path)
            assert await texts(tmp_path) == ["hi", "somebody else"]

    asyncio.run(main())
    session.close()


def test_code_of_a_workflow_uses_a_session_by_itself(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    fails = [True]

    async def main() -> None:
        async def body() -> list[Any]:
            durable = DurableSession(session)
            assert isinstance(durable, SQLiteSession)
            await durable.add_items([{"role": "user", "content": word} for word in ("one", "two", "three")])
            popped = await durable.pop_item()
            await durable.add_items([{"role": "user", "content": "four"}])
            kept = await durable.get_items()
            if fails:
                raise RuntimeError("once more")
            return [_text(popped), [_text(item) for item in kept]]

        with pytest.raises(RuntimeError, match="once more"):
            await durably(body, tmp_path)
        fails.clear()
        assert await again(tmp_path) == ["three", ["one", "two", "four"]]
        assert await texts(tmp_path) == ["one", "two", "four"]

        async def clear() -> None:
            await DurableSession(session).clear_session()

        folder = tmp_path / "other"
        folder.mkdir()
        await durably(clear, folder)
        assert await texts(tmp_path) == []

    asyncio.run(main())
    session.close()


class Plain:
    """A session of the user's own: no more than the SDK asks for, not even async, and it wants the run's context."""

    session_id = "plain"

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.contexts: set[Any] = set()

    def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
        self.contexts.add(wrapper.context)
        return self.items[-limit:] if limit else list(self.items)

    def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
        self.contexts.add(wrapper.context)
        self.items.extend(items)

    def pop_item(self, *, wrapper: Any = None) -> Any:
        return self.items.pop()

    def clear_session(self, *, wrapper: Any = None) -> None:
        self.items.clear()


def test_a_session_of_the_users_own_gets_what_the_sdk_gives_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(says, tmp_path) as (model, _):
            sessions: list[Any] = [Plain(), Plain()]
            await Runner.run(Agent("helper", model=model), "hi", session=sessions[0], context="ada")

            async def body() -> None:
                await Runner.run(Agent("helper", model=model), "hi", session=sessions[1], context="ada")

            await durably(body, tmp_path)
            assert sessions[0].items == sessions[1].items
            assert sessions[0].contexts == sessions[1].contexts == {"ada"}

    asyncio.run(main())


def test_outside_of_a_run_a_durable_session_is_the_session(tmp_path: Path) -> None:
    session = session_in(tmp_path)

    async def main() -> None:
        durable = DurableSession(session)
        await durable.add_items([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}])
        assert _text(await durable.pop_item()) == "two"
        assert [_text(item) for item in await durable.get_items(limit=5)] == ["one"]
        await durable.clear_session()
        assert await durable.get_items() == []

    asyncio.run(main())
    session.close()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: OpenAIConversationsSession(openai_client=object()), "conversation_id="),  # type: ignore[arg-type]
        (lambda: OpenAIResponsesCompactionSession("ada", SQLiteSession("ada"), client=object()), "that it wraps"),  # type: ignore[arg-type]
    ],
)
def test_a_session_that_cannot_be_kept_is_refused(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(WrongUse, match=says):
        DurableSession(make())


def test_two_processes_take_turns_in_one_session(tmp_path: Path) -> None:
    with serving(chats.says, tmp_path / "asked") as stand_in:
        _talk_at_the_same_time(tmp_path, stand_in.url, at_once=False)
    turns = asyncio.run(texts(tmp_path))
    asked_for = turns[::2]
    assert sorted(asked_for) == sorted(f"{name} {n}" for name in ("left", "right") for n in range(chats.TURNS))
    assert turns[1::2] == [f"you said {words}" for words in asked_for]  # each answer follows its question


def test_two_processes_that_do_not_wait_for_each_other_lose_no_turn_in_silence(tmp_path: Path) -> None:
    with serving(chats.says, tmp_path / "asked") as stand_in:
        _talk_at_the_same_time(tmp_path, stand_in.url, at_once=True)
    turns = asyncio.run(texts(tmp_path))
    for name in ("left", "right"):
        for words, ended in _told(tmp_path / name):
            if ended == "said":
                at = turns.index(words)
                assert turns[at : at + 2] == [words, f"you said {words}"]
            else:
                assert ended == "SessionChanged"


def _talk_at_the_same_time(folder: Path, url: str, *, at_once: bool) -> None:
    both = [processes.Process(target=chats.talk, args=(folder, url, name, at_once)) for name in ("left", "right")]
    try:
        for process in both:
            process.start()
        for process in both:
            process.join(100)
        assert [process.exitcode for process in both] == [0, 0]
    finally:
        for process in both:
            process.kill()


def _told(ledger: Path) -> list[tuple[str, str]]:
    return [(words, ended) for words, ended in (line.split(": ") for line in ledger.read_text().splitlines())]
