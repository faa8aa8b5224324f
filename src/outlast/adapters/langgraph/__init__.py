"""Outlast under LangGraph; what is public of it is in `outlast.langgraph`."""
