"""Which store a URL or a path means."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast.core.errors import ReadOnlyStore, WrongUse
from outlast.stores.memory import MemoryStore
from outlast.stores.open import open_store
from outlast.stores.sqlite import SqliteStore
from outlast.stores.verbs import StartRun
from tests.conformance.world import SetClock, run_row


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def location(url: str) -> str:
    store = open_store(url, SetClock())
    found = store.info().location
    store.close()
    return found


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:///agent.db", "agent.db"),
        ("sqlite:///./agent.db", "agent.db"),
        ("agent.db", "agent.db"),
        ("./agent.db", "agent.db"),
        ("agent", "agent"),
        ("with space.db", "with space.db"),
        ("sqlite:///with%20space.db", "with space.db"),
        ("100%.db", "100%.db"),
        ("sqlite", "sqlite"),
        ("a:b.db", "a:b.db"),
    ],
)
def test_a_relative_path_is_a_file_beside_the_current_directory(here: Path, url: str, name: str) -> None:
    assert location(url) == str(here / name)
    assert (here / name).exists()


def test_four_slashes_are_an_absolute_path(here: Path) -> None:
    assert location(f"sqlite:///{here}/deep.db") == f"{here}/deep.db"
    assert location(f"{here}/plain.db") == f"{here}/plain.db"


def test_a_file_may_be_opened_to_be_read(here: Path) -> None:
    open_store("agent.db", SetClock()).close()
    store = open_store("sqlite:///agent.db", SetClock(), read_only=True)
    assert isinstance(store, SqliteStore)
    with pytest.raises(ReadOnlyStore):
        store.transact([StartRun(run=run_row("x"))])
    store.close()


def test_memory_without_a_name_is_a_new_store_each_time() -> None:
    clock = SetClock()
    first, second = open_store("memory://", clock), open_store("memory://", clock)
    first.transact([StartRun(run=run_row("x"))])
    assert isinstance(first, MemoryStore)
    assert second.run("x") is None


def test_memory_with_a_name_is_shared_in_the_process() -> None:
    clock = SetClock()
    open_store("memory://shared-by-name", clock).transact([StartRun(run=run_row("x"))])
    again = open_store("memory://shared-by-name", clock)
    assert again.run("x") is not None
    assert again.info().location == "memory://shared-by-name"
    assert open_store("memory://other-name", clock).run("x") is None


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:///:memory:", "use memory://"),
        (":memory:", "use memory://"),
        ("sqlite://", "three: sqlite:///"),
        ("sqlite://agent.db", "three: sqlite:///agent.db"),
        ("sqlite:///", "names no file"),
        ("", "names no file"),
        ("folder/", "names no file"),
        ("sqlite:///agent.db?mode=ro", "no.* options|options after"),
        ("postgresql://db/agents?nonsense=1", "libpq"),
        ("postgres://db/agents?schema=", "1 to 63 bytes"),
        ("postgres://db/agents?schema=pg_mine", "not beginning with pg_"),
        ("mysql://db/agents", "sqlite:///relative.db.*memory://"),
        ("redis://", "sqlite:///relative.db.*memory://"),
        ("a\0b", "NUL"),
        ("sqlite:/x", "sqlite:/x is no path, and as a URL it lacks slashes after sqlite:; it takes sqlite:///"),
        ("sqlite:agent.db", "is no path"),
        ("SQLite:agent.db", "is no path"),
        ("memory:", "is no path"),
        ("postgresql:agents", "is no path"),
        ("file:agent.db", "is no path"),
    ],
)
def test_what_means_nothing_says_what_does(here: Path, url: str, says: str) -> None:
    with pytest.raises(WrongUse, match=says):
        open_store(url, SetClock())
    assert list(here.iterdir()) == []


def test_no_password_is_shown() -> None:
    for scheme in ("postgresql", "mysql"):
        with pytest.raises(WrongUse) as caught:
            open_store(f"{scheme}://ann:se@cret@db/agents", SetClock())
        assert "cret" not in str(caught.value)
        assert f"{scheme}://ann" in str(caught.value)
