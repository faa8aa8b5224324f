"""The example `examples/support_graph`, as its README says, with its workers killed in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outlast import sync
from tests.adapters.stand_in import Asked, Reply, StandIn, ToolCall, serving

EXAMPLE = Path(__file__).parents[3] / "examples" / "support_graph"


class Support:
    """The processes of the example."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'support.db'}"
        self.payments, self.tickets = folder / "payments.jsonl", folder / "tickets.jsonl"
        self.model: StandIn
        self.kills_at = -1
        self.processes: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str) -> subprocess.Popen[str]:
        environment = os.environ | {
            "OUTLAST_URL": self.url,
            "OPENAI_BASE_URL": self.model.url,
            "OPENAI_API_KEY": "none",
            "SUPPORT_PAYMENTS": str(self.payments),
            "SUPPORT_TICKETS": str(self.tickets),
        }
        command = [sys.executable, *arguments]
        process = subprocess.Popen(command, cwd=EXAMPLE, env=environment, text=True, stdout=subprocess.PIPE)
        self.processes.append(process)
        return process

    def worker(self) -> subprocess.Popen[str]:
        return self.run("-c", "from outlast.cli import main; main()", "worker", "durable.py", "--lease", "3")

    def says(self, asked: Asked) -> Reply:
        reply = answer(asked)
        if asked.number == self.kills_at:
            return Reply(reply.text, reply.calls, before=lambda n: self.kill() if n == 1 else None)
        return reply

    def kill(self) -> None:
        self.processes[0].kill()
        self.processes[0].wait(30)


def answer(asked: Asked) -> Reply:
    """What the model says: it looks order 56 up, pays it back, or has a colleague look at it."""
    results = asked.results()
    text = " ".join(asked.said(n) for n in range(len(asked.messages)))
    if "look" not in results:
        return Reply("Let me see.", (ToolCall("look", "look_up", {"order": "56"}),))
    if "act" in results:
        return Reply(f"Done: {results['act']}")
    if "refund" in text:
        return Reply("I pay it back.", (ToolCall("act", "refund", {"order": "56", "cents": 25_000}),))
    return Reply("I ask a colleague.", (ToolCall("act", "open_ticket", {"text": "order 56"}),))


@contextmanager
def opened(folder: Path) -> Iterator[Support]:
    support = Support(folder)
    with serving(support.says, folder / "asked") as support.model:
        try:
            yield support
        finally:
            for process in support.processes:
                process.kill()
                process.wait(30)
                assert process.stdout is not None
                process.stdout.close()


def test_a_worker_that_dies_while_the_model_writes_and_one_while_a_person_thinks_are_replaced(tmp_path: Path) -> None:
    with opened(tmp_path) as support, sync.App(support.url, worker=False) as app:
        support.kills_at = 1  # in the middle of the second answer, whose first is recorded
        first = support.worker()
        customer = support.run("durable.py", "req-1", "I want a refund for order 56.")
        first.wait(60)
        second = support.worker()
        while not (asked := app.approvals()):
            pass
        assert asked[0].data["action_requests"][0]["args"] == {"order": "56", "cents": 25_000}
        second.kill()
        second.wait(30)
        support.worker()
        app.approve(asked[0].id, by="ada")
        text, _ = customer.communicate(timeout=60)
        assert text == "Done: 25000 cents for order 56 are on their way\n\nYour support desk\n"
        assert [json.loads(line) for line in support.payments.read_text().splitlines()] == [
            {"order": "56", "cents": 25_000}
        ]
        assert len(support.model.asked()) == 4  # the second twice
        items = [item.value for item in app.get("req-1").stream("tokens")]
        assert "".join(items).startswith("Let me see.I pay it back.Done: 25000")


def test_the_other_agent_of_the_graph_answers_without_asking_anybody(tmp_path: Path) -> None:
    with opened(tmp_path) as support:
        support.worker()
        customer = support.run("durable.py", "req-2", "My bicycle squeaks.")
        text, _ = customer.communicate(timeout=60)
        assert text == "Done: a colleague will write to you\n\nYour support desk\n"
        assert len(support.tickets.read_text().splitlines()) == 1
