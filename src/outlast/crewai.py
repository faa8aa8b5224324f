"""Outlast under CrewAI: `pip install 'outlast[crewai]'`."""

from outlast.adapters.extras import needs

with needs("crewai"):
    from outlast.adapters.crewai.crews import durable

__all__ = ["durable"]
