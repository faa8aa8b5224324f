"""The blocking face of Outlast: the same names, for code without an event loop.

```python
import outlast


@outlast.workflow
def fulfil(order: str) -> str:
    outlast.sync.sleep(0.1)  # durable
    return f"{order} is on its way"


with outlast.sync.App("sqlite:///agent.db") as app:
    run = app.start(fulfil("order 55"), id="order-55")
    print(run.result())
```

```output
order 55 is on its way
```

It holds no logic of its own: an event loop runs in a thread beside, and each method waits there for the
method of the same name. Use it from any thread. In a sync workflow, `sleep` is the durable sleep.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any, Generic, Literal, TypeVar, cast

import outlast
from outlast.core.definitions import Call
from outlast.core.effects import InBody
from outlast.core.errors import WrongUse
from outlast.core.identity import here
from outlast.core.lost import refuse_app, refuse_lost
from outlast.core.settings import DidNotHappen, Happened
from outlast.runtime.approvals import Approval
from outlast.runtime.blocking_schedules import Schedule, SchedulesOfApp
from outlast.runtime.blocking_streams import Stream, each, stream
from outlast.runtime.clock import SystemClock
from outlast.runtime.following import StreamItem, StreamReset
from outlast.runtime.importing import refuse_while_imported
from outlast.runtime.infos import ApprovalInfo, MessageInfo, RunInfo, StepInfo
from outlast.runtime.loop_beside import LoopBeside
from outlast.runtime.mapping import map_blocking as map
from outlast.runtime.messages import send_blocking
from outlast.runtime.operations import WhenParentEnds, check_child, detach
from outlast.runtime.queue_infos import QueueInfo
from outlast.runtime.run_usage import Usage
from outlast.runtime.script import tell_interrupted
from outlast.runtime.sleeping import sleep_until_blocking as sleep_until

R = TypeVar("R")
T = TypeVar("T")


class Run(Generic[R]):
    """A handle on one run; see `outlast.Run`, whose methods these are, blocking."""

    def __init__(self, run: outlast.Run[R], loop: LoopBeside) -> None:
        self._run = run
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self._run)

    @property
    def id(self) -> str:
        """The run id."""
        return self._run.id

    @property
    def workflow(self) -> str:
        """The name of the workflow."""
        return self._run.workflow

    def result(self, timeout: float | None = None) -> R:
        """Wait for the end; see `outlast.Run.result`."""
        return self._loop.wait(self._run.result(timeout))

    def status(self) -> str:
        """See `outlast.Run.status`."""
        return self._loop.wait(self._run.status())

    def info(self) -> RunInfo:
        """See `outlast.Run.info`."""
        return self._loop.wait(self._run.info())

    def steps(self, *, after: int = 0, limit: int | None = None) -> list[StepInfo]:
        """See `outlast.Run.steps`."""
        return self._loop.wait(self._run.steps(after=after, limit=limit))

    def send(self, name: str, value: Any = None, *, id: str | None = None) -> str:
        """See `outlast.Run.send`."""
        return self._loop.wait(self._run.send(name, value, id=id))

    def messages(self) -> list[MessageInfo]:
        """See `outlast.Run.messages`."""
        return self._loop.wait(self._run.messages())

    def approvals(self, *, status: str | None = "open") -> list[ApprovalInfo]:
        """See `outlast.Run.approvals`."""
        return self._loop.wait(self._run.approvals(status=status))

    def stream(
        self, name: str, *, after: int = 0, final: bool = False, type: Any = Any
    ) -> Iterator[StreamItem[Any] | StreamReset]:
        """See `outlast.Run.stream`."""

        async def begin() -> AsyncIterator[StreamItem[Any] | StreamReset]:
            return self._run.stream(name, after=after, final=final, type=type)

        return each(self._loop.wait(begin()), self._loop)

    def value(self, name: str, default: Any = None, *, type: Any = Any) -> Any:
        """See `outlast.Run.value`."""
        return self._loop.wait(self._run.value(name, default, type=type))

    def values(self) -> dict[str, Any]:
        """See `outlast.Run.values`."""
        return self._loop.wait(self._run.values())

    def usage(self, *, children: bool = False) -> Usage:
        """See `outlast.Run.usage`."""
        return self._loop.wait(self._run.usage(children=children))

    def cancel(self, *, force: bool = False) -> tuple[str, ...]:
        """See `outlast.Run.cancel`."""
        return self._loop.wait(self._run.cancel(force=force))


class App(SchedulesOfApp[Run[Any]]):
    """See `outlast.App`, whose arguments and methods these are, blocking. Use it with `with`."""

    def __init__(self, url: str | os.PathLike[str] | None = None, **settings: Any) -> None:
        self._app = outlast.App(url, **settings)
        self._loop: LoopBeside | None = None

    def __enter__(self) -> App:
        refuse_while_imported("`with App(...)`")
        refuse_app()
        loop = LoopBeside()
        try:
            loop.wait(self._app.__aenter__())
        except BaseException:
            loop.close()
            raise
        self._loop = loop
        return self

    def __exit__(self, *_: object) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                loop.wait(self._app.__aexit__(None, None, None))
            finally:
                loop.close()

    def _wait(self, coro: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            coro.close()
            raise WrongUse("this App is not open; use it inside `with App(...) as app:`")
        return self._loop.wait(coro)

    def _run(self, run: outlast.Run[R]) -> Run[R]:
        assert self._loop is not None
        return Run(run, self._loop)

    def run(self, call: Call[R], *, id: str | None = None) -> R:
        """Start a run and wait for its result. Opens and closes the App when it is not open."""
        if self._loop is None:
            return self._app.run(call, id=id)
        started = id
        try:
            run = self.start(call, id=id)
            started = run.id
            return run.result()
        except KeyboardInterrupt:
            tell_interrupted(self._app.url, call, started)
            raise

    def __repr__(self) -> str:
        return f"<App {self._app.url}>"

    def start(self, call: Call[R], *, id: str | None = None, deadline: dt.datetime | float | None = None) -> Run[R]:
        """See `outlast.App.start`."""
        if isinstance(call, Call):
            call.take()  # whatever becomes of it here, it was not forgotten
        return self._run(self._wait(self._app.start(call, id=id, deadline=deadline)))

    def get(self, id: str) -> Run[Any]:
        """See `outlast.App.get`."""
        return self._run(self._wait(self._app.get(id)))

    def runs(
        self,
        *,
        status: str | Sequence[str] | None = None,
        reason: str | None = None,
        workflow: str | None = None,
        version: str | None = None,
        id_prefix: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunInfo]:
        """See `outlast.App.runs`."""
        listing = self._app.runs(
            status=status,
            reason=reason,
            workflow=workflow,
            version=version,
            id_prefix=id_prefix,
            limit=limit,
            before=before,
        )
        return self._wait(listing)

    def cancel(self, id: str, *, force: bool = False) -> tuple[str, ...]:
        """See `outlast.App.cancel`."""
        return self._wait(self._app.cancel(id, force=force))

    def hold(self, id: str | None = None, *, workflow: str | None = None, version: str | None = None) -> int:
        """See `outlast.App.hold`."""
        return self._wait(self._app.hold(id, workflow=workflow, version=version))

    def release(self, id: str | None = None, *, workflow: str | None = None, version: str | None = None) -> int:
        """See `outlast.App.release`."""
        return self._wait(self._app.release(id, workflow=workflow, version=version))

    def move(self, workflow: str, to: str, *, id: str | None = None, version: str | None = None) -> int:
        """See `outlast.App.move`."""
        return self._wait(self._app.move(workflow, to, id=id, version=version))

    def send(self, run: str, name: str, value: Any = None, *, id: str | None = None, early: bool = False) -> str:
        """See `outlast.App.send`."""
        return self._wait(self._app.send(run, name, value, id=id, early=early))

    def approvals(
        self,
        *,
        status: str | None = "open",
        run: str | None = None,
        to: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[ApprovalInfo]:
        """See `outlast.App.approvals`."""
        return self._wait(self._app.approvals(status=status, run=run, to=to, limit=limit, after=after))

    def approve(self, id: str, *, by: str = "", note: str = "", form: Any = None) -> ApprovalInfo:
        """See `outlast.App.approve`."""
        return self._wait(self._app.approve(id, by=by, note=note, form=form))

    def reject(self, id: str, *, by: str = "", note: str = "", form: Any = None) -> ApprovalInfo:
        """See `outlast.App.reject`."""
        return self._wait(self._app.reject(id, by=by, note=note, form=form))

    def resume(self, id: str, *, max_tokens: int | None = None, max_cost: float | None = None) -> Run[Any]:
        """See `outlast.App.resume`."""
        return self._run(self._wait(self._app.resume(id, max_tokens=max_tokens, max_cost=max_cost)))

    def resolve(
        self,
        id: str,
        step: str,
        decision: Happened | DidNotHappen | Literal["fail"],
        *,
        attempt: int | None = None,
        by: str = "",
    ) -> None:
        """See `outlast.App.resolve`."""
        self._wait(self._app.resolve(id, step, decision, attempt=attempt, by=by))

    def fork(self, id: str, step: str, *, new_id: str | None = None, repeat_once: bool = False) -> Run[Any]:
        """See `outlast.App.fork`."""
        return self._run(self._wait(self._app.fork(id, step, new_id=new_id, repeat_once=repeat_once)))

    def queues(self) -> list[QueueInfo]:
        """See `outlast.App.queues`."""
        return self._wait(self._app.queues())

    def pause_queue(self, name: str, *, by: str = "") -> None:
        """See `outlast.App.pause_queue`."""
        self._wait(self._app.pause_queue(name, by=by))

    def resume_queue(self, name: str) -> None:
        """See `outlast.App.resume_queue`."""
        self._wait(self._app.resume_queue(name))

    def drain(self, grace: float | None = None) -> None:
        """See `outlast.App.drain`."""
        self._wait(self._app.drain(grace))


class Child(Generic[R]):
    """A child run that a sync workflow started; see `outlast.start`."""

    def __init__(self, call: Call[R]) -> None:
        self._future = detach(call)
        self._ops = call.place.ops
        self._id: str = self._ops.child_id(call)

    @property
    def id(self) -> str:
        """The child's run id."""
        return self._id

    def result(self) -> R:
        """Wait for the child's end; return its result or raise its error."""
        return cast("R", self._ops.block(self._future))


def start(call: Call[R], *, id: str | None = None, when_parent_ends: WhenParentEnds = "continue") -> Child[R]:
    """In a sync workflow: start a child run and go on without waiting for it; see `outlast.start`.

    `when_parent_ends` says what becomes of it when its parent ends. Without this function a call that nobody waits for
    is given up when the body ends. Raises WrongUse elsewhere.
    """
    if not check_child(call, id, when_parent_ends).ops.blocking:
        raise WrongUse("outlast.sync.start is for sync workflows; in an async one write: await outlast.start(...)")
    return Child(call)


def approve(
    question: str,
    *,
    form: Any = None,
    data: Any = None,
    timeout: float | None = None,
    to: str = "",
    key: str | None = None,
) -> Approval[Any]:
    """In a sync workflow: ask people, and wait for the answer; see `outlast.approve`."""
    call = outlast.approve(question, form=form, data=data, timeout=timeout, to=to, key=key)
    return cast("Approval[Any]", _block(call, "approve"))


def _block(call: Call[Any], name: str) -> Any:
    if not call.place.ops.blocking:
        call.take()
        raise WrongUse(f"outlast.sync.{name} blocks; in an async workflow write: await outlast.{name}(...)")
    return call.result()


def receive(name: str, *, type: Any = Any, timeout: float | None = None) -> Any:
    """In a sync workflow: wait for the next message of this name and return its value; see `outlast.receive`."""
    return _block(outlast.receive(name, type=type, timeout=timeout), "receive")


def send(run: str, name: str, value: Any = None, *, id: str | None = None, early: bool = False) -> str:
    """In a sync workflow or step: send a message to another run; see `outlast.send`."""
    if isinstance(here.get(), InBody):
        return outlast.send(run, name, value, id=id, early=early).result()
    return send_blocking(run, name, value, id, early)


def sleep(seconds: float) -> None:
    """Sleep: durably in a sync workflow, where it survives restarts; plainly elsewhere."""
    place = here.get()
    if place is None:
        refuse_lost("outlast.sync.sleep()")
    if not isinstance(place, InBody):
        SystemClock().sleep(seconds)
    elif place.ops.blocking:
        place.ops.sleep(seconds)
    else:
        raise WrongUse("outlast.sync.sleep blocks; in an async workflow write: await asyncio.sleep(...)")


__all__ = [
    "App", "Child", "Run", "Schedule", "Stream", "approve", "map", "receive", "send",
    "sleep", "sleep_until", "start", "stream",
]  # fmt: skip
