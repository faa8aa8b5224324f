"""Random plans for `programs.script`, and what an undisturbed run of one may come to."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.simulation.programs import Plan
from tests.simulation.world import declines, receipt

LEAVES = (
    "think", "think", "page", "put", "put", "charge", "charge", "letter", "draw", "sleep", "failing", "failing child",
    "calls",
)  # fmt: skip
BRANCHES = (
    "seq", "seq", "seq", "gather", "group", "pool", "race", "hurry", "limit", "child", "start", "leave", "finally",
)  # fmt: skip


def draw_plan(random: Random, leaves: int, depth: int = 0) -> Plan:
    """Return a plan of about so many leaves."""
    if leaves <= 1 or depth >= 4:
        return _leaf(random)
    kind = "seq" if depth == 0 else random.choice(BRANCHES)
    match kind:
        case "seq" | "gather" | "group" | "pool":
            parts = random.randint(2, min(4, leaves))
            return [kind, *(draw_plan(random, leaves // parts, depth + 1) for _ in range(parts))]
        case "race" | "start" | "leave":
            return [kind, *(draw_plan(random, leaves // 2, depth + 1) for _ in range(2))]
        case "hurry" | "limit":
            return [kind, random.choice([0.05, 0.3, 1.0, 5.0]), draw_plan(random, leaves, depth + 1)]
        case "child":
            return [kind, draw_plan(random, leaves, depth + 1)]
        case _:
            return [kind, draw_plan(random, leaves - 1, depth + 1), random.randrange(1, 1000)]


def _leaf(random: Random) -> Plan:
    kind, n = random.choice(LEAVES), random.randrange(1, 1000)
    match kind:
        case "think":
            return [kind, n, random.choice([0, 0, 0, 1, 3])]
        case "draw":
            return [kind]
        case "sleep":
            return [kind, random.choice([0.0, 0.02, 0.2, 1.0, 3.0])]
        case "failing":
            return ["catch", ["seq", ["put", n], ["fail", n]]]
        case "failing child":
            return ["catch", ["child", ["seq", ["put", n], ["fail", n]]]]
        case "calls":
            return [kind, n]
        case _:
            return [kind, n]


def fits(plan: Plan, got: Any) -> bool:
    """Tell whether an undisturbed run of the plan may return this."""
    match plan:
        case ["think", n, _]:
            return bool(got == n * 3 + 1)
        case ["page", n]:
            return bool(got == [n, n + 1])
        case ["charge", n] if declines(n):
            return bool(got == "declined")
        case ["put" | "charge" | "letter" as kind, n]:
            return bool(got == receipt(kind, n))
        case ["draw"] | ["sleep", _]:
            return got is True
        case ["calls", n]:
            return bool(got == [n * 3 + 1, receipt("put", n), receipt("letter", n)])
        case ["catch", ["seq", _, ["fail", n]] | ["child", ["seq", _, ["fail", n]]]]:
            return bool(got == f"caught no {n}")
        case _:
            return _many_fit(plan, got)


def _many_fit(plan: Plan, got: Any) -> bool:
    match plan:
        case ["seq" | "gather" | "group" | "pool" | "start", *parts]:
            return isinstance(got, list) and len(got) == len(parts) and all(map(fits, parts, got))
        case ["race", *parts]:
            return isinstance(got, list) and len(got) == 2 and got[0] in (0, 1) and fits(parts[got[0]], got[1])
        case ["hurry" | "limit", _, part]:
            return got == "late" or fits(part, got)
        case ["child", part] | ["finally", part, _] | ["leave", _, part]:
            return fits(part, got)
        case _:
            return False


def must_fail(plan: Plan) -> bool:
    """Tell whether a run of the plan ends with an error."""
    return plan[0] == "seq" and plan[-1][0] == "fail"
