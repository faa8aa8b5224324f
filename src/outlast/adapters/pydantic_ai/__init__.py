"""Outlast under Pydantic AI, through the framework's public interface for engines of durable execution."""
