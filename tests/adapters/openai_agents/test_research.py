"""The example `examples/research`, killed in the middle again and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.adapters.stand_in import Asked, Reply, ToolCall, serving

RESEARCH = Path(__file__).parents[3] / "examples" / "research"
KILLS_AFTER = (1, 9, 30)  # so many answers


def says(asked: Asked) -> Reply:
    """Twenty questions; each is looked up once; the report counts the notes."""
    system = asked.said(0)
    if system.startswith("Split"):
        return Reply(text="\n".join(f"What is no. {n}?" for n in range(20)))
    if system.startswith("Sum"):
        return Reply(text=f"{len(asked.said(1).splitlines())} notes: {asked.said(1)}")
    words = asked.said(1).removeprefix("What is ").removesuffix("?")
    if not asked.results():
        return Reply(calls=(ToolCall(f"look-{words}", "look_up", {"words": words}),))
    return Reply(text=next(iter(asked.results().values())))


@pytest.mark.timeout(110)
def test_a_killed_research_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    answers, enough = 0, threading.Condition()

    def counted(asked: Asked) -> Reply:
        nonlocal answers
        with enough:
            answers += 1
            enough.notify_all()
        return says(asked)

    library = tmp_path / "library.txt"
    library.write_text("".join(f"no. {n} is known\n" for n in range(20)))
    with serving(counted, ledger=tmp_path / "asked") as stand_in:
        environment = os.environ | {
            "OPENAI_BASE_URL": stand_in.url,
            "RESEARCH_LIBRARY": str(library),
            "OUTLAST_URL": f"sqlite:///{tmp_path / 'research.db'}",
        }

        def start() -> subprocess.Popen[str]:
            command = [sys.executable, "research.py"]
            return subprocess.Popen(command, cwd=RESEARCH, env=environment, stdout=subprocess.PIPE, text=True)

        for after in KILLS_AFTER:
            victim = start()
            with enough:
                assert enough.wait_for(lambda after=after: answers >= after, 30)
            victim.send_signal(signal.SIGKILL)
            victim.communicate()
        printed, _ = start().communicate(timeout=60)
        asked = [repr(body["messages"]) for body in stand_in.asked()]
    assert printed.startswith("20 notes: What is no. 0? no. 0 is known")
    assert len(set(asked)) == 42  # one plan, two for each question, one report
    under_way = len(asked) - 42  # asked again, since their answers died with a process
    assert under_way <= 20 * len(KILLS_AFTER)
    assert "tokens, " in printed
    assert " 0 saved" not in printed
