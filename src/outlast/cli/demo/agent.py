"""The agent under Outlast: the tools as steps, and the order as a workflow."""

from __future__ import annotations

import os

import outlast
from outlast import DidNotHappen, Happened, Retry, step, workflow
from outlast.cli.demo import tools
from outlast.cli.demo.tools import Plan

SETTLE_S = 0.5
"""How long after the worker's death "it did not happen" is believed: 10 s by default, too long for a demo."""

SABOTAGE_VARIABLE = "OUTLAST_DEMO_SABOTAGE"  # set: the charge is declared safe to repeat, which it is not


async def ask_payments(key: str, order: str, card: str, cents: int) -> Happened | DidNotHappen:
    """Say what became of a charge in doubt."""
    receipt = await tools.find_charge(key)
    return DidNotHappen() if receipt is None else Happened(receipt)


@step(effect="pure", retry=Retry(attempts=3))
async def plan(order: str) -> Plan:
    """Ask the model for a plan: asking again costs money and harms no one."""
    return await tools.plan_order(order)


@step(effect="pure", retry=Retry(attempts=3))
async def check_inventory(item: str) -> int:
    """Return the item's price in cents."""
    return await tools.price_in_stock(item)


@step(effect="once", confirm=ask_payments, settle=SETTLE_S)
async def charge(order: str, card: str, cents: int) -> str:
    """Charge the card, at most once, and return the receipt."""
    return await tools.charge_card(order, card, cents, outlast.idempotency_key())


@step(retry=Retry(attempts=3))
async def open_ticket(order: str, text: str) -> str:
    """Open a ticket: idempotent, because the ticket system knows the key."""
    return await tools.open_ticket(order, text, outlast.idempotency_key())


@step(effect="pure", retry=Retry(attempts=3))
async def summarise(order: str) -> str:
    """Ask the model for the summary's words."""
    return await tools.ask_model(order, "summary")


@workflow
async def process_order(order: str, can_ask: bool) -> str:
    """Process an order. `can_ask`: whether the payment system can be asked what became of a charge."""
    pay = charge if can_ask else charge.options(confirm=None)
    if os.environ.get(SABOTAGE_VARIABLE):
        pay = charge.options(effect="idempotent", confirm=None)
    planned = await plan(order)
    cents = await check_inventory(planned.item)
    receipt = await pay(order, planned.card, cents)
    ticket = await open_ticket(order, f"send 1 {planned.item}, paid with {receipt}, as planned: {planned.words}")
    summary = await summarise(order)
    return f"{planned.words}: {ticket}, {receipt}; {summary}"
