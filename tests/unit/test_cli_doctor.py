"""`outlast doctor`: what is wrong in a store, why, and what to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from outlast.cli import diagnosis
from outlast.cli.exits import ExitCode
from outlast.core.records import Kind, Record
from outlast.core.schedule_rows import ScheduleRow
from outlast.core.transitions import Reason, Status
from outlast.stores.time_verbs import PutSchedule
from outlast.stores.verbs import Finish, Park, Send
from tests.unit.outlast_command import Outlast
from tests.unit.past import Past, change, findings


def test_a_store_where_all_is_well(command: Outlast, past: Past) -> None:
    past.start("r")
    past.register()
    row = past.claim()
    past.store.transact(
        [Finish(worker="w", run=row.pk, claim=row.claim, status=Status.SUCCEEDED, last_seq=0, result=b"1")]
    )
    assert findings(command, "--check") == []
    text = command.here("doctor").stdout
    assert "all is well" in text
    assert str(command.store) in text
    assert "SQLite" in text
    assert "1 succeeded" in text
    store = json.loads(command.here("doctor", "--json").stdout)["store"]
    assert (store["kind"], store["counts"]) == ("sqlite", {"succeeded": 1})
    assert store["size_bytes"] > 0


def test_an_empty_store_is_well(command: Outlast, past: Past) -> None:
    assert findings(command) == []
    assert "runs     none" in command.here("doctor").stdout
    assert "workers  none" in command.here("doctor").stdout


@pytest.mark.parametrize(
    ("reason", "do"),
    [
        (Reason.DIVERGED, "outlast resume r --url"),
        (Reason.CRASH_LOOP, "outlast resume r --url"),
        (Reason.UNDECODABLE, "outlast resume r --url"),
    ],
)
def test_a_stuck_run_comes_with_what_to_do(command: Outlast, past: Past, reason: Reason, do: str) -> None:
    past.stick("r", reason)
    (finding,) = findings(command)
    assert finding["needs_person"]
    assert finding["what"] == f"run r (fulfil) is stuck: {reason.value}: so it is"
    assert finding["runs"] == ["r"]
    assert any(do in line for line in finding["do"])


def test_a_run_in_doubt_comes_with_the_commands_that_decide_it(command: Outlast, past: Past) -> None:
    now = past.store.now()
    records = [
        Record(seq=1, kind=Kind.INTENT, key="main/a#1", at=now, name="a", attempt=1, effect="once", args=b'["x"]'),
        Record(seq=2, kind=Kind.STEP, key="main/a#1", at=now, name="a", attempt=1, effect="once", value=b"1"),
        Record(
            seq=3,
            kind=Kind.INTENT,
            key="main/charge#1",
            at=now,
            name="charge",
            attempt=2,
            effect="once",
            args=b'[[7],{"cents":700}]',
        ),
    ]
    past.stick("order 55", Reason.IN_DOUBT, *records)
    (finding,) = findings(command)
    text = "\n".join(finding["do"])
    assert "main/a#1" not in text
    assert "its arguments: (7, cents=700)" in text
    assert "idempotency key" in text
    for decision in ("--happened JSON", "--did-not-happen", "--fail"):
        assert f"outlast resolve 'order 55' 'main/charge#1' --attempt 2 {decision} --url" in text
    shown = command.here("show", "order 55").stdout
    assert "--attempt 2 --did-not-happen" in shown
    assert "charge#1" in shown


def test_due_runs_that_no_worker_claims_are_found(command: Outlast, past: Past) -> None:
    past.clock.ago = 100
    past.start("old")
    past.clock.ago = 50
    past.start("newer")
    past.start("mail-1", "mail")
    past.clock.ago = 0
    past.start("just now", "young")
    (missing,) = findings(command)
    why, orders, *others = missing["what"].split("\n")
    assert why == "no worker is alive:"
    assert orders.startswith("  2 runs of fulfil due and not claimed, old since 1 min 4")
    assert [line.partition(" since ")[0] for line in others] == [
        "  1 run of young due and not claimed, just now",
        "  1 run of mail due and not claimed, mail-1",
    ]
    assert set(missing["runs"]) == {"old", "newer", "mail-1", "just now"}
    assert missing["do"] == ["start a worker, where its code is:", f"  outlast worker shop --url {command.store}"]
    past.register("w", "mail", "step:mail", "young")
    orders, mail = findings(command)  # what is due since just now is claimed soon
    assert orders["what"].endswith("no living worker knows fulfil")
    assert orders["needs_person"]
    assert orders["do"][-1] == "or: renamed? give the new one the old name: @workflow(name='fulfil')"
    assert mail["what"].endswith("the workers that know it are full")
    assert not mail["needs_person"]
    assert "SERVES" in command.here("doctor").stdout
    (worker,) = json.loads(command.here("doctor", "--json").stdout)["workers"]
    assert worker["serves"] == ["mail", "step:mail", "young"]


def test_a_missing_worker_has_one_command_whatever_it_would_have_to_do(command: Outlast, past: Past) -> None:
    for name in ("a", "b", "c"):
        past.start(name)
        past.start(f"mail-{name}", f"mail_{name}", "post")
    past.register("old", "fulfil")
    past.claim("old")
    change(command, "UPDATE workers SET lease_until = lease_until - 1000")
    first, second = findings(command)
    shop, post = sorted((first, second), key=lambda finding: "mail" in finding["what"])
    why, fulfil, dead = shop["what"].split("\n")
    assert why == "no worker is alive:"
    assert fulfil.startswith("  2 runs of fulfil due and not claimed, b since")
    assert dead == "  worker old is expired and holds 1 run"
    assert set(shop["runs"]) == {"a", "b", "c"}
    assert post["what"].count("\n  1 run of mail_") == 3
    printed = command.here("doctor").stdout
    assert printed.count("outlast worker shop") == printed.count("outlast worker post") == 1
    past.register("new", "fulfil")
    post = findings(command)[0]
    assert post["what"].startswith("no living worker knows mail_a, mail_b, mail_c:\n")
    assert len([line for line in post["do"] if line.startswith("or: renamed?")]) == 3


@pytest.mark.parametrize("due_in", [3600.0, None], ids=["a timer", "a person"])
def test_runs_that_wait_where_no_worker_is_alive_need_a_person(
    command: Outlast, past: Past, due_in: float | None
) -> None:
    past.register("w", "fulfil")
    past.start("r")
    row = past.claim()
    due = None if due_in is None else past.store.now() + due_in
    past.store.transact([Park(worker="w", run=row.pk, claim=row.claim, due=due, detail="what is to come")])
    assert findings(command) == []
    change(command, "UPDATE workers SET lease_until = lease_until - 1000")
    (finding,) = findings(command)
    assert finding["needs_person"]
    assert finding["what"].startswith("1 run of fulfil waiting, r since ")
    assert finding["what"].endswith(": no worker is alive")
    assert finding["do"] == ["start a worker, where its code is:", f"  outlast worker shop --url {command.store}"]
    assert command.json("show", "r")["advice"][0].startswith("no worker is alive; start one")


def test_a_run_is_listed_in_one_line_and_has_no_parent_where_it_has_none(command: Outlast, past: Past) -> None:
    past.stick("r", Reason.DIVERGED)
    change(command, "UPDATE runs SET detail = 'the journal says a' || char(10) || 'and the code b'")
    assert "the journal says a and the code b" in command.here("runs").stdout
    assert command.json("runs")[0]["parent"] is command.json("show", "r")["run"]["parent"] is None


def test_show_says_so_too(command: Outlast, past: Past) -> None:
    past.start("r")
    advice = ["no worker is alive; start one, where its code is:", f"  outlast worker shop --url {command.store}"]
    assert command.json("show", "r")["advice"] == advice
    assert advice[1] in command.here("show", "r").stdout
    past.register("w", "mail")
    renamed = "or: renamed? give the new one the old name: @workflow(name='fulfil')"
    moved = ["or have another workflow take it:", f"  outlast move fulfil NEW --id r --url {command.store}"]
    unknown = "no living worker knows fulfil; start one, where its code is:"
    assert command.json("show", "r")["advice"] == [unknown, advice[1], *moved, renamed]
    past.register("w2", "fulfil")
    assert command.json("show", "r")["advice"] == []


def test_show_says_that_the_worker_of_a_run_is_gone_and_no_other_is_there(command: Outlast, past: Past) -> None:
    past.start("r")
    past.register("w", "fulfil")
    past.claim()
    assert command.json("show", "r")["advice"] == []
    shown = command.here("show", "r").stdout
    assert "  worker    w\n" in shown
    change(command, "UPDATE workers SET lease_until = lease_until - 1000")
    shown = command.here("show", "r").stdout
    assert "  worker    w (expired)\n" in shown
    assert "its worker is expired, and no worker is alive; start one, where its code is:" in shown
    assert command.json("show", "r")["advice"][1] == f"  outlast worker shop --url {command.store}"
    waited = command.here("result", "r", "--timeout", "2.5")
    assert waited.stderr.startswith(
        "run r waits for a worker: its worker is expired, and no worker is alive; start one"
    )


def test_a_queue_before_workers_that_are_full_needs_nobody(command: Outlast, past: Past) -> None:
    past.clock.ago = 100
    past.start("first")
    past.start("second")
    past.clock.ago = 0
    past.register("w", "fulfil")
    past.claim()
    (finding,) = findings(command)
    assert "the workers that know it are full" in finding["what"]
    assert finding["runs"] == ["second"]
    assert not finding["needs_person"]


def test_an_expired_lease_without_a_living_worker_needs_a_person(command: Outlast, past: Past) -> None:
    past.start("r")
    past.register()
    past.claim()
    change(command, "UPDATE workers SET lease_until = lease_until - 1000")
    (finding,) = findings(command)
    assert finding["what"] == "worker w is expired and holds 1 run: no worker is alive"
    assert finding["needs_person"]
    assert finding["do"] == ["start a worker, where its code is:", f"  outlast worker shop --url {command.store}"]
    past.register("living")
    (finding,) = findings(command)
    assert "a living worker takes them over" in finding["what"]
    assert not finding["needs_person"]
    workers = {worker["id"]: worker for worker in json.loads(command.here("doctor", "--json").stdout)["workers"]}
    assert workers["w"]["state"] == "expired"
    assert workers["w"]["lease_left_s"] < 0 < workers["living"]["lease_left_s"]
    assert workers["living"]["pid"] == os.getpid()


def test_a_worker_from_before_the_machine_started_is_dead(command: Outlast, past: Past) -> None:
    past.start("r")
    past.register()
    past.claim()
    change(command, "UPDATE workers SET boot = 'another start'")
    (finding,) = findings(command)
    assert "worker w is dead" in finding["what"]


def test_an_owner_that_the_store_does_not_know_is_found(command: Outlast, past: Past) -> None:
    past.start("r")
    past.register()
    past.claim()
    change(command, "DELETE FROM workers")
    (finding,) = findings(command)
    assert "worker w is unknown to the store and holds 1 run" in finding["what"]


def test_a_killed_worker_is_seen_at_once_by_its_lock_file(command: Outlast) -> None:
    assert command("start", "agent.py:slow", '["never"]', "--id", "r").returncode == 0
    with command.process("worker", "agent.py", "--lease", "600") as worker:
        worker.wait_for("step began")
        alive = json.loads(command.here("doctor", "--json").stdout)
        assert [(w["state"], w["pid"]) for w in alive["workers"]] == [("alive", worker.pid)]
        assert alive["oldest_running"]["id"] == "r"
        assert "oldest running: r (slow)" in command.here("doctor").stdout
        worker.signal(signal.SIGKILL)
        worker.exit_code()
    (finding,) = findings(command)
    assert "is dead and holds 1 run: no worker is alive" in finding["what"]


HOLDER = """
import os, signal, sys
import apsw
db = apsw.Connection(sys.argv[1])
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_stopped_process_that_holds_the_write_lock_is_named(command: Outlast, past: Past) -> None:
    past.start("r")
    past.store.close()
    argv = [sys.executable, "-c", HOLDER, str(command.store)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            os.waitid(os.P_PID, holder.pid, os.WSTOPPED)
            finding, overdue = findings(command)
            assert overdue["runs"] == ["r"]
            assert f"process {holder.pid} holds the lock and is stopped" in finding["what"]
            assert finding["needs_person"]
        finally:
            holder.kill()


def test_messages_for_runs_that_nobody_starts_are_found(command: Outlast, past: Past) -> None:
    past.clock.ago = 7200
    past.start("there")
    for run, name in (("ordr-1", "paid"), ("ordr-1", "address"), ("order-2", "paid")):
        past.store.transact([Send(id=run, kind=Kind.MESSAGE, key=name, message_id=name, value=b"1", early=True)])
    found = findings(command)[-1]
    assert found["what"] == "3 messages wait for runs that nobody has started, 'paid' for ordr-1 since 2 h"
    assert found["runs"] == ["ordr-1", "order-2"]
    assert not found["needs_person"]
    said = command.here("show", "ordr-1")
    assert said.exit_code == ExitCode.NOT_FOUND
    assert "2 messages ('paid', 'address') wait for it to be started, since 2 h" in said.stderr
    assert "`outlast runs` lists them" in command.here("show", "order-3").stderr


def test_check_finds_damage(command: Outlast, past: Past) -> None:
    past.stick("r", Reason.DIVERGED, Record(seq=1, kind=Kind.TIMER, key="main/!timer#1", at=1.0, due=1.0))
    change(command, "PRAGMA foreign_keys = OFF; UPDATE records SET run = 4711")
    assert len(findings(command)) == 1
    damage = findings(command, "--check")[-1]
    assert "4711" in damage["what"]
    assert damage["needs_person"]


def test_more_runs_than_doctor_looks_at_are_said(command: Outlast, past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "MOST_RUNS", 3)
    monkeypatch.setattr(diagnosis, "PAGE", 2)
    past.clock.ago = 100
    for n in range(3):
        past.start(f"r{n}")
    assert json.loads(command.here("doctor", "--json").stdout)["looked_at_all"] is True
    past.start("r3")
    found = json.loads(command.here("doctor", "--json").stdout)
    assert found["looked_at_all"] is False
    assert found["findings"][0]["what"].startswith("3 runs of fulfil")
    assert found["lags"][0]["waits_s"] == pytest.approx(100, abs=20)
    assert (found["lags"][0]["runs"], found["lags"][0]["oldest"]) == (3, None)
    assert "so long a run of fulfil waits, the first of at least 3 runs due" in command.here("doctor").stdout


def test_a_schedule_whose_slot_no_living_worker_can_start_is_found(command: Outlast, past: Past) -> None:
    def put(name: str, workflow: str, due: float | None) -> None:
        row = ScheduleRow(name=name, spec="{}", workflow=workflow, definition=f"shop:{workflow}", next=due)
        past.store.transact([PutSchedule(schedule=row)])

    now = past.store.now()
    put("nightly", "sweep", now - 3600)
    put("later", "sweep", now + 3600)
    put("paused", "sweep", None)
    put("served", "fulfil", now - 3600)
    (alone, served) = findings(command)
    assert alone["what"] == "schedule nightly stands still since 1 h: no worker is alive"
    assert served["what"].startswith("schedule served stands still")
    past.register("w", "fulfil")
    (finding,) = findings(command)
    assert finding["needs_person"]
    assert finding["what"].endswith(": no living worker knows sweep")
    assert finding["do"][1].startswith("  outlast worker shop --url")
    assert any("outlast schedules delete nightly" in line for line in finding["do"])
    assert "@workflow(name='sweep')" in finding["do"][-1]
