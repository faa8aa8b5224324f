"""A user who lacks a right is told which one, on which table of which database, and what grants it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from outlast import Notice, workflow
from outlast.core.errors import ReadOnlyStore, StoreUnavailable
from outlast.runtime.clock import SystemClock
from outlast.stores.postgres import PostgresStore
from outlast.stores.verbs import StartRun
from outlast.sync import App
from tests.conformance.world import run_row
from tests.support.postgres import drop, server_url, with_schema


@workflow
async def flow() -> str:
    return "done"


@dataclass
class Guest:
    """A user with the rights that the owner of a store grants."""

    schema: str
    role: str

    @property
    def url(self) -> str:
        return f"{with_schema(self.schema)}&user={self.role}"

    def grant(self, *rights: str, of: str = "GRANT {} TO {}") -> None:
        with psycopg.connect(server_url(), autocommit=True) as db:
            for right in rights:
                db.execute(of.format(right.replace("S.", f"{self.schema}."), self.role).encode())

    def revoke(self, *rights: str) -> None:
        self.grant(*rights, of="REVOKE {} FROM {}")


@pytest.fixture
def guest() -> Iterator[Guest]:
    """Return a user who may look at a store, and nothing else."""
    schema = f"test_{secrets.token_hex(6)}"
    made = Guest(schema, f"guest_{schema}")
    PostgresStore(with_schema(schema), SystemClock()).close()
    made.grant("", of=f"CREATE ROLE {made.role} LOGIN")
    made.grant(f"USAGE ON SCHEMA {schema}", f"SELECT ON ALL TABLES IN SCHEMA {schema}")
    yield made
    drop(schema)
    made.grant("", of=f"DROP ROLE {made.role}")


def test_who_may_only_look_is_told_what_is_missing(guest: Guest) -> None:
    store = PostgresStore(guest.url, SystemClock())
    assert store.run("x") is None
    with pytest.raises(ReadOnlyStore) as told:
        store.transact([StartRun(run=run_row("x"))])
    text = str(told.value)
    assert guest.role in text
    assert f"INSERT, UPDATE, DELETE on {guest.schema}.runs" in text
    assert text.endswith(
        f'let their owner GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{guest.schema}" TO "{guest.role}"'
    )
    guest.grant(f"INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {guest.schema}")
    store.transact([StartRun(run=run_row("x"))])
    assert store.run("x") is not None
    store.close()


def test_one_right_on_one_table_is_named(guest: Guest) -> None:
    guest.grant(f"INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {guest.schema}")
    guest.revoke("INSERT ON S.runs")
    store = PostgresStore(guest.url, SystemClock())
    with pytest.raises(ReadOnlyStore, match=f"lacks INSERT on {guest.schema}.runs; let their owner"):
        store.transact([StartRun(run=run_row("x"))])
    store.close()


@pytest.mark.parametrize(
    ("right", "says"),
    [("SELECT ON S.runs", "lacks SELECT.* on S.runs"), ("USAGE ON SCHEMA {}", "lacks USAGE of schema S; ")],
)
def test_who_may_not_look_is_told_what_is_missing(guest: Guest, right: str, says: str) -> None:
    store = PostgresStore(guest.url, SystemClock())
    guest.grant(f"INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {guest.schema}")
    guest.revoke(right.replace("{}", guest.schema))
    with pytest.raises(
        StoreUnavailable, match=says.replace("S.", f"{guest.schema}.").replace("S;", f"{guest.schema};")
    ):
        store.run("x")
    store.close()


def test_a_worker_says_it_in_a_line_and_goes_on_once_the_right_is_granted(
    guest: Guest, caplog: pytest.LogCaptureFixture
) -> None:
    rights = f"INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {guest.schema}"
    heard: list[str] = []

    def listen(notice: Notice) -> None:
        if notice.name == "store.unavailable":
            heard.append(notice.data["error"])
            guest.grant(rights)

    guest.grant(rights)
    with App(guest.url, on_event=listen), App(with_schema(guest.schema), worker=False) as owner:
        guest.revoke(rights)
        assert owner.start(flow()).result() == "done"
    assert len(heard) == 1
    assert guest.role in heard[0]
    assert f"on {guest.schema}.runs" in heard[0]
    assert "Traceback" not in caplog.text
    assert "failed" not in caplog.text
