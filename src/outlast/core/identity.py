"""Names that are the same on every replay, whatever the timing.

A **branch** is a line of control in a workflow: the body itself (`main`), each
task it spawns (`main.fetch#1`: the first task of a coroutine named `fetch`
spawned in `main`), and each `outlast.scope("key")` (`main.[key]`). A call is
named after the branch in which it was created: `main/charge#2` is the second
call of `charge` created in `main`; `main/charge[abc]` has `key="abc"`. All numbers
count creations within one branch, and a branch is one line of control, so no
interleaving of branches can change them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from outlast.core.errors import WrongUse

if TYPE_CHECKING:
    from outlast.core.effects import Place

MAX_ID_LENGTH = 255
"""Longest run id, in characters."""
MAX_KEY_LENGTH = 1_000
"""Longest `key=` of a call and of a scope, in characters."""
MAX_IDENTITY_BYTES = 2_000
"""Of a call that others find by its identity: it stands in an entry of an index."""

_RESERVED = str.maketrans({c: f"%{ord(c):02X}" for c in "%/#.[]"})


def _spelled(key: str) -> str:
    """Return a user's key as identities hold it: whatever a journal could not keep is written as its bytes."""
    text = key.translate(_RESERVED)
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else "".join(f"%{b:02X}" for b in c.encode("utf-8", "surrogatepass")) for c in text
    )


class Branch:
    """One line of control in a workflow body, and its counters."""

    __slots__ = ("counts", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.counts: dict[str, int] = {}

    def _number(self, name: str) -> int:
        n = self.counts.get(name, 0) + 1
        self.counts[name] = n
        return n

    def call(self, name: str, key: str | None = None) -> str:
        """Return the identity of the next call of this name, or of the call with this key."""
        if key is None:
            return f"{self.path}/{name}#{self._number(name)}"
        return self._named(f"{self.path}/{name}", key)

    def timer(self) -> str:
        """Return the identity of the next timer."""
        return f"{self.path}/!timer#{self._number('!timer')}"

    def draw(self, kind: str) -> str:
        """Return a name for the next value drawn of this kind (`uuid4`, `random`)."""
        return f"{self.path}/!{kind}#{self._number('!' + kind)}"

    def task(self, coroutine_name: str) -> Branch:
        """Return the branch of the next task of a coroutine of this name."""
        return Branch(f"{self.path}.{coroutine_name}#{self._number('.' + coroutine_name)}")

    def scope(self, key: str) -> Branch:
        """Return the branch of a scope of this key."""
        return Branch(self._named(f"{self.path}.", key))

    def ordinal(self) -> int:
        """Return the number of the next call or task made in this branch, by which they hash."""
        return self._number("!")

    def current(self) -> Branch:
        """Return the branch that this one is for the code that asks."""
        return self

    def _named(self, prefix: str, key: str) -> str:
        if len(key) > MAX_KEY_LENGTH:
            raise WrongUse(
                f"a key, of a call or a scope, has at most {MAX_KEY_LENGTH} characters; this one has {len(key)}: "
                f"{key[:40]!r}..."
            )
        name = f"{prefix}[{_spelled(key)}]"
        n = self._number(name)
        return name if n == 1 else f"{name}#{n}"


def check_identity(key: str) -> None:
    """Raise WrongUse for the identity of a call that no index can hold."""
    size_bytes = len(key.encode())
    if size_bytes > MAX_IDENTITY_BYTES:
        raise WrongUse(
            f"{key[:80]}... has {size_bytes} bytes, and what others find, a child run or an approval, has at most "
            f"{MAX_IDENTITY_BYTES}; make its key and scopes shorter, or nest fewer tasks"
        )


def shown(key: str) -> str:
    """Return an identity as people see it: timers are `main/timer#1` to them."""
    branch, slash, name = key.rpartition("/")
    return f"{branch}{slash}{name.removeprefix('!')}"


here: ContextVar[Place | None] = ContextVar("outlast_here", default=None)
"""Where this code runs: in a workflow body, in a step, or (None) outside of any run."""


@contextmanager
def placed(place: Place | None) -> Iterator[None]:
    """Set `here` for a `with` block."""
    token = here.set(place)
    try:
        yield
    finally:
        here.reset(token)


def derive(incarnation: str, *parts: str) -> str:
    """Return 32 hex digits that belong to these parts of this incarnation and to nothing else."""
    text = "\0".join((incarnation, *parts)).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def child_run_id(run_id: str, incarnation: str, name: str, key: str) -> str:
    """Return the id of the child run that the call `key` of workflow `name` starts."""
    tail = f".{name}.{derive(incarnation, 'child', key)[:16]}"  # 64 bits: no two of a store's runs meet by chance
    return (run_id[: max(0, MAX_ID_LENGTH - len(tail))] + tail)[-MAX_ID_LENGTH:]


DIGEST_ABOVE_BYTES = 4096
"""Encoded arguments longer than this are recorded as a digest."""


def recorded_args(encoded: bytes) -> bytes:
    """Return encoded arguments as a record keeps them: whole, or `#` and a digest when long."""
    if len(encoded) <= DIGEST_ABOVE_BYTES:
        return encoded
    return b"#" + hashlib.blake2b(encoded, digest_size=32).hexdigest().encode()


def check_run_id(id: Any, what: str = "a run id") -> str:
    """Return the id when it can name a run, or `what` is made into one. Raises WrongUse that says why it cannot."""
    if not isinstance(id, str):
        raise WrongUse(
            f"{what} is a str, not {type(id).__name__} ({id!r}); convert it in one place, so it is spelled one way"
        )
    if not id:
        hint = "; leave `id` out to get a random one" if what == "a run id" else ""
        raise WrongUse(f"{what} cannot be empty{hint}")
    if id.startswith("-"):
        raise WrongUse(f"{what} does not begin with '-', which commands would take for an option: {id!r}")
    if len(id) > MAX_ID_LENGTH:
        raise WrongUse(f"{what} has at most {MAX_ID_LENGTH} characters; this one has {len(id)}: {id[:40]!r}...")
    if id != id.strip() or not id.isprintable():
        raise WrongUse(f"{what} has no control characters and no white space at its ends: {id!r}")
    return id
