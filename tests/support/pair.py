"""A primary and the synchronous standby that each of its commits waits for; the one takes the other's place."""

from __future__ import annotations

import shutil
import signal
import time
from types import TracebackType

from tests.support.server import PATIENCE_S, Server


class Pair:
    """Two servers. `primary` is the one that is written, whichever of the two that is by now."""

    def __init__(self) -> None:
        self._both = (Server(), Server())
        self.primary, self.standby = self._both

    def start(self) -> Pair:
        """Make the primary, and have the standby follow it."""
        self.primary.make().start()
        self._follow()
        return self

    @property
    def url(self) -> str:
        """A URL with which libpq finds the primary by itself."""
        hosts = ",".join(str(server.folder) for server in self._both)
        return f"postgresql://postgres@/postgres?host={hosts}&target_session_attrs=read-write&connect_timeout=2"

    def until_in_sync(self) -> None:
        """Wait until the standby has all that is committed, and each commit waits for it."""
        end = time.monotonic() + PATIENCE_S
        while self.primary.execute("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
            assert time.monotonic() < end, "the standby does not follow"

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby. The old one is of no use until `repair`."""
        self.primary.stop(signal.SIGKILL)
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def repair(self) -> None:
        """Make of the old primary a standby of the new one."""
        shutil.rmtree(self.standby.data)
        self._follow()

    def _follow(self) -> None:
        self.standby.copy(self.primary).start()
        # The copy has no such setting: alone, after its promotion, it waits for nobody.
        self.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.execute("SELECT pg_reload_conf()")
        self.until_in_sync()

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for server in self._both:
            server.remove()
