"""Outlast under the OpenAI Agents SDK: `pip install 'outlast[openai-agents]'`."""

from outlast.adapters.extras import needs

with needs("openai_agents"):
    from outlast.adapters.openai_agents.approvals import decide
    from outlast.adapters.openai_agents.runner import DurableRunner, install
    from outlast.adapters.openai_agents.sessions import DurableSession, SessionChanged

__all__ = ["DurableRunner", "DurableSession", "SessionChanged", "decide", "install"]
