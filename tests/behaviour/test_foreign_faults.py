"""What a user's codec or the machine does wrong holds no run up in silence."""

from __future__ import annotations

from typing import Any

import pytest

from outlast import App, RunStuck, step, workflow
from outlast.codec import JsonCodec
from outlast.runtime import worker as worker_module
from tests.behaviour.gated_store import Gate
from tests.behaviour.stage import Ears, OpenApp, stuck


class KeyLost(Exception):
    """What a library for encryption raises."""


class OneKey:
    """A codec that reads only what was written with the key that it has now."""

    key = b"1"

    def __init__(self) -> None:
        self.inner = JsonCodec()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def encode(self, value: object) -> bytes:
        return self.key + self.inner.encode(value)

    def comparable(self, value: object, encoded: bytes) -> bytes:
        return encoded

    def decode(self, data: bytes, type: object = Any) -> Any:
        if not data.startswith(self.key):
            raise KeyLost("no key opens this")
        return self.inner.decode(data[1:], type)


@step
async def fetch() -> str:
    return "fetched"


@workflow
async def fetching(what: str) -> str:
    return await fetch() + what


async def test_a_run_whose_codec_raises_an_error_of_its_own_is_stuck_and_named(open_app: OpenApp) -> None:
    old = OneKey()
    async with open_app(codec=old, worker=False) as app:
        await app.start(fetching("!"), id="one")
    new = OneKey()
    new.key = b"2"
    async with open_app(codec=new) as app:
        info = await stuck(await app.get("one"))
        assert (info.reason, "KeyLost: no key opens this" in info.detail) == ("undecodable", True)
        with pytest.raises(RunStuck, match="one"):
            await (await app.get("one")).result()
        new.key = b"1"
        assert await (await app.resume("one")).result() == "fetched!"


async def test_a_worker_that_cannot_have_its_lock_file_goes_on_trying(
    sqlite_url: str, gate: Gate, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "REGISTER_AGAIN_S", 0.01)
    tries = 0
    real: Any = worker_module.LockFile

    def lock_file(*args: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise PermissionError("the folder cannot be written")
        return real(*args)

    others = Ears()
    async with App(sqlite_url, on_event=ears, lease=0.3) as app:
        first = ears.heard("worker.started")[0].data["worker"]
        gate.hold_worker(first)
        async with App(sqlite_url, on_event=others, lease=0.3):
            monkeypatch.setattr(worker_module, "LockFile", lock_file)
            await others.hear("worker.took_over", dead=first)
            gate.release()
            await ears.hear("worker.started", 2)
        assert await (await app.start(fetching("!"))).result() == "fetched!"
    assert tries == 3
