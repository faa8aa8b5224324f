"""What a person needs to know to answer an approval: its data, the form that it takes, and what to type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from outlast.cli.opening import Where
from outlast.cli.output import json_line
from outlast.cli.wording import shortened
from outlast.runtime.infos import ApprovalInfo

MOST_NESTED = 3


def facts_of(asked: ApprovalInfo, length: int | None) -> Iterator[tuple[str, str]]:
    """Yield what is known of an approval beside its question, a name and a line each. Its values are plain JSON."""
    if asked.data is not None:
        yield "data", shortened(json_line(asked.data), length)
    if asked.form is not None:
        yield "form", shortened(_of_fields(asked.form), length)
    if asked.value is not None:
        yield "given", shortened(json_line(asked.value), length)


def answers(asked: Sequence[ApprovalInfo], where: Where) -> list[str]:
    """Return lines that say how approvals are answered, with the commands."""
    lines = ["a person answers it:" if len(asked) == 1 else "people answer them:"] if asked else []
    for each in asked:
        lines += [f"  {approve_command(each, where)}", f"  {where.command('reject', each.id)}"]
    return lines


def approve_command(asked: ApprovalInfo, where: Where) -> str:
    """Return the command that answers with yes, with a form to be filled in where one is asked for.

    What stands for a value is no JSON, so that a form which nobody filled in is refused.
    """
    if asked.form is None:
        return where.command("approve", asked.id)
    schema = _resolved(asked.form, asked.form)
    fields = schema.get("properties") or {}
    wanted = [name for name in fields if name in (schema.get("required") or ())] or list(fields)
    values = (f"{json_line(name)}: {_placeholder(fields[name], asked.form)}" for name in wanted)
    return where.command("approve", asked.id, "--form", f"{{{', '.join(values)}}}" if fields else "JSON")


def _of_fields(form: Any) -> str:
    """Return the fields of a form with their types: `cents: integer, why: string (optional)`."""
    schema = _resolved(form, form)
    fields, required = schema.get("properties"), schema.get("required") or ()
    if not fields:
        return _type(schema, form, MOST_NESTED)
    return ", ".join(
        f"{name}: {_type(field, form, MOST_NESTED)}{'' if name in required else ' (optional)'}"
        for name, field in fields.items()
    )


def _resolved(schema: Any, form: Any) -> dict[str, Any]:
    """Return a schema, or what it refers to; nothing where it is none that can be read."""
    for _ in range(MOST_NESTED):
        if not isinstance(schema, dict):
            return {}
        whole = schema.get("allOf")
        if isinstance(whole, list) and len(whole) == 1:
            schema = whole[0]
        elif isinstance(schema.get("$ref"), str):
            schema = (form.get("$defs") or {}).get(schema["$ref"].rpartition("/")[2])
        else:
            return schema
    return {}


def _type(schema: Any, form: Any, nested: int) -> str:
    """Return the type of a field in words, by its schema: `integer`, `array of string`, `"big" or "small"`."""
    schema = _resolved(schema, form)
    choices = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if choices:
        return " or ".join(map(json_line, choices))
    kinds = schema.get("anyOf") or schema.get("oneOf")
    if kinds and nested:
        return " or ".join(dict.fromkeys(_type(kind, form, nested - 1) for kind in kinds))
    kind = schema.get("type", "any JSON")
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    if kind == "array" and schema.get("items") and nested:
        return f"array of {_type(schema['items'], form, nested - 1)}"
    if kind == "object" and schema.get("properties") and nested:
        within = ", ".join(f"{name}: {_type(of, form, nested - 1)}" for name, of in schema["properties"].items())
        return f"{{{within}}}"
    return f"{kind} ({schema['format']})" if schema.get("format") else str(kind)


def _placeholder(schema: Any, form: Any) -> str:
    kind = _resolved(schema, form).get("type")
    return kind.upper() if isinstance(kind, str) else "JSON"
