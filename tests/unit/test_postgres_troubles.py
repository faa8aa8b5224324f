"""A database that refuses for a while (read-only, full, in conflict with others, missing), and goes on afterwards."""

from __future__ import annotations

import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from outlast.core.errors import ReadOnlyStore, StoreUnavailable, WrongUse
from outlast.runtime.clock import SystemClock
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.address import parse
from outlast.stores.postgres.schema import MIGRATIONS
from outlast.stores.verbs import Done, Finish, Started, StartRun
from tests.conformance.world import SetClock, World, finish, message, park, record, run_row, write
from tests.support.postgres import drop, open_with_given_times, with_schema
from tests.support.server import Server, run_as_server

ROOT = Path(__file__).parents[2]
CHUNK = secrets.token_bytes(50_000)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Return a server of these tests' own."""
    with Server() as made:
        made.make().start()
        yield made


def world_on(server: Server, *options: str) -> World:
    clock = SetClock()
    url = "&".join([server.url, f"schema=s{secrets.token_hex(6)}", *options])
    return World(open_with_given_times(url, clock), clock)


# -- limits ------------------------------------------------------------------------


def test_every_limit_can_be_said_in_the_url() -> None:
    url = "postgresql://db/a?statement_timeout=60&lock_timeout=0&idle_timeout=1.5&answer_timeout=2&open_timeout=90"
    limits = parse(url).limits
    assert (limits.statement_timeout, limits.lock_timeout, limits.idle_timeout) == (60.0, 0.0, 1.5)
    assert (limits.usual_wait, limits.long_wait, limits.open_timeout) == (2.0, 62.0, 90.0)


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan", ""])
def test_a_limit_that_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(WrongUse, match=r"lock_timeout=.*it takes a number of seconds"):
        parse(f"postgresql://db/a?lock_timeout={text}")


def test_a_row_that_somebody_holds_is_waited_for_no_longer_than_the_limit(server: Server) -> None:
    world = world_on(server)
    run = world.running()
    impatient = open_with_given_times(f"{server.url}&schema={world.store.address.schema}&lock_timeout=0.1", world.clock)
    with psycopg.connect(server.url) as other:
        other.execute(f"SELECT 1 FROM {world.store.address.schema}.workers FOR UPDATE".encode())
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            impatient.transact([write(run, record(1))])
    assert impatient.transact([write(run, record(1))]) == [Done()]
    impatient.close()
    world.store.close()


@pytest.mark.parametrize("use", [lambda w: w.do(StartRun(run=run_row("y"))), lambda w: w.store.run("run")])
def test_a_session_that_hangs_is_given_up_and_another_one_asked(server: Server, use: Callable[[World], Any]) -> None:
    """Its process was stopped, and its connection stays open."""
    world = world_on(server, "answer_timeout=0.5&application_name=hangs")
    world.running()
    world.get(1)
    asked = "SELECT pid FROM pg_stat_activity WHERE application_name = 'hangs'"
    backends = [psutil.Process(pid) for (pid,) in server.execute(asked)]
    for backend in backends:
        backend.suspend()
    try:
        assert use(world) is not None
    finally:
        for backend in backends:
            backend.resume()
        world.store.close()


# -- a database that is not there -------------------------------------------------------


def test_a_store_waits_for_its_database_as_long_as_the_url_says() -> None:
    with Server() as late:
        late.make()
        opened: list[PostgresStore] = []
        opener = threading.Thread(
            target=lambda: opened.append(PostgresStore(f"{late.url}&open_timeout=60", SystemClock()))
        )
        with pytest.raises(StoreUnavailable, match="cannot open"):
            PostgresStore(late.url, SystemClock())
        opener.start()
        late.start()
        opener.join()
        assert opened[0].check() == []
        opened[0].close()


def test_a_store_waits_for_a_database_that_is_yet_to_be_created(server: Server) -> None:
    url = server.url.replace("/postgres?", "/later?")
    opened: list[PostgresStore] = []
    opener = threading.Thread(target=lambda: opened.append(PostgresStore(f"{url}&open_timeout=60", SystemClock())))
    opener.start()
    server.execute("CREATE DATABASE later")
    opener.join()
    opened[0].close()


# -- a database that refuses ----------------------------------------------------------------


def test_a_primary_that_turns_read_only_says_so_and_is_written_again_afterwards(server: Server) -> None:
    world = world_on(server)
    run = world.running()
    server.read_only(True)
    try:
        until_read_only(world)
        for _ in range(2):
            with pytest.raises(ReadOnlyStore, match="the server is read-only"):
                world.do(write(run, record(1)))
        assert world.get(run.pk) == run
    finally:
        server.read_only(False)
    while True:
        try:
            assert world.do(write(run, record(1))) == Done()
        except ReadOnlyStore:  # a session learns of new settings when it is next spoken to
            continue
        break
    assert [r.seq for r in world.store.records(run.pk)] == [1]
    world.store.close()


def until_read_only(world: World) -> None:
    """Start runs until that is refused."""
    while True:
        try:
            world.do(StartRun(run=run_row(f"r{secrets.token_hex(4)}")))
        except ReadOnlyStore:
            return


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Return a file system of 3 MB that the server may write to."""
    place = Path(tempfile.mkdtemp(prefix="outlast-disk-"))
    place.chmod(0o755)
    command = ["mount", "-t", "tmpfs", "-o", "size=3m,mode=777", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small file system")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    place.rmdir()


def test_a_full_disk_loses_nothing_and_work_goes_on_with_space(server: Server, small_disk: Path) -> None:
    space, ballast = small_disk / "space", small_disk / "ballast"
    run_as_server("mkdir", str(space))
    world = world_on(server)
    run = world.running()
    schema = world.store.address.schema
    server.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
    server.execute(f"ALTER TABLE {schema}.records SET TABLESPACE small")
    server.execute(f"ALTER TABLE {schema}.records ALTER COLUMN value SET STORAGE EXTERNAL")
    ballast.write_bytes(b"x" * 1_000_000)
    seq = 0
    with pytest.raises(StoreUnavailable, match="is full; nothing acknowledged is lost"):  # noqa: PT012
        while True:
            assert world.do(write(run, record(seq + 1, value=CHUNK))) == Done()
            seq += 1
    assert world.do(park(run)) == Done()  # what needs no more space goes on
    ballast.unlink()
    world.do(message())
    (run,) = world.claim()
    assert world.do(write(run, record(seq + 1, value=CHUNK))) == Done()
    assert len(world.store.records(run.pk)) == seq + 1
    server.execute(f"DROP SCHEMA {schema} CASCADE")
    server.execute("DROP TABLESPACE small")
    world.store.close()


# -- conflicts ------------------------------------------------------------------------------


FAIL_ONCE = """
CREATE SEQUENCE {schema}.conflicts;
CREATE FUNCTION {schema}.conflict() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('{schema}.conflicts') <= {times} THEN RAISE EXCEPTION 'in conflict' USING ERRCODE = '{code}'; END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER conflict AFTER INSERT OR UPDATE ON {schema}.{table} {when}
    FOR EACH ROW EXECUTE FUNCTION {schema}.conflict();
"""


@pytest.mark.parametrize("code", ["40001", "40P01"], ids=["serialization failure", "deadlock"])
@pytest.mark.parametrize("when", ["", "DEFERRABLE INITIALLY DEFERRED"], ids=["in a statement", "at COMMIT"])
@pytest.mark.parametrize("table", ["records", "runs"])
def test_a_transaction_that_met_another_is_done_again(server: Server, code: str, when: str, table: str) -> None:
    world = world_on(server)
    run = world.running()
    world.do(write(run, record(1)))  # from now on its records are written in a single statement
    trouble = FAIL_ONCE.format(schema=world.store.address.schema, code=code, when=when, table=table, times=2)
    server.execute(trouble)
    assert world.do(write(run, record(2))) == Done()
    assert world.store.transact([write(run, record(3)), finish(run, last_seq=3)]) == [Done(), Done()]
    assert [r.seq for r in world.store.records(run.pk)] == [1, 2, 3]
    world.store.close()


def test_the_victim_of_a_real_deadlock_is_done_again(server: Server) -> None:
    world = world_on(server)
    run = world.running()
    schema = world.store.address.schema
    mine = open_with_given_times(f"{server.url}&schema={schema}&options=-c%20deadlock_timeout%3D20ms", world.clock)
    with psycopg.connect(server.url, options="-c deadlock_timeout=20s") as other:
        other.execute(f"SELECT 1 FROM {schema}.runs FOR UPDATE".encode())
        ends = Finish(worker="w1", run=run.pk, claim=run.claim, status=finish(run).status, last_seq=0, result=b"42")
        answers: list[object] = []
        ending = threading.Thread(target=lambda: answers.extend(mine.transact([ends])))
        ending.start()
        wait_for_a_lock(server)
        other.execute(f"SELECT 1 FROM {schema}.workers FOR UPDATE".encode())  # held by the other, which waits for us
    ending.join()
    assert answers == [Done()]
    mine.close()
    world.store.close()


def wait_for_a_lock(server: Server) -> None:
    while server.execute("SELECT count(*) FROM pg_locks WHERE NOT granted") == [(0,)]:
        pass


# -- two versions ----------------------------------------------------------------------------


def test_a_store_of_the_older_version_goes_on_while_a_newer_one_alters_the_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from outlast.stores.postgres import schema as module  # noqa: PLC0415 - to be altered

    name = f"test_{secrets.token_hex(6)}"
    older = PostgresStore(with_schema(name), SystemClock())
    started = [older.transact([StartRun(run=run_row(f"r{n}"))])[0] for n in range(4)]  # its statements are prepared
    assert all(older.run(f"r{n}") for n in range(4))
    with monkeypatch.context() as patch:
        newest = "ALTER TABLE runs ADD COLUMN shade text NOT NULL DEFAULT ''; ALTER TABLE runs DROP COLUMN shade;"
        patch.setattr(module, "MIGRATIONS", (*module.MIGRATIONS, newest))
        newer = PostgresStore(with_schema(name), SystemClock())
    assert isinstance(started[0], Started)
    for n in range(4):
        assert older.run(f"r{n}") == newer.run(f"r{n}")
        (again,) = older.transact([StartRun(run=run_row(f"later{n}"))])
        assert isinstance(again, Started)
        assert newer.run(f"later{n}") is not None
    older.close()
    newer.close()
    drop(name)


@pytest.mark.parametrize("older", [False, True], ids=["no tables", "older tables"])
def test_ten_processes_that_start_at_once_migrate_once(older: bool) -> None:
    name = f"test_{secrets.token_hex(6)}"
    if older:
        PostgresStore(with_schema(name), SystemClock()).close()
    command = [sys.executable, "-m", "tests.unit.postgres_openers", with_schema(name), "10"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [f"version {len(MIGRATIONS) + 1}"] * 10
    drop(name)
