"""Runs of one agent that are under way at once in one scope, and whether they could be taken for each other.

They are told apart by the order in which they begin, and by their prompts: where the order is another one after a
crash, a run with another prompt has diverged, and says so. With one prompt nothing would tell. Runs that are alike in
all else, too, may well change places: five answers to one question. Others are refused, as each would be given what is
recorded of the other, silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_ai import RunContext

from outlast.core.effects import InBody
from outlast.core.errors import WrongUse


@dataclass(frozen=True, eq=False)
class Begun:
    """A run of an agent: what it was asked, and what else its answer may hang on."""

    prompt: Any
    hangs_on: dict[str, Any]

    def difference(self, other: Begun) -> list[str]:
        """Return what they differ in, for all that can be told."""
        return [name for name, value in self.hangs_on.items() if not _same(value, other.hangs_on[name])]


_under_way: WeakKeyDictionary[Any, dict[tuple[str, str], list[Begun]]] = WeakKeyDictionary()


@contextmanager
def under_way(place: InBody, name: str, ctx: RunContext[Any], prompt: Any) -> Iterator[None]:
    """Run the agent of this name in this scope. Raises WrongUse where it could be taken for another run of it."""
    scope = place.branch.current().path
    others = _under_way.setdefault(place.ops, {}).setdefault((scope, name), [])
    model = (ctx.model.system, ctx.model.model_name)
    this = Begun(prompt, {"deps": ctx.deps, "message_history": list(ctx.messages), "model": model, "agent": ctx.agent})
    for other in others:
        if other.prompt == prompt and (differ := this.difference(other)):
            raise WrongUse(
                f"run {place.ops.run_id}: the agent {name!r} was run while another run of it with the same prompt was "
                f"under way in the same scope ({scope}), from which it differs in {' and '.join(differ)} alone: after "
                "a crash each could be given the other's answers. Run each in a scope of its own, by "
                "with outlast.scope(name), where the name says whose run it is"
            )
    others.append(this)
    try:
        yield
    finally:
        others.remove(this)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - whatever a user's class raises says nothing
        return False
