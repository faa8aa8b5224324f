"""The agent of the refund desk: it looks an order up, pays money back, and asks a person above a limit."""

from __future__ import annotations

import os

import bank
from openai import AsyncOpenAI
from pydantic_ai import Agent, ApprovalRequired, RunContext
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import outlast
from outlast import DidNotHappen, Happened, workflow
from outlast.pydantic_ai import Durable

LIMIT_CENTS = 10_000
ORDERS = {"55": 4_900, "56": 25_000}  # what was paid for each, in cents

client = AsyncOpenAI(base_url=os.environ.get("OPENAI_BASE_URL"), api_key=os.environ.get("OPENAI_API_KEY", "none"))
desk = Agent(
    OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(openai_client=client)),
    name="desk",
    instructions="You refund orders. Look the order up, refund what was paid, then tell the customer the receipt.",
    capabilities=[Durable(tokens="tokens", approvals="finance")],
)


@desk.tool_plain
@outlast.effect("pure")
async def look_up(order: str) -> str:
    """Say what was paid for an order, in cents."""
    return f"order {order}: {ORDERS[order]} cents paid" if order in ORDERS else f"there is no order {order}"


async def find_refund(key: str, order: str, cents: int) -> Happened | DidNotHappen:
    """Ask the bank what became of a payment whose process died in the middle."""
    payment = bank.find(key)
    return Happened(payment["receipt"]) if payment is not None else DidNotHappen()


@desk.tool
@outlast.effect("once", confirm=find_refund, settle=1.0, timeout=30)
async def refund(ctx: RunContext[None], order: str, cents: int) -> str:
    """Pay money back for an order; returns the receipt's number."""
    if cents > LIMIT_CENTS and not ctx.tool_call_approved:
        raise ApprovalRequired
    return await bank.pay(outlast.idempotency_key(), order, cents)


@workflow(loop="native", max_tokens=50_000)
async def handle(request: str) -> str:
    """Handle what a customer asks for; returns what the customer is told."""
    return (await desk.run(request)).output
