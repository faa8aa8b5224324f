"""Interrupts as questions to people: what is asked, what the graph is given for an answer, and which answers do not do.

LangChain's `HumanInTheLoopMiddleware` asks about calls of tools: about several at once, which wants as many decisions,
or with `interrupt_mode="per_call"` about each by itself, which wants one decision. An answer that it cannot use would
end the run, so people are asked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph import errors
from langgraph.types import Interrupt
from pydantic import ValidationError

from outlast.adapters.langgraph.asked import kind_of
from outlast.runtime.approvals import Approval

DECISIONS = ("approve", "edit", "reject", "respond")
LONGEST, LONGEST_CALL = 1_000, 200
"""So many characters of a question, and of a call in one, are shown; the approval's data has all."""


@dataclass(frozen=True)
class Refused:
    """How often the graph has refused answers to the same questions, by a `response_schema`, and why the last."""

    times: int = 0
    problem: str = ""

    def again(self, error: ValidationError) -> Refused:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        return Refused(self.times + 1, _shortened(f"the answer does not fit ({where}: {wrong['msg']})", LONGEST))


def is_invalid_resume(error: ValidationError) -> bool:
    """Tell whether it is an answer that did not fit. (Early releases of LangGraph 1.2 look at no answers.)"""
    is_invalid: Any = getattr(errors, "is_invalid_resume", None)
    return is_invalid is not None and bool(is_invalid(error))


def question_of(workflow: str, asked: Any, problem: str = "") -> str:
    """Return what people read. `problem` is why an answer to this question could not be used."""
    if problem:
        return f"{problem}; asked again: {question_of(workflow, asked)}"
    if isinstance(asked, str):
        text = asked
    elif calls := _calls(asked):
        text = "; ".join(_shortened(f"{call.get('name')}({_json(call.get('args'))})", LONGEST_CALL) for call in calls)
    else:
        text = f"{workflow} asks: {_json(asked)}"
    return _shortened(text, LONGEST) if text.strip() else f"{workflow} asks"


def answer_of(asked: Any, approval: Approval[Any]) -> Any:
    """Return what the graph is given: the form that was filled in, else whether it was approved."""
    if approval.form is not None:
        return approval.form
    calls = _calls(asked)
    if not calls:
        return approval.approved
    decision: dict[str, Any] = {"type": "approve" if approval.approved else "reject"}
    if approval.note and not approval.approved:
        decision["message"] = approval.note
    return {"decisions": [decision for _ in calls]} if _is_batch(asked) else decision


def problem_of(question: Interrupt[Any], answer: Any) -> str:
    """Return why an answer about calls of tools cannot be used; nothing where it can, and for other questions."""
    asked = question.value
    if _is_batch(asked):
        calls = asked["action_requests"]
        decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
        if not isinstance(decisions, list) or len(decisions) != len(calls):
            return f'the form has to be {{"decisions": [...]}}, with {len(calls)} of them, one for each call'
        allowed = [config.get("allowed_decisions", DECISIONS) for config in asked["review_configs"]]
        problems = map(_problem_of_decision, decisions, allowed)
        return next((problem for problem in problems if problem), "")
    return _problem_of_decision(answer, _allowed(question.response_schema)) if _is_call(asked) else ""


def _problem_of_decision(decision: Any, allowed: Any) -> str:
    if not isinstance(decision, Mapping) or decision.get("type") not in allowed:
        shown = decision.get("type") if isinstance(decision, Mapping) else decision
        return f"{_shortened(_json(shown), 50)} is no decision about this call; allowed are {', '.join(allowed)}"
    match decision["type"]:
        case "edit":
            edited = decision.get("edited_action")
            if not (isinstance(edited, Mapping) and isinstance(edited.get("name"), str) and _is_dict(edited, "args")):
                return 'an edit needs "edited_action": {"name": ..., "args": {...}}'
        case "respond" if not isinstance(decision.get("message"), str):
            return 'a respond needs a "message", which the model gets in place of the tool\'s result'
    return ""


def _is_dict(of: Mapping[str, Any], name: str) -> bool:
    return isinstance(of.get(name), Mapping)


def _allowed(schema: Any) -> Any:
    """Return which decisions the JSON schema of an answer allows; all where it does not tell."""
    if not isinstance(schema, Mapping):
        return DECISIONS
    mapping = (schema.get("discriminator") or {}).get("mapping")
    only = schema.get("properties", {}).get("type", {}).get("const")
    return tuple(mapping) if mapping else (only,) if only else DECISIONS


def _is_batch(asked: Any) -> bool:
    return isinstance(asked, Mapping) and {"action_requests", "review_configs"} <= asked.keys()


def _is_call(asked: Any) -> bool:
    return isinstance(asked, Mapping) and asked.get("type") == "tool_approval" and "name" in asked


def _calls(asked: Any) -> list[Any]:
    """Return the calls of tools that a question is about; none where it is about something else."""
    if _is_batch(asked):
        return list(asked["action_requests"])
    return [asked] if _is_call(asked) else []


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=kind_of)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
