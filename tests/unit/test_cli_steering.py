"""`outlast hold`, `release`, `move` and `cancel --force`, and what `doctor` and `show` say of it."""

from __future__ import annotations

import json

from outlast.cli.exits import ExitCode
from outlast.core.records import Kind, Record
from outlast.core.transitions import Reason, Status
from outlast.stores.verbs import Cancel, Park, Write
from tests.unit.outlast_command import Outlast
from tests.unit.past import Past, findings


def test_runs_are_held_and_given_free_and_doctor_says_how(command: Outlast, past: Past) -> None:
    past.register("w", "fulfil")
    past.start("one")
    past.start("two")
    assert command.here("hold", "one").stdout == "1 run held back\n"
    assert json.loads(command.here("hold", "--workflow", "fulfil", "--json").stdout) == {"held": 1}
    (finding,) = findings(command)
    assert not finding["needs_person"]
    assert finding["what"] == "2 runs held back, of version no version (2)"
    assert finding["runs"] == ["two", "one"]
    assert "outlast release" in finding["do"][1]
    assert "outlast release one" in command.here("show", "one").stdout
    assert json.loads(command.here("release", "--workflow", "fulfil", "--json").stdout) == {"released": 2}
    assert findings(command) == []


def test_holding_all_there_is_is_refused(command: Outlast, past: Past) -> None:
    past.start("one")
    said = command.here("hold")
    assert said.exit_code == 2
    assert said.stderr.startswith("error: this would hold every run there is; say which: RUN, --workflow or --version")
    assert "this would release every run" in command.here("release").stderr


def test_a_run_that_waits_and_that_no_worker_knows_is_found_and_moved_by_one_command(
    command: Outlast, past: Past
) -> None:
    past.register("w", "fulfil_order")
    past.start("one")
    row = past.claim()
    past.store.transact([Park(worker="w", run=row.pk, claim=row.claim, due=None, detail="a message 'paid'")])
    (finding,) = findings(command)
    assert finding["needs_person"]
    assert finding["what"].startswith("1 run of fulfil waiting, one since ")
    assert finding["what"].endswith("no living worker knows it")
    assert any("outlast move fulfil NEW" in line for line in finding["do"])
    assert command.here("move", "fulfil", "fulfil_order").stdout == "1 run moved from fulfil to fulfil_order\n"
    assert findings(command) == []


def test_a_move_can_be_taken_back_where_the_other_has_runs_of_its_own(command: Outlast, past: Past) -> None:
    past.register("w", "old", "new")
    past.start("moved", workflow="old")
    past.start("born", workflow="new")
    assert command.here("move", "old", "new").exit_code == 0
    back = command.here("move", "new", "old", "--id", "moved")
    assert (back.exit_code, back.stdout, back.stderr) == (0, "1 run moved from new to old\n", "")
    again = command.here("move", "new", "old", "--id", "moved", "--id", "born")
    assert again.exit_code == 2
    assert again.stdout == "1 run moved from new to old\n"
    assert again.stderr == "error: run moved was not moved: it is pending, a run of old\n"
    assert command.here("move", "new", "old", "--id", "nobody").exit_code == 3
    assert command.here("move", "new", "old", "--id", "born", "--version", "v1").exit_code == 2


def test_a_move_to_what_nobody_executes_says_so_and_how_to_go_back(command: Outlast, past: Past) -> None:
    past.start("one")
    said = command.here("move", "fulfil", "fulfil_ordr")
    assert said.stderr.startswith("no worker is alive, so nobody executes what was moved; to move it back: ")
    past.register("w", "fulfil")
    assert command.here("move", "fulfil_ordr", "fulfil").stderr == ""
    said = command.here("move", "fulfil", "fulfil_ordr", "--id", "one")
    assert "no living worker knows fulfil_ordr" in said.stderr
    assert "outlast move fulfil_ordr fulfil --id one" in said.stderr


def test_show_and_doctor_offer_the_same_for_a_renamed_workflow(command: Outlast, past: Past) -> None:
    past.register("w", "fulfil_order")
    past.start("one")
    shown = command.here("show", "one").stdout
    assert "outlast move fulfil NEW --id one" in shown
    assert "renamed? give the new one the old name" in shown
    (finding,) = findings(command)
    assert any("outlast move fulfil NEW" in line for line in finding["do"])


def test_a_run_is_ended_by_force_and_what_may_have_happened_is_named(command: Outlast, past: Past) -> None:
    past.register()
    past.start("one")
    row = past.claim()
    intent = Record(
        seq=1, kind=Kind.INTENT, key="main/pay#1", at=past.store.now(), name="pay", attempt=1, effect="once"
    )
    past.store.transact([Write(worker="w", run=row.pk, claim=row.claim, records=(intent,)), Cancel(id="one")])
    assert "cancelling" in command.here("show", "one").stdout
    said = command.here("cancel", "one", "--force")
    assert said.stdout == "run one is cancelled\n"
    assert "whether main/pay#1 took place is not known" in said.stderr
    again = json.loads(command.here("cancel", "one", "--force", "--json").stdout)
    assert again == {"id": "one", "status": "cancelled", "in_doubt": ["main/pay#1"]}
    ended = past.store.run("one")
    assert ended
    assert (ended.status, ended.detail) == (Status.CANCELLED, "cancelled by force")


def test_runs_are_listed_by_the_version_of_their_code(command: Outlast, past: Past) -> None:
    past.start("one")
    listed = json.loads(command.here("runs", "--version", "v9", "--json").stdout)
    assert listed == []


def test_a_resume_that_nobody_takes_up_is_told_and_one_that_a_worker_knows_is_not(command: Outlast, past: Past) -> None:
    past.stick("one", Reason.CRASH_LOOP)
    assert "no living worker knows fulfil; start one: outlast worker" in command.here("resume", "one").stderr
    assert command.here("resume", "one", "--json").exit_code == ExitCode.WRONG_USE  # it is pending by now
    past.register("w", "fulfil")
    assert command.here("cancel", "one").stderr == ""
