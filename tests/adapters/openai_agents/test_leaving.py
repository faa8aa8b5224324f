"""A tool or a model that asks the process to exit (`sys.exit`, as argument parsers do) fails; its worker goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outlast import App
from tests.adapters.openai_agents import leaving
from tests.adapters.openai_agents.scenes import processes
from tests.adapters.openai_agents.test_tools import calls
from tests.adapters.stand_in import serving

ANSWERED = ("in a task", "in a thread")
HOW = (*ANSWERED, "with its error", "model", "model, streamed")


@pytest.mark.parametrize("how", HOW)
def test_the_worker_of_what_exits_goes_on(how: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"

    async def outcome() -> Any:
        async with App(store, worker=False) as app:
            run = await app.get("leaving")
            failed = [step.error for step in await run.steps() if step.error]
            assert len(failed) == 1
            assert "asked the process to exit (SystemExit: 3)" in str(failed[0])
            return await run.result()

    with serving(calls(("leave", {})), tmp_path / "asked") as stand_in:
        worker = processes.Process(target=leaving.work, args=(store, stand_in.url, how))
        worker.start()
        try:
            worker.join(60)
            assert worker.exitcode == 0
        finally:
            worker.kill()
        if how in ANSWERED:
            assert "error" in json.loads(asyncio.run(outcome()))["c0"]
        else:
            with pytest.raises(Exception, match="asked the process to exit"):
                asyncio.run(outcome())
