"""The run of a graph whose processes are killed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from outlast import StepInfo
from tests.adapters import scene
from tests.adapters.langgraph import desk


class Scene(scene.Scene):
    """A run of the desk."""

    program = desk
    PROCESSES = scene.processes("tests.adapters.langgraph.desk")
    REQUESTS = ("main1", "sub1", "sub2", "main2", "main3")
    TOOLS = ("weather_Rome", "weather_Paris", "lookup", "pay", "file_away")

    def named(self, steps: Sequence[StepInfo]) -> set[str]:
        named, requests = set(), Counter[str]()
        for step in steps:
            if step.name == "model":
                agent = "sub" if ".[ask:" in step.id else "main"
                requests[agent] += 1
                named.add(f"{agent}{requests[agent]}")
            elif step.name == "weather":
                named.add(f"weather_{json.loads(step.args)[1]['city']}")
            else:
                named.add(step.name)
        return named

    def told(self, result: Any) -> list[Any]:
        """Return the messages of a result, but for the ids that are drawn."""
        return [
            (
                message.type,
                message.content,
                getattr(message, "tool_calls", None),
                getattr(message, "tool_call_id", None),
            )
            for message in result["messages"]
        ]
