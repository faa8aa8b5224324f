"""Tokens and what they cost, the way this command line writes them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from outlast.cli.wording import visible
from outlast.core.usage import Tokens
from outlast.runtime.run_usage import Usage

DIGITS = 6


def cost_told(cost: float) -> str:
    """Return a cost as `0.0123`."""
    text = f"{cost:,.{DIGITS}f}".rstrip("0").removesuffix(".")
    return text if text != "0" or not cost else f"{cost:.1g}"


def tokens_told(tokens: Tokens) -> str:
    """Return tokens as `1,204 tokens, cost 0.0123`."""
    cost = "" if tokens.cost is None else f", cost {cost_told(tokens.cost)}"
    return f"{tokens.total:,} token{'' if tokens.total == 1 else 's'}{cost}"


def calls_told(calls: dict[str, int]) -> str:
    """Return how often steps were called as `2 calls of model, 1 call of ask`."""
    return ", ".join(f"{n:,} call{'' if n == 1 else 's'} of {visible(name)}" for name, n in calls.items())


def tokens_json(tokens: Tokens) -> dict[str, Any]:
    """Return tokens for JSON."""
    return {"tokens": tokens.total} | asdict(tokens)


def usage_json(usage: Usage) -> dict[str, Any]:
    """Return a run's usage for JSON."""
    sums = {name: tokens_json(getattr(usage, name)) for name in ("spent", "again", "saved", "copied")}
    limits = {"max_tokens": usage.max_tokens, "max_cost": usage.max_cost}
    models = {model: tokens_json(tokens) for model, tokens in usage.models.items()}
    return {**sums, "models": models, "unpriced": list(usage.unpriced), "unknown": usage.unknown, **limits}
