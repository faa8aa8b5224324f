"""The run of an agent of Google's framework whose processes are killed."""

from __future__ import annotations

import json
from collections.abc import Sequence

from outlast import StepInfo
from tests.adapters import scene
from tests.adapters.google_adk import program
from tests.adapters.google_adk.gemini import GeminiStandIn


class Scene(scene.Scene):
    """Its processes are given whether the framework's own App is resumable."""

    program = program
    PROCESSES = scene.processes("tests.adapters.google_adk.program")
    REQUESTS = ("main1", "sub1", "sub2", "main2", "main3")
    TOOLS = ("weather_Rome", "weather_Paris", "lookup", "pay")
    KIND = GeminiStandIn

    def named(self, steps: Sequence[StepInfo]) -> set[str]:
        named = set()
        for step in steps:
            if step.name == "model":
                agent = "sub" if "sub]" in step.id else "main"
                named.add(f"{agent}{step.id.rpartition('#')[2] if '#' in step.id else 1}")
            elif step.name == "weather":
                named.add(f"weather_{json.loads(step.args)[1]['city']}")
            else:
                named.add(step.name)
        return named
