"""Each thing that an agent asks of the world, a step of the run: of a model, of a tool, of who is told of events.

The framework hands in a body and the context of the agent's run. What a step is called does not depend on when it is
asked for: a tool's call has the id that the model gave it, and requests of the model follow one another in the scope of
their agent's run (`durable.py` enters it).
"""

from __future__ import annotations

import contextvars
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    CapabilityOperationId,
    DurableOperationId,
    EventStreamHandlerId,
    JournalCallableOperationBackend,
    ModelCompactMessagesId,
    ModelRequestId,
    ToolsetCallToolId,
    ToolsetGetInstructionsId,
    ToolsetGetToolsId,
    ToolsetValidateToolArgumentsId,
    record_durable_unit,
)
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RunUsage
from pydantic_core import to_jsonable_python

from outlast.adapters.journaled import MODEL, journaled
from outlast.adapters.pydantic_ai.effects import UNMARKED, ToolCalls
from outlast.adapters.pydantic_ai.streaming import Relay, relay_here
from outlast.core.identity import here
from outlast.core.settings import Settings
from outlast.runtime.run_usage import record_usage

READ = Settings().with_(effect="pure", check_args=False)
TOLD = Settings().with_(check_args=False)

_NOT_IN_NAMES = re.compile(r"[^\w-]")


@dataclass(frozen=True)
class StepAs:
    """What a step is called, and how it is run."""

    name: str
    settings: Settings
    key: str | None = None
    arguments: dict[str, Any] | None = None


class ToolHere:
    """The attempt of a tool's call in whose step this code runs. `marked`: whether its effect was said."""

    def __init__(self, name: str, marked: bool) -> None:
        self.name = name
        self.marked = marked
        self._before: RunUsage | None = None
        self._after: RunUsage | None = None

    def spends(self, usage: RunUsage) -> RunUsage:
        """Return what the tool counts what it uses up in. Others count in `usage` meanwhile."""
        if self._after is None:
            self._before, self._after = _copied(usage), _copied(usage)
        return self._after

    def spent(self) -> RunUsage | None:
        """Return what it has used up by itself; None for nothing."""
        if self._before is None or self._after is None:
            return None
        spent = self._after - self._before
        return spent if spent.has_values() else None


tool_here: contextvars.ContextVar[ToolHere | None] = contextvars.ContextVar("outlast_tool_here", default=None)


class StepBackend(JournalCallableOperationBackend[Any]):
    """What the framework gives its units of work to. `model` are the settings of requests to models."""

    def __init__(self, *, model: Settings = MODEL, **named: Any) -> None:
        super().__init__(**named)
        self._model = model

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: Any,
    ) -> object:
        """Return what `body` gives, recorded as a step, or what is recorded of it."""
        ctx = next((part for part in cache_key if isinstance(part, RunContext)), None)
        step = self._step(operation_id, cache_key, ctx, config)
        is_tool = isinstance(operation_id, ToolsetCallToolId)
        marked = isinstance(config, ToolCalls) and config.marked
        around, executed, relay = contextvars.copy_context(), False, relay_here.get()

        async def attempt() -> Any:
            nonlocal executed
            executed = True
            _adopt(around)
            tool = ToolHere(step.name, marked) if is_tool else None
            tool_here.set(tool)
            payload = await body()
            if isinstance(operation_id, ModelRequestId | ModelCompactMessagesId):
                tell_usage(JSON_CODEC.load(ModelResponse, payload))
                return _with_pieces(payload, relay)
            return payload if tool is None else _with_usage(payload, tool.spent())

        try:
            kept = await journaled(
                step.name,
                attempt,
                encode=_same,
                decode=_same,
                settings=step.settings,
                key=step.key,
                arguments=step.arguments,
            )
        except ModelAPIError as error:
            raise _whole(error) from error.__cause__
        finally:
            record_durable_unit(executed=executed)
        return _told(kept, ctx) if is_tool else _without_pieces(kept, relay)

    def _step(
        self, operation: DurableOperationId, given: tuple[object, ...], ctx: RunContext[Any] | None, config: Any
    ) -> StepAs:
        match operation:
            case ToolsetCallToolId():
                name, arguments = str(given[0]), given[1]
                settings = config.settings if isinstance(config, ToolCalls) else UNMARKED.settings
                return StepAs(_name(name), settings, ctx.tool_call_id if ctx else None, _shown(arguments))
            case ToolsetValidateToolArgumentsId():
                return StepAs("validate", TOLD, f"{given[0]}:{ctx.tool_call_id if ctx else ''}")
            case ToolsetGetToolsId() | ToolsetGetInstructionsId():
                what = "list_tools" if isinstance(operation, ToolsetGetToolsId) else "instructions"
                return StepAs(what, READ, operation.toolset_id)
            case EventStreamHandlerId():
                return StepAs("on_event", TOLD, _event_key(given[0]))
            case CapabilityOperationId():
                return StepAs(_name(f"{operation.capability_id}_{operation.operation}"), TOLD)
            case _:  # requests of the model; what newer versions ask, too
                relay = relay_here.get()  # what a consumer was given live cannot be taken back for another attempt
                settings = self._model if relay is None else self._model.with_(retry=None)
                return StepAs("model", settings, None, {"model": getattr(operation, "model_name", "")})


def _same(value: Any) -> Any:
    return value


def _name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)[:200] or "_"


def _shown(arguments: Any) -> dict[str, Any]:
    """Return a tool's arguments as JSON has them: what people see, and a `confirm` is asked with."""
    if not isinstance(arguments, dict):
        return {"arguments": to_jsonable_python(arguments, serialize_unknown=True, bytes_mode="base64")}
    shown: dict[str, Any] = to_jsonable_python(arguments, serialize_unknown=True, bytes_mode="base64")
    return shown


def _event_key(event: Any) -> str:
    """Return what tells an event from others, whichever parallel tool is the first to have one."""
    part = getattr(event, "part", None) or getattr(event, "result", None)
    call = getattr(event, "tool_call_id", None) or getattr(part, "tool_call_id", None) or ""
    return f"{getattr(event, 'event_kind', type(event).__name__)}:{call}"


def _adopt(around: contextvars.Context) -> None:
    """Give the code of a step the context in which the agent asked for it, as it has without Outlast.

    An attempt begins in a context of its own; where it is stays as it is.
    """
    for var, value in around.items():
        if var is not here:
            var.set(value)


def _whole(error: ModelAPIError) -> ModelAPIError:
    """Return an error as it was raised.

    One of HTTP has a class that the framework makes of two, under the name of one of them, by which alone a journal
    finds it again.
    """
    if isinstance(error, ModelHTTPError) or "status_code" not in vars(error):
        return error
    known: Any = vars(error)
    whole = ModelHTTPError.for_category(
        cast("Any", type(error)), status_code=known["status_code"], model_name=error.model_name
    )
    vars(whole).update(known)
    whole.args = error.args
    return whole.with_traceback(error.__traceback__)


def tell_usage(response: ModelResponse) -> None:
    """Tell, in a step, what an answer of a model used."""
    used = response.usage
    tokens_in = max(used.input_tokens, used.cache_read_tokens)
    if tokens_in or used.output_tokens:  # what a provider does not tell is told as 0
        record_usage(
            model=response.model_name or "",
            input_tokens=tokens_in,
            output_tokens=used.output_tokens,
            cached_tokens=used.cache_read_tokens,
        )


def _copied(usage: RunUsage) -> RunUsage:
    return replace(usage, details=dict(usage.details))


# -- what is recorded of a streamed answer ------------------------------------------------

_PIECES = "outlast_pieces"


def _with_pieces(payload: Any, relay: Relay | None) -> Any:
    """Add to an answer the pieces in which its reader has seen it."""
    pieces = relay.sizes() if relay is not None else {}
    return payload | {_PIECES: pieces} if pieces and isinstance(payload, dict) else payload


def _without_pieces(kept: Any, relay: Relay | None) -> Any:
    """Take them off again, for a reader that is to see it as it was seen before."""
    if not isinstance(kept, dict) or _PIECES not in kept:
        return kept
    if relay is not None:
        relay.pieces = kept[_PIECES]
    return {name: value for name, value in kept.items() if name != _PIECES}


# -- what is recorded of a tool's call ---------------------------------------------------

_USAGE = "usage"
_KINDS = frozenset(
    {
        "approval_required",
        "call_deferred",
        "model_retry",
        "run_cancelled",
        "tool_content_result",
        "tool_failed",
        "tool_return",
        "validation_error",
    }
)
"""The framework's words for how a call of a tool can end. What has none of them is a result that a `confirm` or a
person has given."""


def _with_usage(payload: Any, spent: RunUsage | None) -> Any:
    if spent is None or not isinstance(payload, dict):
        return payload
    return payload | {_USAGE: JSON_CODEC.dump(RunUsage, spent)}


def _told(kept: Any, ctx: RunContext[Any] | None) -> Any:
    """Return what the framework is to be told, and count what the tool has used up: also where it did not run now."""
    if not isinstance(kept, dict) or kept.get("kind") not in _KINDS:
        return {"kind": "tool_return", "result": kept}
    if _USAGE in kept and ctx is not None:
        ctx.usage.incr(JSON_CODEC.load(RunUsage, kept[_USAGE]))
        kept = {name: value for name, value in kept.items() if name != _USAGE}
    return kept
