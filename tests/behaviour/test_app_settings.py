"""An App is told where its store is and what it may hold; what makes no sense is refused where it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import outlast
import outlast.sync
from outlast import App, WrongUse
from outlast.codec import JsonCodec
from tests.behaviour.flows import doubled


async def result_in(app: App) -> int:
    async with app:
        return await (await app.start(doubled(2))).result()


@pytest.mark.parametrize("form", ["sqlite:///{0}", "{0}", "path"])
async def test_a_store_is_named_by_a_url_or_a_path(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a b%20ü.db"
    url: Any = path if form == "path" else form.format(str(path).replace("%", "%25") if "//" in form else path)
    assert await result_in(App(url)) == 4
    assert path.exists()


async def test_without_a_url_the_environment_decides_and_else_a_file_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_URL", raising=False)
    assert await result_in(App()) == 4
    assert (tmp_path / "outlast.db").exists()
    monkeypatch.setenv("OUTLAST_URL", f"sqlite:///{tmp_path}/other.db")
    assert await result_in(App()) == 4
    assert (tmp_path / "other.db").exists()


async def test_the_version_is_recorded_with_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_VERSION", "from the environment")
    for settings, expected in (({}, "from the environment"), ({"version": "v2"}, "v2")):
        async with App("memory://", **settings) as app:
            run = await app.start(doubled(1))
            await run.result()
            assert (await run.info()).version == expected
            assert [i.id for i in await app.runs(version=expected)] == [run.id]
            assert await app.runs(version="v1") == []


async def test_memory_stores_of_one_name_are_one_and_nameless_ones_are_not() -> None:
    async with App("memory://shared-name") as one, App("memory://shared-name", worker=False) as same:
        run = await one.start(doubled(1), id="x")
        assert await (await same.get("x")).result() == await run.result()
    async with App("memory://") as one, App("memory://") as other:
        await one.start(doubled(1), id="x")
        with pytest.raises(outlast.RunNotFound):
            await other.get("x")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"worker_concurrency": 0}, "worker_concurrency=0"),
        ({"worker_concurrency": 1.5}, r"worker_concurrency=1\.5"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"max_threads": -1}, "max_threads=-1"),
        ({"max_crashes": 0}, "max_crashes=0"),
        ({"lease": 0.01}, r"lease=0\.01"),
        ({"lease": float("nan")}, "lease=nan"),
        ({"lease": float("inf")}, "lease=inf"),
        ({"park_after": -1}, "park_after=-1"),
        ({"park_after": float("nan")}, "park_after=nan"),
        ({"grace": -1}, "grace=-1"),
        ({"grace": float("inf")}, "grace=inf"),
        ({"on_event": 5}, "on_event"),
        ({"on_event": None}, "on_event"),
        ({"on_event": [print, 5]}, "on_event"),
        ({"worker_concurrency": True}, "worker_concurrency=True"),
        ({"lease": "10"}, r"App\(lease='10'\): must be a number of seconds"),
        ({"park_after": None}, "park_after=None"),
        ({"grace": "5"}, "grace='5'"),
        ({"worker": "no"}, r"App\(worker='no'\): must be True or False"),
        ({"version": 5}, r"App\(version=5\): must be a str"),
        ({"codec": 3}, r"App\(codec=3\): must be an object with the methods of outlast.codec.Codec"),
        ({"codec": JsonCodec}, r"App\(codec=.*must be an object"),
    ],
    ids=str,
)
def test_settings_that_would_keep_work_waiting_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(WrongUse, match=says):
        App("memory://", **settings)
    with pytest.raises(WrongUse, match=says):
        outlast.sync.App("memory://", **settings)


async def test_a_run_may_never_rest() -> None:
    assert await result_in(App("memory://", park_after=float("inf"))) == 4


@pytest.mark.parametrize(
    "url",
    ["mysql://host/db", "sqlite://two-slashes.db", "sqlite:///", ":memory:", "folder/", "a\0b", "sqlite:///x.db?a=1"],
)
async def test_a_url_that_means_nothing_is_refused_when_it_is_opened(url: str) -> None:
    with pytest.raises(WrongUse):
        await result_in(App(url))


async def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n" * 500)
    with pytest.raises(outlast.NotAStore):
        await result_in(App(path))
    assert path.read_text() == "my notes\n" * 500


def test_a_lease_too_short_to_beat_is_refused() -> None:
    with pytest.raises(WrongUse, match="lease"):
        outlast.App("memory://", lease=0.01)
