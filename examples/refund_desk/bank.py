"""A bank, for the example: a file of payments, which outlives whoever pays.

Yours is an HTTP API that takes idempotency keys.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

BOOK = Path(os.environ.get("REFUND_DESK_BANK", "bank.jsonl"))
SLOWNESS_S = float(os.environ.get("REFUND_DESK_BANK_SLOWNESS", "0"))


async def pay(key: str, order: str, cents: int) -> str:
    """Pay money back, and return the receipt's number."""
    receipt = f"R-{key[:8]}"
    with BOOK.open("a") as book:  # noqa: ASYNC230 - a line in a file
        book.write(json.dumps({"key": key, "order": order, "cents": cents, "receipt": receipt}) + "\n")
    await asyncio.sleep(SLOWNESS_S)  # the money has moved, and the caller does not know it yet
    return receipt


def find(key: str) -> dict[str, Any] | None:
    """Return the payment that was made under a key."""
    return next((payment for payment in payments() if payment["key"] == key), None)


def payments() -> list[dict[str, Any]]:
    """Return all payments, in order."""
    return [json.loads(line) for line in BOOK.read_text().splitlines()] if BOOK.exists() else []
