"""The tree of one run: branches of its code, and what each recorded, made from the identities `main.task#1/name#n`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.text import Text
from rich.tree import Tree

from outlast.cli.used import tokens_told
from outlast.cli.wording import ago, clock_time, lasted, shortened, visible, visible_lines, with_where
from outlast.core.records import RunRow
from outlast.runtime.infos import StepInfo

VALUE_LENGTH = 100
ERROR_LENGTH = 200
LATE_S = 1.0
"""A timer that fired so long after it was due is told with both times: nobody was there to let it fire."""

LEGEND = "when begun, how long, effect; a timer: when it fired; a message: when it was sent; a child: its run"
"""What stands behind the name in each line."""

MARKS = {
    "done": ("✓", "green"),
    "failed": ("✗", "red"),
    "retrying": ("↻", "yellow"),
    "in_doubt": ("?", "bold red"),
    "resolved": ("!", "yellow"),
    "late": ("✓", "dim"),
    "succeeded": ("✓", "green"),  # these are children that the run has not heard from
    "cancelled": ("✗", "dim"),
    "stuck": ("?", "bold red"),
}
ASCII_MARKS = {"✓": "+", "✗": "x", "↻": "~"}


@dataclass(frozen=True, slots=True)
class Entry:
    """What one line of the tree speaks of: a step (child, timer, ...) with its value as JSON, a child's run, and an
    error's parts.
    """

    step: StepInfo
    value: str = ""
    child: RunRow | None = None
    parts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Branch:
    """A line of control in the workflow, with what it did in order: entries, and branches that it made."""

    path: str
    items: list[Entry | Branch] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name within the branch that made it."""
        return self.path.rpartition(".")[2]


def branches_of(entries: list[Entry]) -> Branch:
    """Arrange the entries of a run, in the order of its journal, by branch. Notes on the run itself go to the root."""
    root = Branch("main")
    known = {"main": root}

    def find(path: str) -> Branch:
        if path not in known:
            parent, dot, _ = path.rpartition(".")  # dots within names are escaped
            known[path] = Branch(path)
            find(parent if dot else "main").items.append(known[path])
        return known[path]

    for entry in entries:
        path, slash, _ = entry.step.id.rpartition("/")
        find(path if slash and path else "main").items.append(entry)
    return root


def draw(root: Branch, *, now: float, full: bool, ascii_only: bool) -> Tree:
    """Return the tree for a terminal or a pipe; with `full`, values are not cut."""

    def fill(node: Tree, branch: Branch) -> None:
        for item in branch.items:
            if isinstance(item, Branch):
                fill(node.add(Text(visible(item.name), style="bold")), item)
            else:
                line = node.add(_line(item, now, None if full else VALUE_LENGTH, ascii_only))
                if full and len(item.parts) > 1:
                    line.add(Text(visible_lines("\n".join(item.parts)), style="red"))

    tree = Tree(Text(root.path, style="bold"), guide_style="dim")
    fill(tree, root)
    return tree


def _line(entry: Entry, now: float, length: int | None, ascii_only: bool) -> Text:
    step = entry.step
    state = step.state
    if state == "running" and entry.child is not None:  # which may have ended, and its parent not heard of it
        state = entry.child.status.value
    mark, style = MARKS.get(state, ("·", ""))
    name = step.id.rpartition("/")[2]
    if step.kind in ("patch", "cancel"):
        name = {"patch": f"patched {step.id}", "cancel": "cancellation was asked for"}[step.kind]
    line = Text()
    line.append(f"{ASCII_MARKS.get(mark, mark) if ascii_only else mark} ", style=style)
    line.append(visible(name.removeprefix("!")), style="bold" if step.state == "in_doubt" else "")
    for word in _facts(entry, now):
        line.append(f"  {word}", style="dim")
    if step.usage is not None:
        line.append(f"  {tokens_told(step.usage)}", style="dim")
    if step.state not in ("done", "failed") and entry.child is None:  # a child's own status stands there
        line.append(f"  {step.state.replace('_', ' ')}", style=style)
    if step.error:
        error = with_where(step.error, step.where, None if length is None else ERROR_LENGTH, advice=True)
        line.append(f"  {error}", style="red" if step.state == "failed" else "yellow")
    elif entry.value:
        line.append(f"  {shortened(entry.value, length)}")
    notes = [*step.history, *([step.note] if step.note and not _is_history(step) else [])]
    for note in notes:
        line.append(f"  ({shortened(note, length)})", style="dim")
    return line


def error_is_cut(entry: Entry) -> bool:
    """Tell whether a line does not have the whole of its error. (That values are cut is what one expects.)"""
    step = entry.step
    return with_where(step.error, step.where, ERROR_LENGTH, advice=True) != with_where(step.error, step.where)


def _is_history(step: StepInfo) -> bool:
    """Whether the note of a step says once more what its history has."""
    settled = step.note.startswith(("decided:", "confirmed:"))
    return bool(step.history) and (settled or step.state in ("resolved", "in_doubt"))


def _facts(entry: Entry, now: float) -> Iterator[str]:
    """Yield when, how long, what effect, how often: each where it says something."""
    step, child = entry.step, entry.child
    if step.state == "waiting":
        if step.started:
            yield _time_of_day(step.started)
        if step.due is not None:
            yield f"until {clock_time(step.due)}"
    elif step.kind == "timer":
        yield f"fired {_time_of_day(step.ended)}"
        if step.due is not None and step.ended - step.due >= LATE_S:
            yield f"due {clock_time(step.due)}"
    elif step.started:
        yield _time_of_day(step.started)
        if step.kind in ("step", "child", "approval") and step.ended and step.state in ("done", "failed", "late"):
            yield lasted(step.ended - step.started)
    if step.effect:
        yield step.effect
    if step.attempts > 1:
        yield f"{step.attempts} attempts"
    if step.state == "retrying" and step.due is not None:
        yield f"next {ago(step.due, now)}"
    if child is not None:
        yield f"run {visible(child.id)} {child.status.value}"


def _time_of_day(at: float) -> str:
    return clock_time(at).rpartition(" ")[2]
