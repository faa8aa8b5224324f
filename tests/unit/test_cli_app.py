"""`--app`: the command line with the settings of the program's own App, such as a codec that encrypts."""

from __future__ import annotations

import json
import signal

import apsw
import pytest

from outlast.cli.exits import ExitCode
from tests.unit.outlast_command import Outlast

SHOP = '''
import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import outlast
from outlast import App
from outlast.codec import JsonCodec, WrappedCodec

KEY = os.environ.get("SHOP_KEY", "").encode()


def stream(nonce, size):
    """A keystream: SHA-256 in counter mode under the key."""
    blocks = (hmac.digest(KEY, nonce + n.to_bytes(8, "big"), "sha256") for n in range(size // 32 + 1))
    return b"".join(blocks)[:size]


def encrypt(data):
    nonce = secrets.token_bytes(16)
    sealed = nonce + bytes(a ^ b for a, b in zip(data, stream(nonce, len(data))))
    return sealed + hmac.digest(KEY, sealed, "sha256")


def decrypt(data):
    sealed, mark = data[:-32], data[-32:]
    if not hmac.compare_digest(mark, hmac.digest(KEY, sealed, "sha256")):
        raise ValueError("not sealed with this key")
    return bytes(a ^ b for a, b in zip(sealed[16:], stream(sealed[:16], len(sealed) - 16)))


def heard(notice):
    if notice.name == "run.ended":
        Path("heard").open("a").write(notice.data["run"])


def make():
    codec = WrappedCodec(JsonCodec(), wrap=encrypt, unwrap=decrypt)
    return App("sealed.db", codec=codec, on_event=heard, version="7", park_after=0.05, grace=0.1)


ready_made = make()
number = 7


def broken():
    raise LookupError("no settings here")


@dataclass
class Card:
    number: str


@outlast.step(effect="once")
async def charge(card: Card) -> str:
    if card.number == "bad":
        raise ConnectionError("secret detail")
    return f"charged {card.number}"


@outlast.workflow
async def pay(card: Card) -> str:
    return await charge(card)


@outlast.workflow
async def fails() -> None:
    raise ValueError("a secret reason")
'''

KEY = {"SHOP_KEY": "the key of the shop"}
APP = ("--app", "shop.py:make")


@pytest.fixture
def command(command: Outlast) -> Outlast:
    command.write("shop.py", SHOP)
    return command


def say(command: Outlast, *words: str, code: int = 0, **env: str) -> str:
    """Run a command with the key; return what it printed, or the error that it told."""
    result = command(*words, **(KEY | env))
    assert result.returncode == code, result.stderr
    assert "outlast/" not in result.stderr  # no line of a traceback but the user's own
    return result.stdout if code == 0 else result.stderr


def stored(command: Outlast) -> bytes:
    """Return all bytes of the store's values, and its texts."""
    db = apsw.Connection(str(command.folder / "sealed.db"))
    rows = [
        *db.execute("SELECT input FROM inputs"),
        *db.execute("SELECT result, error FROM runs"),
        *db.execute("SELECT args, value FROM records"),
    ]
    db.close()
    return b"".join(value for row in rows for value in row if isinstance(value, bytes))


def test_a_fleet_with_an_encrypting_codec_is_run_and_looked_at_from_the_command_line(command: Outlast) -> None:
    with command.process("worker", "shop.py", *APP, **KEY) as worker:
        worker.wait_for("ready: serving")
        said = say(command, "start", "shop.py:pay", '[{"number": "4242"}]', "--id", "good", "--wait", *APP)
        assert json.loads(said) == "charged 4242"
        assert json.loads(say(command, "result", "good", *APP)) == "charged 4242"
        say(command, "start", "shop.py:fails", "--id", "fails", "--wait", *APP, code=ExitCode.FAILED)
        say(command, "start", "shop.py:pay", '[{"number": "bad"}]', "--id", "bad", "--wait", *APP, code=ExitCode.FAILED)
        decide = ("--happened", '"charged by hand"', *APP)
        assert "goes on with the run" in say(command, "resolve", "bad", "charge", *decide)
        assert json.loads(say(command, "result", "bad", *APP)) == "charged by hand"
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0
    assert set((command.folder / "heard").read_text()) >= set("good")
    shown = say(command, "show", "good", *APP)
    assert 'arguments ({"number": "4242"})' in shown
    assert '= "charged 4242"' in shown
    assert 'result    "charged 4242"' in shown
    assert "shop:pay  7  Python" in shown
    assert "ValueError: a secret reason" in say(command, "show", "fails", *APP)
    assert "a secret reason" in say(command, "runs", *APP)
    found = json.loads(say(command, "show", "good", "--json", *APP))
    assert (found["run"]["arguments"], found["run"]["result"]) == ([[{"number": "4242"}], {}], "charged 4242")
    assert found["steps"][0]["value"] == "charged 4242"
    for secret in (b"4242", b"charged", b"secret"):
        assert secret not in stored(command)


def test_without_the_app_or_with_another_key_such_values_are_not_shown(command: Outlast) -> None:
    say(command, "start", "shop.py:pay", '[{"number": "4242"}]', "--id", "r", "--here", *APP)
    for words, env in ((("--url", "sealed.db"), {}), (APP, {"SHOP_KEY": "another"})):
        assert "4242" not in say(command, "show", "r", *words, **env)
        assert "4242" not in say(command, "result", "r", *words, **env)


def test_the_app_can_be_named_by_the_environment_and_be_made_already(command: Outlast) -> None:
    env = {"OUTLAST_APP": "shop:ready_made"}
    assert json.loads(say(command, "start", "shop:pay", '[{"number": "1"}]', "--id", "r", "--here", **env))
    assert json.loads(say(command, "result", "r", **env)) == "charged 1"
    for verb in ("runs", "doctor"):
        assert "1" in say(command, verb, **env)
    assert say(command, "fork", "r", "charge", "--repeat-once", "--id", "again", **env) == "again\n"
    assert say(command, "cancel", "again", **env)
    say(command, "start", "shop:fails", "--id", "fails", "--here", code=ExitCode.FAILED, **env)
    assert "is pending again" in say(command, "resume", "fails", **env)


def test_a_url_goes_before_that_of_the_app(command: Outlast) -> None:
    (command.folder / "other").mkdir()
    url = "other/copy.db"
    say(command, "start", "shop.py:pay", '[{"number": "1"}]', "--id", "r", *APP, "--url", url)
    assert not (command.folder / "sealed.db").exists()
    assert 'arguments ({"number": "1"})' in say(command, "show", "r", *APP, "--url", url)


def test_advice_names_the_app(command: Outlast) -> None:
    say(command, "start", "shop.py:fails", "--id", "r", "--here", *APP, code=ExitCode.FAILED)
    assert "  outlast resume r --app shop.py:make" in say(command, "show", "r", *APP)


@pytest.mark.parametrize(
    ("app", "says"),
    [
        ("shop.py", "is not CODE:NAME"),
        ("shop.py:nothing", "shop.py has no nothing"),
        ("shop.py:number", "shop.py:number is 7; --app takes an outlast.App"),
        ("shop.py:stream", "shop.py:stream did not make an App"),
        ("shop.py:secrets.token_hex", "gave"),
        ("shop.py:broken", "LookupError: no settings here"),
        ("nothing.py:make", "there is no file nothing.py"),
    ],
)
def test_what_is_no_app_is_refused(command: Outlast, app: str, says: str) -> None:
    stderr = command("runs", "--app", app).stderr
    assert says in stderr
    assert command("worker", "shop.py", "--app", app).returncode == ExitCode.WRONG_USE
    assert not (command.folder / "sealed.db").exists()


@pytest.mark.parametrize("option", ["--lease", "--grace", "--worker-concurrency", "--max-threads", "--version"])
def test_settings_of_the_app_are_not_given_beside_it(command: Outlast, option: str) -> None:
    stderr = say(command, "worker", "shop.py", *APP, option, "5", code=ExitCode.WRONG_USE)
    assert f"{option} is a setting of the App that shop.py:make gives" in stderr
    assert "App(" in stderr
