"""The seam between a workflow body and what makes it durable.

A body reaches durability only through an `Operations` object, which it finds in
its context: `issue` a call, and read what was recorded (`now`, `patched`,
`draw`). Timers go through the run's event loop. Everything else in the
library stands on the other side of this seam, so that another engine can
supply it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, runtime_checkable

from outlast.core.identity import Branch, derive
from outlast.core.usage import ByModel

if TYPE_CHECKING:
    from outlast.core.definitions import Call


class Operations(Protocol):
    """What a workflow body can ask of its run.

    Each is idempotent by identity, and raises Suspended once the run is stopped.
    """

    run_id: str
    workflow: str
    closed: bool
    """Whether the run was stopped."""

    @property
    def blocking(self) -> bool:
        """Whether the code that asks is a plain function in a thread, which waits by blocking."""
        ...

    def issue(self, call: Call[Any]) -> asyncio.Future[Any]:
        """Hand in a call. The future completes when its outcome is delivered."""
        ...

    def compensate(self, call: Call[Any]) -> None:
        """Keep a call that undoes something, for when the body fails or is cancelled."""
        ...

    def continue_as(self, call: Call[Any]) -> NoReturn:
        """End the body's turn; the run goes on as this call."""
        ...

    def block(self, future: asyncio.Future[Any]) -> Any:
        """Wait in the body's thread for a future; return its result or raise its error."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait in the body's thread."""
        ...

    def forgot(self, call: Call[Any]) -> bool:
        """Hear that a call was dropped that nobody awaited; tell whether that was the doing of the body's code."""
        ...

    def check(self) -> None:
        """Raise LostRun unless the caller is this run's body, Suspended if the run is stopped."""
        ...

    def now(self) -> float:
        """Return the time of the event delivered last, in seconds since the epoch."""
        ...

    def timer(self, when: float) -> asyncio.Future[None]:
        """Return what is done at this time, in seconds since the epoch."""
        ...

    def draw(self, name: str) -> str:
        """Return 32 hex digits that belong to this name in this run."""
        ...

    def origin(self) -> str:
        """Return 32 hex digits that a run shares with its forks, and with nothing else."""
        ...

    def child_id(self, call: Call[Any]) -> str:
        """Return the run id that a call of a workflow has or will have."""
        ...

    def patched(self, key: str) -> bool:
        """Tell whether the run takes the new side of the change `key`, for good."""
        ...

    def write(self, stream: str, value: Any) -> None:
        """Add an item to a stream of the run."""
        ...

    def publish(self, name: str, value: Any) -> None:
        """Let others see a value of the run."""
        ...


class Place:
    """Where code runs."""

    __slots__ = ()


class InBody(Place):
    """In a workflow body, on a branch."""

    __slots__ = ("branch", "ops")

    def __init__(self, ops: Operations, branch: Branch) -> None:
        self.ops = ops
        self.branch = branch


class Post(Protocol):
    """What carries something of a step's to a store, once it may leave. `codec` makes its values."""

    codec: Any

    async def ask(self, place: InStep, verb: Any) -> Any:
        """Have a verb committed and return its answer."""
        ...

    def ask_from_thread(self, place: InStep, verb: Any) -> Any:
        """Do so, blocking, in a thread that is not the worker's."""
        ...


@runtime_checkable
class Output(Protocol):
    """What carries a step's items and values to a store."""

    def write(self, stream: str, value: Any) -> None:
        """Add an item to a stream of the run."""
        ...

    def publish(self, name: str, value: Any) -> None:
        """Let others see a value of the run."""
        ...

    async def drain(self) -> None:
        """Wait while too much is on its way."""
        ...

    def drain_from_thread(self) -> None:
        """Do so, blocking."""
        ...

    def finish(self, then: Callable[[], None]) -> None:
        """Take nothing more, and call `then` once all is committed."""
        ...

    def close(self) -> None:
        """Take nothing more, and let go of who waits."""
        ...


class InStep(Place):
    """In an attempt of a step."""

    __slots__ = (
        "annotations",
        "attempt",
        "beat",
        "fence",
        "free",
        "gate",
        "given_up",
        "incarnation",
        "open_output",
        "output",
        "post",
        "run_id",
        "sent",
        "step_id",
        "step_name",
        "used",
        "workflow",
    )

    def __init__(
        self,
        run_id: str,
        workflow: str,
        step_id: str,
        step_name: str,
        attempt: int,
        incarnation: str,
        fence: int,
        post: Post | None = None,
    ) -> None:
        self.run_id = run_id
        self.workflow = workflow
        self.step_id = step_id
        self.step_name = step_name
        self.attempt = attempt
        self.incarnation = incarnation
        self.fence = fence
        self.post = post
        self.output: Output | None = None  # once it has written something
        self.open_output: Callable[[InStep], Output] | None = None
        self.gate = 0  # the records up to here are to be committed before anything of it leaves
        self.sent = 0  # messages
        self.annotations: dict[str, Any] = {}
        self.used: ByModel = {}  # of models
        self.free = False  # no model has answered in it, so there is nothing to tell
        self.beat: float | None = None
        self.given_up = False  # set by the loop, read in the step's thread

    @property
    def idempotency_key(self) -> str:
        """What tells this step of this incarnation of the run from all others, the same in each of its attempts."""
        return derive(self.incarnation, "step", self.step_id)
