"""The primary is killed and its synchronous standby takes its place: nothing that was acknowledged is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from outlast.core.transitions import Status
from tests.crash.harness.fleet import Fleet
from tests.crash.harness.scene import Zygote
from tests.crash.harness.verdict import judge
from tests.crash.harness.worker import find
from tests.support.server import Server
from tests.support.wire import Wire

MIX = ("errand", "chore", "letter")


@pytest.fixture
def pair() -> Iterator[tuple[Server, Server]]:
    """Return a primary and a standby that each of its commits waits for."""
    with Server() as primary, Server() as standby:
        primary.make().start()
        standby.copy(primary).start()
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("SELECT pg_reload_conf()")
        while primary.execute("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
            pass
        yield primary, standby


def by_several_hosts(pair: tuple[Server, Server]) -> str:
    """Return a URL with which libpq finds the primary by itself."""
    hosts = ",".join(str(server.folder) for server in pair)
    return f"postgresql://postgres@/postgres?host={hosts}&target_session_attrs=read-write&connect_timeout=2"


@pytest.mark.parametrize("way", ["several hosts in the URL", "a proxy that is redirected"])
def test_a_fleet_goes_on_at_the_standby_and_nothing_acknowledged_is_lost(
    zygote: Zygote, pair: tuple[Server, Server], tmp_path: Path, way: str
) -> None:
    primary, standby = pair
    with ExitStack() as stack, Wire.to(primary.url) as wire:
        url = by_several_hosts(pair) if way.startswith("several") else wire.url(primary.url, connect_timeout=2)
        fleet = stack.enter_context(
            closing(Fleet(zygote, tmp_path / "scene", url, by_several_hosts(pair), lease=3.0, pace_s=0.01))
        )
        crew = [fleet.worker() for _ in range(2)]
        with fleet.client() as app:
            runs = []
            for n in range(24):
                name = MIX[n % len(MIX)]
                runs.append(app.start(find(name)(f"{n}"), id=f"{name}-{n}"))
                fleet.accepted[runs[-1].id] = (name, [f"{n}"])
                if n == 12:
                    results = {run.id: run.result(timeout=20.0) for run in runs[:3]}
                    primary.stop(signal.SIGKILL)
                    standby.promote()
                    wire.target = f"{standby.folder}/.s.PGSQL.5432"
        assert judge(fleet) == []
        assert {run: fleet.row(run).status for run in results} == dict.fromkeys(results, Status.SUCCEEDED)
        assert not any(worker.ended for worker in crew)
