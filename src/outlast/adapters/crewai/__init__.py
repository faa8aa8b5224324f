"""CrewAI: calls of models and tools as steps of the run in whose workflow a crew works."""
