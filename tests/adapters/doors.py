"""The adapters that there are, found by their folders, and which of them can be imported here."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "outlast"
ADAPTERS = sorted(path.parent.name for path in (PACKAGE / "adapters").glob("*/__init__.py"))

MODULES = {
    "crewai": ("crewai",),
    "google_adk": ("google.adk", "google.genai"),
    "http": ("httpx2", "httpx"),
    "langgraph": ("langgraph", "langchain", "langchain_core"),
    "mcp": ("mcp_types", "mcp"),  # CrewAI brings an older `mcp`
    "openai_agents": ("agents", "openai"),
    "pydantic_ai": ("pydantic_ai",),
}
"""The modules that an adapter's framework brings; by the first it is known whether it is installed."""


def is_installed(adapter: str) -> bool:
    """Tell whether the framework of an adapter is here."""
    try:
        return importlib.util.find_spec(MODULES[adapter][0]) is not None
    except ModuleNotFoundError:  # of the package that it stands in
        return False


def door(adapter: str) -> ModuleType:
    """Return the public module of an adapter."""
    return importlib.import_module(f"outlast.{adapter}")


def extra_of(adapter: str) -> str:
    """Return the extra that brings an adapter's framework, as pip spells it."""
    return adapter.replace("_", "-")


def page_of(adapter: str) -> Path:
    """Return the page on an adapter."""
    return ROOT / "docs" / f"{extra_of(adapter)}.md"
