"""What a function that is no step says of its effect: tools of agent frameworks, which adapters make steps of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from outlast.core.errors import WrongUse
from outlast.core.queues import Rate
from outlast.core.retry import Retry
from outlast.core.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__outlast_effect__"


class Marked(TypedDict, total=False):
    """What `outlast.effect(...)` takes beside the effect."""

    retry: Retry | None
    timeout: float | None
    confirm: Callable[..., Any] | None
    definite: tuple[type[BaseException], ...] | type[BaseException]
    settle: float
    rate: Rate | tuple[Rate, ...] | None


def effect(effect: Literal["pure", "idempotent", "once"], **settings: Unpack[Marked]) -> Callable[[F], F]:
    """Say of a tool, a function that an agent framework calls, what it does to the world.

    The words are those of `@step`: `"pure"`, `"idempotent"` (what an unmarked tool is) or `"once"`, with `confirm`,
    `definite`, `settle`, `retry`, `timeout` and `rate`. The function itself stays as it is: an adapter makes a step of
    it where the framework calls it in a run. Goes below the framework's own decorator. Raises WrongUse for settings
    that make no sense.
    """
    chosen = Settings().with_(effect=effect, **settings)

    def mark(fn: F) -> F:
        try:
            setattr(fn, _MARK, chosen)
        except AttributeError:
            raise WrongUse(
                f"@outlast.effect marks a function, and {fn!r} takes no mark; write it below the decorator that "
                "made this"
            ) from None
        return fn

    return mark


def effect_of(*tools: Any, name: str = "", given: Mapping[str, Any] | None = None) -> Settings:
    """Return how a tool is run: as `given` says for its name (an effect, or what `outlast.effect` gave), or its mark.

    `tools` are what may bear the mark: the framework's object, its function, what that wraps. Raises WrongUse for what
    is no effect.
    """
    if given is not None and name in given:
        said = given[name]
        return said if isinstance(said, Settings) else Settings().with_(effect=said)
    return mark_of(*tools) or Settings()


def mark_of(*tools: Any) -> Settings | None:
    """Return what `outlast.effect` has said of the first of these that bears its mark; None where none does."""
    for tool in tools:
        while tool is not None:
            mark = getattr(tool, _MARK, None)
            if isinstance(mark, Settings):
                return mark
            tool = getattr(tool, "__wrapped__", None) or getattr(tool, "__func__", None) or getattr(tool, "func", None)
    return None
