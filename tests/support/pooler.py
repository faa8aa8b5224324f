"""pgbouncer in transaction mode before a server, where the machine has it (Debian's package `pgbouncer`)."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import psycopg

from outlast.stores.postgres.address import parse
from tests.support.postgres import server_url
from tests.support.server import PATIENCE_S, server_user

PROGRAM = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
WHY_NOT = "" if PROGRAM else "pgbouncer is not installed here (Debian's package of this name)"
NAMES = ("host", "port", "dbname", "user", "password")
SETTINGS = """
[databases]
* = {target}
[pgbouncer]
unix_socket_dir = {folder}
listen_addr =
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 400
server_round_robin = 1
ignore_startup_parameters = options
logfile = {folder}/log
"""


class Pooler:
    """A pooler of a test's own."""

    def __init__(self, url: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="outlast-pooler-"))
        libpq = parse(url).libpq
        target = " ".join(f"{name}={libpq[name]}" for name in NAMES if libpq.get(name))
        file = self.folder / "pgbouncer.ini"
        file.write_text(SETTINGS.format(target=target, folder=self.folder))
        if user := server_user():
            for path in (self.folder, file):
                shutil.chown(path, user)
        self._process = subprocess.Popen(
            [str(PROGRAM), str(file)], user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
        )
        end = time.monotonic() + PATIENCE_S
        while not self._serves():
            assert time.monotonic() < end, f"the pooler does not come up: {(self.folder / 'log').read_text()}"
            time.sleep(0.02)

    @property
    def url(self) -> str:
        """The URL of the server's database by way of the pooler."""
        return f"postgresql://postgres@/postgres?host={self.folder}&port=6432"

    def _serves(self) -> bool:
        with suppress(psycopg.Error), psycopg.connect(self.url):
            return True
        return False

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def session_pooler() -> Pooler:
    """Return this process's pooler before the session's server."""
    made = Pooler(server_url())
    atexit.register(made.close)
    return made


def pooled(url: str) -> str:
    """Return a URL of the session's server by way of the pooler."""
    options = [
        option for option in url.partition("?")[2].split("&") if option.partition("=")[0] not in ("host", "port")
    ]
    return "&".join([session_pooler().url, *filter(None, options)])
