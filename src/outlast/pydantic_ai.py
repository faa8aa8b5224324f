"""Outlast under Pydantic AI: `pip install 'outlast[pydantic-ai]'`."""

from outlast.adapters.extras import needs

with needs("pydantic_ai"):
    from outlast.adapters.pydantic_ai.durable import Durable
    from outlast.adapters.pydantic_ai.waiting import fail_event, resolve_event

__all__ = ["Durable", "fail_event", "resolve_event"]
