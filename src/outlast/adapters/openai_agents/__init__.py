"""Outlast under the OpenAI Agents SDK; what is public of it is in `outlast.openai_agents`."""
