"""The run of an agent of Pydantic AI whose processes are killed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from outlast import StepInfo
from tests.adapters import scene
from tests.adapters.pydantic_ai import program


class Scene(scene.Scene):
    """A run of the desk."""

    program = program
    PROCESSES = scene.processes("tests.adapters.pydantic_ai.program")
    REQUESTS = ("main1", "sub1", "sub2", "main2", "main3")
    TOOLS = ("weather_Rome", "weather_Paris", "lookup", "pay")

    def named(self, steps: Sequence[StepInfo]) -> set[str]:
        named = set()
        for step in steps:
            agent = "sub" if ".[sub]" in step.id else "main"
            if step.name == "model":
                named.add(f"{agent}{step.id.rpartition('#')[2]}")
            elif step.name == "weather":
                named.add(f"weather_{json.loads(step.args)[1]['city']}")
            else:
                named.add(step.name)
        return named

    def told(self, result: Any) -> Any:
        """Leave out of messages when they were, and the ids of runs."""
        if isinstance(result, dict):
            left_out = ("timestamp", "run_id", "conversation_id", "provider_url")
            return {name: self.told(value) for name, value in result.items() if name not in left_out}
        return [self.told(value) for value in result] if isinstance(result, list) else result
