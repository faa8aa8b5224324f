"""Outlast under LangGraph: `pip install 'outlast[langgraph]'`."""

from outlast.adapters.extras import needs

with needs("langgraph"):
    import outlast.adapters.langgraph.threads  # noqa: F401 - what will be public here rests on it

__all__: list[str] = []
