"""Sessions that outlive a run: read once, and each invocation's events stored once, whatever becomes of processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions import DatabaseSessionService

from outlast import App
from outlast.google_adk import Sessions
from tests.adapters.effects import SETTING
from tests.adapters.google_adk import program
from tests.adapters.google_adk.scenes import Scene

pytestmark = pytest.mark.filterwarnings("default")  # the framework says that much of it is experimental

POINTS = ["stores 1", "stores 3", "stored 4", "asks main2", "has main3"]


async def _stored(folder: Path, session_id: str = "ada") -> list[Any]:
    """Return what a session holds that was stored, and its state."""
    service = DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'sessions.db'}")
    session = await service.get_session(app_name="desk", user_id="u", session_id=session_id)
    assert session is not None
    assert len({event.id for event in session.events}) == len(session.events)
    await service.close()
    return [[program.told(event) for event in session.events], dict(session.state)]


async def _made(folder: Path) -> None:
    """Make the tables, which no two can make at once."""
    service = DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'sessions.db'}")
    await service.list_sessions(app_name="desk")
    await service.close()


async def _turns(store: str, url: str, folder: Path, *names: str) -> list[str]:
    SETTING.effects, SETTING.kill = folder / "effects", ""
    async with App(store) as app:
        runs = [await app.start(program.turn(url, str(folder), "hello"), id=name) for name in names]
        answering = asyncio.create_task(_answer_all(app))
        results = [await run.result() for run in runs]
        answering.cancel()
        return results


async def _answer_all(app: App) -> None:
    while True:
        for asked in await app.approvals():
            await app.approve(asked.id, by="ada")
        await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with Scene.at(folder, False) as made:
        asyncio.run(_turns("memory://", made.stand_in.url, folder, "turn-1"))
    return asyncio.run(_stored(folder))


@pytest.mark.parametrize("point", POINTS)
def test_a_turn_is_stored_once_where_its_process_is_killed(point: str, tmp_path: Path, undisturbed: list[Any]) -> None:
    with Scene.at(tmp_path, False) as made:
        asyncio.run(made.be_killed(point, program.work_turn))
        asyncio.run(_turns(made.store, made.stand_in.url, tmp_path, "turn-1"))
        assert asyncio.run(_stored(tmp_path)) == undisturbed


def test_two_runs_of_one_session_each_store_their_turn(tmp_path: Path, undisturbed: list[Any]) -> None:
    with Scene.at(tmp_path, False) as made:
        asyncio.run(_made(tmp_path))
        asyncio.run(_turns(made.store, made.stand_in.url, tmp_path, "turn-1", "turn-2"))
        events, state = asyncio.run(_stored(tmp_path))
    assert len(events) == 2 * len(undisturbed[0])
    assert [event[0] for event in events].count("user") == 2 * [event[0] for event in undisturbed[0]].count("user")
    assert state == undisturbed[1]


def test_outside_of_a_run_it_is_the_service_that_it_was_given(tmp_path: Path) -> None:
    async def main() -> None:
        service = DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}")
        sessions = Sessions(service)
        await sessions.create_session(app_name="desk", user_id="u", session_id="s", state={"user:name": "ada", "n": 1})
        found = await service.get_session(app_name="desk", user_id="u", session_id="s")
        assert found == await sessions.get_session(app_name="desk", user_id="u", session_id="s")
        assert await sessions.get_user_state(app_name="desk", user_id="u") == {"name": "ada"}
        assert len((await sessions.list_sessions(app_name="desk")).sessions) == 1
        await sessions.delete_session(app_name="desk", user_id="u", session_id="s")
        assert await sessions.get_session(app_name="desk", user_id="u", session_id="s") is None
        await service.close()

    asyncio.run(main())
