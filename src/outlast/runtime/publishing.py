"""Values and streams, as the code in a workflow or a step makes them: `outlast.publish`, `outlast.stream`."""

from __future__ import annotations

import threading
from typing import Any

from outlast.core.arguments import check_name
from outlast.core.effects import InBody, InStep, Operations, Output
from outlast.core.errors import WrongUse
from outlast.core.identity import here
from outlast.core.lost import refuse_lost


def publish(name: str, value: Any) -> None:
    """Let others see a value of this run: `outlast.publish("progress", 0.5)`, in a workflow or a step.

    `await run.value("progress")` gives the last one. In a workflow it leaves with the record of what came before, and
    once, whatever is replayed; in a step soon, and no attempt that was given up can publish any more. Raises
    EncodingError for a value that cannot be stored, WrongUse for a name that cannot be, and outside of a run.
    """
    output_here("publish()").publish(check_name(name, "name a value"), value)


class Stream:
    """A stream of this run, to be written in a workflow or a step: see `outlast.stream`."""

    def __init__(self, name: str) -> None:
        self.name = check_name(name, "name a stream")

    def __repr__(self) -> str:
        return f"<Stream {self.name}>"

    def write(self, item: Any) -> None:
        """Add an item to the end. Does not wait for its commit (a step's outcome does).

        In a thread it waits while too much is on its way. Raises EncodingError for what cannot be stored, StreamFull in
        async code that writes on and on and never drains, CancelledError in a step that was given up, WrongUse outside
        of a run.
        """
        output_here(f"stream({self.name!r}).write()").write(self.name, item)

    async def drain(self) -> None:
        """Wait in a step while too much of what it wrote is on its way to the store; as a rule not at all.

        In a workflow it returns at once: what a turn of its body writes leaves when the turn ends.
        """
        place = output_here(f"stream({self.name!r}).drain()")
        if isinstance(place, Output):
            await place.drain()


def stream(name: str) -> Stream:
    """Return the stream of this name of the run: `outlast.stream("tokens").write(token)`, in a workflow or a step.

    Any steps of the run, and its body, may write to it, also at the same time. `run.stream("tokens")` reads it. Items
    are written in batches; what a step wrote is dropped again when another attempt of it writes or its outcome is
    another attempt's. Raises WrongUse for a name that cannot be.
    """
    return Stream(name)


def output_here(what: str) -> Operations | Output:
    """Return where what this code makes goes to. Raises WrongUse outside of a run."""
    place = here.get()
    if isinstance(place, InBody):
        return place.ops
    if isinstance(place, InStep):
        return place.output or _opened(place)
    if place is None:
        refuse_lost(f"outlast.{what}")
    raise WrongUse(f"outlast.{what} belongs in a workflow or a step, and was called outside of any run")


_opening = threading.Lock()


def _opened(place: InStep) -> Output:
    """Open the output of a step, most of which write nothing."""
    with _opening:  # several threads of the step may come at once
        if place.output is None:
            if place.open_output is None:
                raise WrongUse(f"step {place.step_id} can neither publish nor write to a stream here")
            place.output = place.open_output(place)
        return place.output
