"""The agent without Outlast: as it is (act 1), and with a checkpoint file after each step (act 2).

`python -m outlast.cli.demo.unprotected ORDER [CHECKPOINT]`
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from outlast.cli.demo import tools
from outlast.cli.demo.lifeline import follow_parent


async def process_order(order: str) -> None:
    """Process an order, from the top."""
    planned = await tools.plan_order(order)
    cents = await tools.price_in_stock(planned.item)
    receipt = await tools.charge_card(order, planned.card, cents, str(uuid.uuid4()))
    await tools.open_ticket(order, f"send 1 {planned.item}, paid with {receipt}", str(uuid.uuid4()))
    await tools.ask_model(order, "summary")


async def process_order_from(order: str, checkpoint: Path) -> None:
    """Process an order from where the checkpoint file says that it stands."""
    done = _read(checkpoint)

    async def keep(step: str, work: Callable[[], Awaitable[Any]]) -> Any:
        if step not in done:
            done[step] = await work()
            _replace(checkpoint, json.dumps(done))
        return done[step]

    async def plan() -> list[str]:
        planned = await tools.plan_order(order)
        return [planned.words, planned.item, planned.card]

    async def charge() -> str:
        return await tools.charge_card(order, card, cents, f"order {order}")

    _, item, card = await keep("plan", plan)
    cents = await keep("inventory", lambda: tools.price_in_stock(item))
    receipt = await keep("charge", charge)
    await keep("ticket", lambda: tools.open_ticket(order, f"send 1 {item}, paid with {receipt}", f"order {order}"))
    await keep("summary", lambda: tools.ask_model(order, "summary"))


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def _replace(file: Path, text: str) -> None:
    """Write a file so that a crash leaves the old or the new content."""
    fresh = file.with_suffix(".new")
    with fresh.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)


if __name__ == "__main__":
    follow_parent()
    if len(sys.argv) > 2:
        asyncio.run(process_order_from(sys.argv[1], Path(sys.argv[2])))
    else:
        asyncio.run(process_order(sys.argv[1]))
