"""A support desk as a LangGraph graph. Nothing in here knows of Outlast."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

ORDERS = {"55": ("a kettle", 3_900), "56": ("a bicycle", 25_000)}
TICKETS = Path(os.environ.get("SUPPORT_TICKETS", "tickets.jsonl"))
PAYMENTS = Path(os.environ.get("SUPPORT_PAYMENTS", "payments.jsonl"))


@tool
def look_up(order: str) -> str:
    """Say what an order is about, and what was paid for it, in cents."""
    what, cents = ORDERS.get(order, ("nothing that we know of", 0))
    return f"order {order}: {what}, {cents} cents"


@tool
def refund(order: str, cents: int) -> str:
    """Pay money back."""
    with PAYMENTS.open("a") as payments:  # stands for a bank
        payments.write(json.dumps({"order": order, "cents": cents}) + "\n")
    return f"{cents} cents for order {order} are on their way"


@tool
def open_ticket(text: str) -> str:
    """Have a colleague look at something, within a day."""
    with TICKETS.open("a") as tickets:
        tickets.write(json.dumps({"text": text, "at": datetime.now(UTC).isoformat()}) + "\n")
    return "a colleague will write to you"


def sort(state: MessagesState) -> Literal["money", "technic"]:
    """Say which agent is to answer."""
    text = str(state["messages"][-1].content).lower()
    return "money" if "refund" in text or "money" in text else "technic"


def sign(state: MessagesState) -> dict[str, Any]:
    """Put a name under the answer."""
    return {"messages": [AIMessage(f"{state['messages'][-1].content}\n\nYour support desk")]}


def build(middleware: Sequence[Any] = ()) -> Any:
    """Return the graph. Each of its agents has this middleware."""
    model = ChatOpenAI(model=os.environ.get("SUPPORT_MODEL", "gpt-5-mini"))
    people = HumanInTheLoopMiddleware(interrupt_on={"refund": {"allowed_decisions": ["approve", "reject"]}})
    money = create_agent(
        model,
        [look_up, refund],
        system_prompt="You pay back what customers have paid. Look the order up first.",
        middleware=[people, *middleware],
        name="money",
    )
    technic = create_agent(
        model,
        [look_up, open_ticket],
        system_prompt="You help with what customers have bought.",
        middleware=list(middleware),
        name="technic",
    )
    graph = StateGraph(MessagesState).add_node("money", money).add_node("technic", technic).add_node("sign", sign)
    graph.add_conditional_edges(START, sort, ["money", "technic"])
    graph.add_edge("money", "sign").add_edge("technic", "sign").add_edge("sign", END)
    return graph.compile(name="support")
