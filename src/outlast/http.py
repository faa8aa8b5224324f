"""Outlast under clients of httpx and httpx2: `pip install 'outlast[http]'`."""

from outlast.adapters.extras import needs

with needs("http"):
    from outlast.adapters.http.answers import FailedResponse
    from outlast.adapters.http.transport import DurableTransport

__all__ = ["DurableTransport", "FailedResponse"]
