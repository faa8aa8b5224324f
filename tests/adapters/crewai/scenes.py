"""The run of a crew whose processes are killed."""

from __future__ import annotations

import json
from collections.abc import Sequence

from outlast import StepInfo
from tests.adapters import scene
from tests.adapters.crewai import program


class Scene(scene.Scene):
    """Its processes are given the form of the kickoff."""

    program = program
    PROCESSES = scene.processes("tests.adapters.crewai.program")
    REQUESTS = ("main1", "sub1", "sub2", "main2", "main3")
    TOOLS = ("weather_Rome", "weather_Paris", "lookup", "pay")

    def named(self, steps: Sequence[StepInfo]) -> set[str]:
        named = set()
        for step in steps:
            if step.name == "model":
                agent = "sub" if "model[sub]" in step.id else "main"
                named.add(f"{agent}{step.id.rpartition('#')[2] if '#' in step.id else 1}")
            elif step.name == "weather":
                named.add(f"weather_{json.loads(step.args)[1]['city']}")
            else:
                named.add(step.name)
        return named
