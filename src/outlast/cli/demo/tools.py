"""What the agent can do: plain functions that ask the three outside systems. They know nothing of durability."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from outlast.cli.demo.wire import HttpError, get, post

SYSTEMS_VARIABLE = "OUTLAST_DEMO_SYSTEMS"  # JSON: the address of each system, by name


@dataclass(frozen=True, slots=True)
class Plan:
    """What the model answered: never the same twice."""

    words: str
    item: str
    card: str


def _address(system: str) -> str:
    found: str = json.loads(os.environ[SYSTEMS_VARIABLE])[system]
    return found


async def ask_model(order: str, purpose: str) -> str:
    """Return the model's answer: other words at each call."""
    answer = await post(f"{_address('model')}/answers", {"order": order, "purpose": purpose})
    return str(answer["words"])


async def plan_order(order: str) -> Plan:
    """Let the model decide how the order is processed."""
    return Plan(words=await ask_model(order, "plan"), item="lamp", card="card-4242")


async def price_in_stock(item: str) -> int:
    """Return the price of an item that is in stock, in cents."""
    return int((await get(f"{_address('tickets')}/stock/{item}"))["cents"])


async def charge_card(order: str, card: str, cents: int, key: str) -> str:
    """Charge a card; return the receipt. The payment system keeps the key, and books a second charge under it too."""
    answer = await post(f"{_address('payments')}/charges", {"order": order, "card": card, "cents": cents}, key)
    return str(answer["id"])


async def find_charge(key: str) -> str | None:
    """Return the receipt of the charge that was booked with this key, None when there is none."""
    try:
        found = await get(f"{_address('payments')}/charges/{key}")
    except HttpError as error:
        if error.status == 404:
            return None
        raise
    return str(found["id"])


async def open_ticket(order: str, text: str, key: str) -> str:
    """Open a ticket and return its id. The ticket system gives the same key the same ticket."""
    answer = await post(f"{_address('tickets')}/tickets", {"order": order, "text": text}, key)
    return str(answer["id"])
