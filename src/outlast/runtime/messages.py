"""Messages, as the code in a workflow or a step sends and receives them."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from outlast.codec.conversion import from_json
from outlast.core.arguments import check_flag, check_name, check_wait
from outlast.core.codec import Codec
from outlast.core.definitions import AsyncStep, Call
from outlast.core.effects import InStep, Post
from outlast.core.errors import RunEnded, RunNotFound, StoreError, WrongUse
from outlast.core.identity import check_run_id, derive
from outlast.core.records import InboxRow, Kind
from outlast.core.settings import Settings
from outlast.core.waits import Taken, Wait
from outlast.runtime.operations import body_here, step_here
from outlast.stores.rules import ended_as
from outlast.stores.verbs import Answer, Done, Refused, Send

T = TypeVar("T")

OF_RUNS = "in a workflow or a step (others send with app.send)"


class MessageWait(Wait[Any]):
    """A wait for the next message of a name."""

    def read(self, codec: Codec, row: InboxRow) -> Taken:
        given = codec.decode(row.value or b"null", self.returns)
        value = from_json(given, self.returns, strict=True)  # who sent it may have had plain JSON
        data = (row.value or b"null") if value is given else codec.encode(value)
        return Taken(data, value if value is given else codec.decode(data, self.returns), None)


@overload
def receive(name: str, *, timeout: float | None = None) -> Call[Any]: ...


@overload
def receive(name: str, *, type: type[T], timeout: float | None = None) -> Call[T]: ...


@overload
def receive(name: str, *, type: Any, timeout: float | None = None) -> Call[Any]: ...


def receive(name: str, *, type: Any = Any, timeout: float | None = None) -> Call[Any]:
    """Wait in a workflow for the next message of this name that was sent to the run, and return its value.

    Messages are kept for the run from the moment they are sent, also before it waits, and each is taken once, in the
    order in which they were sent. `type` is what the value is to be: plain JSON is made into it (a dataclass, a
    pydantic model, a date...). `timeout` in seconds; then TimeoutError is raised and no message is taken, as when the
    wait is cancelled. Several waits for one name take turns, the oldest first. Raises DecodingError for a message
    that is not of the type (it is taken all the same), WrongUse outside of a workflow.
    """
    place = body_here(f"receive({name!r})")
    check_message_name(name)
    if timeout is not None:
        check_wait("outlast.receive", "timeout", timeout)
    return Call(MessageWait("!receive", name, type, timeout), (), {}, Settings(key=name), place)


def send(run: str, name: str, value: Any = None, *, id: str | None = None, early: bool = False) -> Call[str]:
    """Send a message to another run, from a workflow or a step: `await outlast.send("order-55", "paid", True)`.

    It leaves when all that was recorded before is committed, and arrives once, whatever is repeated. Returns its id:
    `id`, or one that belongs to this call. With `early` it is kept for a run that is still to be started. Raises
    RunEnded, RunNotFound, EncodingError, WrongUse.
    """
    check_message_name(name)
    return _SEND.call(check_run_id(run), name, value, id, early)


async def _send(run: str, name: str, value: Any, id: str | None, early: bool) -> str:
    place = step_here("send()", OF_RUNS)
    verb = verb_of(place, run, name, value, id, early)
    check_answer(verb, await _post(place).ask(place, verb))
    return verb.message_id


def send_blocking(run: str, name: str, value: Any, id: str | None, early: bool) -> str:
    """Send a message from a thread that executes a step."""
    place = step_here("sync.send()", OF_RUNS)
    verb = verb_of(place, check_run_id(run), name, value, id, early)
    check_answer(verb, _post(place).ask_from_thread(place, verb))
    return verb.message_id


_SEND = AsyncStep[[str, str, Any, "str | None", bool], str](_send, "send", Settings())
_SEND.name = "!send"  # unlike any name that a step of the user's can have


def verb_of(place: InStep, run: str, name: str, value: Any, id: str | None, early: bool) -> Send:
    """Return the verb by which a step sends; its message id is the same in each attempt."""
    place.sent += 1
    message_id = check_message_id(id) if id is not None else derive(place.idempotency_key, "message", str(place.sent))
    return message(_post(place).codec, run, name, value, message_id, early)


def _post(place: InStep) -> Post:
    if place.post is None:
        raise WrongUse(
            f"outlast.send was called in the confirm of step {place.step_id} (run {place.run_id}), which may be asked "
            "any number of times; let it answer, and send in a step"
        )
    return place.post


def message(codec: Any, run: str, name: str, value: Any, message_id: str, early: bool) -> Send:
    """Return the verb that sends a message. Raises EncodingError, WrongUse."""
    check_message_name(name)
    check_flag("send", "early", early)
    return Send(id=run, kind=Kind.MESSAGE, key=name, message_id=message_id, value=codec.encode(value), early=early)


def check_answer(verb: Send, answer: Answer) -> None:
    """Raise what keeps a message from its run."""
    if isinstance(answer, Done):
        return
    if isinstance(answer, Refused) and answer.run is not None:
        raise RunEnded(f"run {verb.id} takes no message {verb.key!r} any more: it {ended_as(answer.run.status)}")
    if isinstance(answer, Refused):
        raise RunNotFound(
            f"no run has the id {verb.id!r}, so there is nobody for the message {verb.key!r}; with --early (in "
            "Python: early=True) it is kept until the run is started"
        )
    raise StoreError(f"the message {verb.key!r} to run {verb.id} was not sent: {getattr(answer, 'why', answer)}")


def check_message_name(name: Any) -> str:
    """Return the name of a message. Raises WrongUse for one that cannot be."""
    if check_name(name, "name a message").startswith("!"):
        raise WrongUse(f"{name!r} cannot name a message: those that begin with ! are Outlast's own")
    return str(name)


def check_message_id(id: Any) -> str:
    """Return the id of a message. Raises WrongUse for one that cannot be."""
    return check_name(id, "be the id of a message")
