"""Where the SDK is taken hold of. A new release is to be read against this file and `runner.py`.

The SDK has an experimental way to replace its runner, and none to come between a runner and the calls it makes. Handing
it rewritten agents would do that, and would show: hooks, results, approvals and the state of a paused run hold agents
and tools by identity. So agents and tools stay as they are, and these functions of the SDK are replaced by ones that
look first whether this code is in a durable run of an agent. Elsewhere they are what they were.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from agents import InputGuardrail, OutputGuardrail, ToolInputGuardrail, ToolOutputGuardrail
from agents.version import __version__

from outlast.adapters.openai_agents import guardrails, models, tools
from outlast.core.errors import WrongUse

MARK = "__outlast_seam__"

SEAMS: tuple[tuple[Any, str, Callable[..., Any], tuple[str, ...]], ...] = (
    ("agents.run_internal.run_loop", "get_model", models.get_model, ("agent", "run_config")),
    (
        *("agents.run_internal.tool_execution", "_invoke_function_tool_with_metadata", tools.invoke),
        ("function_tool", "context", "arguments"),
    ),
    (InputGuardrail, "run", guardrails.check_input, ("self", "agent", "input", "context")),
    (OutputGuardrail, "run", guardrails.check_output, ("self", "context", "agent", "agent_output")),
    (ToolInputGuardrail, "run", guardrails.check_tool, ("self", "data")),
    (ToolOutputGuardrail, "run", guardrails.check_tool, ("self", "data")),
)
"""Where each is, its name, what takes its place (and gets the original as first argument), and what it takes."""


def put_in_place() -> None:
    """Replace what is to be replaced, once for the process. Raises WrongUse for an SDK that is built otherwise."""
    owners = [importlib.import_module(where) if isinstance(where, str) else where for where, *_ in SEAMS]
    for owner, (_, name, _, takes) in zip(owners, SEAMS, strict=True):
        _check(owner, name, takes)
    for owner, (_, name, replacement, _) in zip(owners, SEAMS, strict=True):
        original = getattr(owner, name)
        if not hasattr(original, MARK):
            seam = _in_place_of(original, replacement)
            setattr(seam, MARK, True)
            setattr(owner, name, seam)


def _in_place_of(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    if not inspect.iscoroutinefunction(original):
        return functools.wraps(original)(lambda *args, **kwargs: replacement(original, *args, **kwargs))

    @functools.wraps(original)
    async def seam(*args: Any, **kwargs: Any) -> Any:
        return await replacement(original, *args, **kwargs)

    return seam


def _check(owner: Any, name: str, takes: tuple[str, ...]) -> None:
    found = getattr(owner, name, None)
    if found is not None and tuple(inspect.signature(found).parameters) == takes:
        return
    where = f"{getattr(owner, '__qualname__', owner.__name__)}.{name}"
    raise WrongUse(
        f"openai-agents {__version__} has no {where}({', '.join(takes)}), which Outlast takes hold of; install the "
        "version that the extra names: pip install 'outlast[openai-agents]'"
    )
