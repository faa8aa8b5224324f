"""One call of a framework (of a model, of a tool) as a step of the run in whose body it is made.

What adapters build on. The call is a closure: what goes in is known to the framework, so a journal keeps of it only
the `arguments` that the adapter names, and of the outcome what `encode` makes of it. What the framework gets is decoded
from that, on the first execution, too: live equals replay.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import structs

from outlast.core.definitions import AsyncStep
from outlast.core.effects import InBody
from outlast.core.identity import here
from outlast.core.settings import Settings

T = TypeVar("T")

MODEL = Settings().with_(effect="pure", check_args=False, spends=True)
"""How a call of a model is run unless it is said otherwise: asking again costs money, and harms no one.

Inside, the adapter tells what it used by `outlast.record_usage`.
"""


def in_body() -> bool:
    """Tell whether this code is in the body of a run, so that what it calls can be recorded.

    In a step it is not: there the step itself is what is recorded. Elsewhere there is no run.
    """
    return isinstance(here.get(), InBody)


async def journaled(
    name: str,
    make: Callable[[], Awaitable[T]],
    *,
    encode: Callable[[T], Any],
    decode: Callable[[Any], T],
    settings: Settings = MODEL,
    key: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> T:
    """Return what `make()` gives: recorded under this name and key, and not made again where it is recorded.

    - `encode` makes of the outcome what a journal can keep, and `decode` the outcome of that.
    - `settings`: effect, retries, timeout; see `effect_of` for tools.
    - `key`: what tells the call from others in its scope (a tool call's id); without one, calls of a name are numbered
      in their order, or, in a native body and where `settings.check_args` holds, told apart by their arguments.
    - `arguments`: of what was asked, that which people are to see, and which is the same each time: what a journal can
      keep. A tool's own, by their names, since its `confirm` is asked with them.

    Elsewhere than in the body of a run it is made plainly. Raises what `make` raises, as a step does.
    """
    if not in_body():
        return await make()

    async def attempt(**arguments: Any) -> Any:
        return encode(await make())

    step = copy.copy(_pattern(name))
    step.fn = step.plain = attempt
    step.settings = settings if key is None else structs.replace(settings, key=key)
    return decode(await step(**(arguments or {})))


@lru_cache(maxsize=1_000)
def _pattern(name: str) -> AsyncStep[..., Any]:
    """Return a step of this name, for copies: looking into a function takes longer than recording a call."""

    async def attempt(**arguments: Any) -> Any: ...

    step: AsyncStep[..., Any] = AsyncStep(attempt, name, Settings())
    _ = step.returns, step.input_type, step.definition
    return step
