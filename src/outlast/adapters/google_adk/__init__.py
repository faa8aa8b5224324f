"""Google ADK: calls of models and tools as steps of the run in whose workflow an agent runs."""
