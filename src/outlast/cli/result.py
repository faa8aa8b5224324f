"""`outlast result`."""

from __future__ import annotations

from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, RunId, Timeout, Url
from outlast.cli.output import print_json
from outlast.cli.waiting import tell_end, wait_for_end


def result(
    run: RunId, timeout: Timeout = None, url: Url = None, app_name: AppName = None, as_json: Json = False
) -> None:
    """Wait for the end of a run and print its result as JSON.

    A run that fails, is cancelled or gets stuck is told on stderr, and the
    exit code is 1.

    \b
    outlast result order-55
    outlast result order-55 --timeout 0     only look
    """
    where = Where(url, app_name)
    row = with_store(where, lambda app: wait_for_end(app, run, timeout, as_json=as_json, where=where))
    print_json(tell_end(row, as_json=as_json))
