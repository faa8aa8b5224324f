"""Outlast under LangGraph: `pip install 'outlast[langgraph]'`."""

from outlast.adapters.extras import needs

with needs("langgraph"):
    from outlast.adapters.langgraph.durable import durable
    from outlast.adapters.langgraph.errors import ThreadConflict, ThreadOwned
    from outlast.adapters.langgraph.middleware import Middleware
    from outlast.adapters.langgraph.models import durable_model
    from outlast.adapters.langgraph.saver import Saver

__all__ = ["Middleware", "Saver", "ThreadConflict", "ThreadOwned", "durable", "durable_model"]
