"""Writes `docs/api/`: a page for each public name, made of its signature, its docstring and an example.

    python docs/build_api.py

The examples are in `docs/api/_examples.md`, a section for each name. `tests/docs/test_api.py` fails when the pages are
not what this script would write.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
import typing
from pathlib import Path
from typing import Any

import outlast
from outlast.core.definitions import AsyncStep
from outlast.core.workflows import Workflow

FOLDER = Path(__file__).resolve().parent / "api"
EXAMPLES = FOLDER / "_examples.md"
NOTE = "<!-- Made by docs/build_api.py from docstrings and docs/api/_examples.md: edit those. -->\n"
WIDTH = 100

GROUPS = {
    "Defining": (
        "step",
        "transaction",
        "workflow",
        "queue",
        "Queue",
        "rate",
        "Rate",
        "schedule",
        "Retry",
        "Price",
        "Happened",
        "DidNotHappen",
        "Unknown",
        "Call",
    ),
    "In a workflow": (
        "call",
        "map",
        "start",
        "receive",
        "approve",
        "Approval",
        "compensate",
        "continue_as",
        "sleep_until",
        "scope",
        "patched",
        "now",
        "uuid4",
        "random",
    ),
    "Running": (
        "App",
        "outbox",
        "Run",
        "RunInfo",
        "StepInfo",
        "Usage",
        "Tokens",
        "MessageInfo",
        "ApprovalInfo",
        "QueueInfo",
        "StreamItem",
        "StreamReset",
        "Schedule",
        "ScheduleInfo",
        "Notice",
    ),
    "Under a framework": ("effect",),
    "In a step": ("idempotency_key", "attempt", "fence", "heartbeat", "annotate", "record_usage"),
    "In both": ("send", "publish", "stream", "Stream", "current"),
}
ERRORS = "Errors"  # all that are exceptions, in the order of `core/errors.py`

QUEUES = ("queues", "pause_queue", "resume_queue")
SCHEDULING = ("schedule", "get_schedule", "schedules")
ASKING = ("send", "approvals", "approve", "reject")
# What of a class is public; a class that is not here shows none of its members.
MEMBERS = {
    "App": (
        "start",
        "run",
        "get",
        "runs",
        *ASKING,
        "cancel",
        "hold",
        "release",
        "move",
        "resume",
        "resolve",
        "fork",
        *SCHEDULING,
        *QUEUES,
        "drain",
        "close",
    ),
    "Call": ("result", "is_step"),
    "Run": (
        "id",
        "workflow",
        "result",
        "status",
        "info",
        "steps",
        "send",
        "messages",
        "approvals",
        "value",
        "values",
        "stream",
        "usage",
        "cancel",
    ),
    "Stream": ("write", "drain"),
    "Tokens": ("total",),
    "Price": ("cost",),
    "Schedule": ("name", "info", "upcoming", "pause", "resume", "trigger", "backfill", "delete"),
    "current": ("run_id", "workflow", "step_id", "logger"),
}
MADE = {"step": (AsyncStep, ("options",)), "workflow": (Workflow, ("options",))}
"""What is public of that which a decorator makes."""
SYNC = "sync"  # the module with a page of its own, and what of its classes is shown
MEMBERS_OF_SYNC = {
    "App": MEMBERS["App"][:-1],
    "Run": MEMBERS["Run"],
    "Stream": ("write", "drain"),
    "Schedule": MEMBERS["Schedule"],
    "Child": ("id", "result"),
}
LEFT_OUT: Any = ...
"""The default of what may be left out, where leaving it out is unlike any value."""
SPELLED = {  # names of the source that say nothing to a reader
    r"'": '"',
    r"\b_uuid\.": "uuid.",
    r"\bdt\.": "datetime.",
    r"\b_WorkflowOptions\b": "Workflow",
    r"\b_(Step|Transaction|Workflow)Decorator\b": "Callable",
    r"\bErrors\b": "tuple[type[BaseException], ...]",
    r"\bListener\b": "Callable[[Notice], None]",
}
NOT_CONSTRUCTED = {
    "Call",
    "Run",
    "RunInfo",
    "StepInfo",
    "MessageInfo",
    "Stream",
    "StreamItem",
    "StreamReset",
    "Schedule",
    "ScheduleInfo",
    "Notice",
    "Usage",
    "Tokens",
    "Queue",
    "QueueInfo",
    "Rate",
}  # users get these, and do not make them


def groups() -> dict[str, tuple[str, ...]]:
    """Return the public names by group; every one is in exactly one."""
    order = list(vars(importlib.import_module("outlast.core.errors")))
    errors = [name for name in outlast.__all__ if _is_error(getattr(outlast, name))]
    return GROUPS | {ERRORS: tuple(sorted(errors, key=order.index))}


def file_of(name: str) -> str:
    """Return the name of a page's file. Names that differ only in case need files that some systems can tell apart."""
    twin = any(other != name and other.lower() == name.lower() for other in outlast.__all__)
    return f"{name}-class.md" if twin and name[0].isupper() else f"{name}.md"


def pages() -> dict[str, str]:
    """Return the text of every page, by the name of its file."""
    examples = _examples()
    made = {file_of(name): _page(name, examples) for names in groups().values() for name in names}
    return {"index.md": _index(), f"{SYNC}.md": _sync_page(), **made}


def _examples() -> dict[str, str]:
    text = EXAMPLES.read_text(encoding="utf-8")
    sections = re.split(r"^## (\w+)$", text, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(sections[1::2], sections[2::2], strict=True)}


def _index() -> str:
    lines = [NOTE, "# API", "", "One page for each public name. Everything here is imported from `outlast`:", ""]
    lines += ["```py", "import outlast", "from outlast import App, Retry, step, workflow", "```", ""]
    for group, names in groups().items():
        lines += [f"## {group}", "", "| name | in a sentence |", "|---|---|"]
        lines += [f"| [`{name}`]({file_of(name)}) | {_first_sentence(name)} |" for name in names]
        lines.append("")
    lines += [
        "## Beside these",
        "",
        f"- [`outlast.sync`]({SYNC}.md) has `App` and `Run` with the same methods, blocking, and a durable",
        "  `sleep` and a `start` for sync workflows; see [Calling things](../calling.md#sync-workflows).",
        "- `outlast.codec` has `JsonCodec`, `WrappedCodec` and the protocol `Codec`; see",
        "  [Values](../values.md#encryption-compression-another-codec).",
        "",
    ]
    return "\n".join(lines)


def _page(name: str, examples: dict[str, str]) -> str:
    value = getattr(outlast, name)
    parts = [NOTE, f"# outlast.{name}\n", f"```py\n{_signature(name, value)}\n```\n", f"{_doc(value)}\n"]
    if _is_error(value):
        parts.append(f"{_lineage(value)} [Errors](../errors.md) says when it is raised and what to do.\n")
    parts.append(f"## Example\n\n{examples[name]}\n")
    owner = value if inspect.isclass(value) else type(value)
    if name in MADE:
        made, members = MADE[name]
        parts.append("## Members of what it makes\n")
        parts += [_member(made, member) for member in members]
    if name in MEMBERS:
        parts.append("## Members\n")
        parts += [_member(owner, member) for member in MEMBERS[name]]
    return "\n".join(parts)


def _sync_page() -> str:
    """Return the page of `outlast.sync`, with all of its names."""
    module = importlib.import_module(f"outlast.{SYNC}")
    parts = [NOTE, f"# outlast.{SYNC}\n", f"{_doc(module)}\n"]
    for name in module.__all__:
        value = getattr(module, name)
        signature = f"class {name}" if name in ("Run", "Child") else _signature(name, value)
        parts += [f"## {name}\n", f"```py\n{signature}\n```\n", f"{_doc(value)}\n"]
        parts += [_member(value, member) for member in MEMBERS_OF_SYNC.get(name, ())]
    return "\n".join(parts)


def _member(owner: type, name: str) -> str:
    value = inspect.getattr_static(owner, name)
    if isinstance(value, property):
        returns = inspect.signature(value.fget).return_annotation if value.fget else "Any"
        return f"### {name}\n\n```py\n{name}: {_type(returns)}\n```\n\n{_doc(value)}\n"
    return f"### {name}\n\n```py\n{_def(name, value)}\n```\n\n{_doc(value)}\n"


def _signature(name: str, value: Any) -> str:
    """Return what a page shows of a name before its docstring."""
    if _is_error(value):
        bases = ", ".join(base.__name__ for base in value.__bases__)
        fields = _attributes(value)
        return f"class {name}({bases})" + (":\n" + "\n".join(fields) if fields else "")
    if inspect.isclass(value) and name in NOT_CONSTRUCTED:
        if dataclasses.is_dataclass(value):
            return f"class {name}:\n" + "\n".join(f"    {each.name}: {each.type}" for each in dataclasses.fields(value))
        return f"class {name}"
    if inspect.isclass(value):
        return _def(name, value, keyword="class")
    if inspect.isfunction(value):
        return "\n\n".join(_def(name, way) for way in typing.get_overloads(value) or [inspect.unwrap(value)])
    return f"{name}: {type(value).__name__}"


def _attributes(error: type[BaseException]) -> list[str]:
    """Return what an error has beside its message."""
    if "__init__" not in vars(error):
        return []
    parameters = list(inspect.signature(error.__init__).parameters.values())[2:]
    return [f"    {each.name}: {each.annotation}" for each in parameters]


def _def(name: str, value: Any, keyword: str = "") -> str:
    """Return a signature as it stands in code, in one line or with a line for each parameter."""
    signature = inspect.signature(value)
    after = ""
    if not keyword:
        keyword = "async def" if inspect.iscoroutinefunction(value) else "def"
        after = f" -> {_type(signature.return_annotation)}"
    given = [each for each in _spread(value, signature) if each.name != "self"]
    parameters = [_parameter(each) for each in given]
    kinds = [each.kind for each in given]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        parameters.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    line = f"{keyword} {name}({', '.join(parameters)}){after}"
    if len(line) <= WIDTH:
        return line
    return f"{keyword} {name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){after}"


def _spread(value: Any, signature: inspect.Signature) -> list[inspect.Parameter]:
    """Return the parameters, with the keys of a TypedDict in the place of `**terms: Unpack[...]`."""
    parameters = list(signature.parameters.values())
    last = str(parameters[-1].annotation) if parameters else ""
    if not last.startswith("Unpack["):
        return parameters
    keys = value.__globals__[last.removeprefix("Unpack[").removesuffix("]")].__annotations__
    left_out = {"default": LEFT_OUT, "kind": inspect.Parameter.KEYWORD_ONLY}
    return parameters[:-1] + [
        inspect.Parameter(key, annotation=each.__forward_arg__, **left_out) for key, each in keys.items()
    ]


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = f"{stars}{parameter.name}: {_type(parameter.annotation)}"
    default = parameter.default
    if default is inspect.Parameter.empty:
        return text
    if default is LEFT_OUT:
        return f"{text} = ..."
    return f"{text} = {json.dumps(default) if isinstance(default, str) else repr(default)}"


def _type(annotation: Any) -> str:
    """Return an annotation as a user would write it."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    for own, written in SPELLED.items():
        text = re.sub(own, written, text)
    return text


def _doc(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _first_sentence(name: str) -> str:
    text = " ".join(_doc(getattr(outlast, name)).partition("\n\n")[0].split())
    return re.split(r"(?<=[.!])\s", text)[0].replace("|", "\\|")


def _lineage(error: type[BaseException]) -> str:
    names = [cls.__name__ for cls in error.__mro__[1:] if cls is not object]
    return f"Derives from {', '.join(f'`{name}`' for name in names)}."


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


def main() -> None:
    """Write all pages, and remove those of names that are gone."""
    made = pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in made and path != EXAMPLES:
            path.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
