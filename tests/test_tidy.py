"""The rules of style that a machine can keep. Each test is one rule; its message lists every place that breaks it."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "outlast"
DOCS = ROOT / "docs"
CODE_FOLDERS = ("src", "tests", "benchmarks", "examples")

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70

EMPTY_WORDS = {"base", "helper", "helpers", "manager", "util", "utils"}
SQL = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE TABLE)\b")

# Who may ask what time it is: the one clock, and what faces a person or a test.
MAY_READ_TIME = ("runtime/clock.py", "cli/", "testing/")
# The codec names types of the time module (struct_time); it reads no clock either.
MAY_NAME_TIME = ("codec/",)
DATE_CLASSES = {"date", "datetime"}
DATE_READS = {"now", "today", "utcnow"}

CODE_IN_MARKDOWN = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def test_no_file_is_longer_than_400_lines() -> None:
    long = []
    for path in _all_code():
        lines = len(_text(path).splitlines())
        if lines > MAX_FILE_LINES:
            long.append(f"{_at(path, lines)}: {lines} lines")
    _refuse(long, f"split these files, none may have more than {MAX_FILE_LINES} lines")


def test_no_function_is_longer_than_70_lines() -> None:
    long = []
    for path in _sources():
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = _lines_without_docstring(node)
                if lines > MAX_FUNCTION_LINES:
                    long.append(f"{_at(path, node.lineno)}: {node.name} has {lines} lines")
    _refuse(long, f"split these functions, none may have more than {MAX_FUNCTION_LINES} lines beside its docstring")


def test_only_the_clock_reads_the_time() -> None:
    reads = []
    for path in _sources():
        if not _is_under(path, MAY_READ_TIME):
            reads += [f"{_at(path, line)}: {what}" for line, what in _time_reads(path)]
    _refuse(reads, "take the time from runtime/clock.py, so that a test can set it and a clock that jumps is harmless")


def test_only_stores_speak_sql() -> None:
    statements = []
    for path in _sources():
        if not _is_under(path, ("stores/",)):
            statements += [f"{_at(path, line)}: {word}" for line, word in _sql_words(path)]
    _refuse(statements, "move these statements into src/outlast/stores, behind a verb of the protocol")


def test_every_file_is_named_after_what_is_in_it() -> None:
    empty = []
    for path in _all_code():
        for part in path.relative_to(ROOT).with_suffix("").parts:
            words = EMPTY_WORDS & set(part.lower().split("_"))
            if words:
                empty.append(f"{_at(path, 1)}: {words.pop()!r} in {part!r} says nothing")
    _refuse(empty, "name these files after what is found in them")


def test_every_public_name_has_a_docstring() -> None:
    names = _public_names()
    outlast = importlib.import_module("outlast")
    bare = [f"{place}: {name}" for name, place in names if not _own_docstring(outlast, name)]
    _refuse(bare, "say what these names take, return and raise")


def test_every_public_name_has_a_place_in_the_docs() -> None:
    pages = sorted(DOCS.rglob("*.md"))
    if not pages:
        pytest.skip("docs/ has no page yet")
    code = "\n".join(block for page in pages for block in CODE_IN_MARKDOWN.findall(_text(page)))
    known = set(re.findall(r"\w+", code))
    missing = [f"{place}: {name}" for name, place in _public_names() if name not in known]
    _refuse(missing, "show these names in docs/, in an example or between backticks")


def _refuse(places: list[str], advice: str) -> None:
    if places:
        pytest.fail(advice + ":\n" + "\n".join(f"  {place}" for place in places), pytrace=False)


def _python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _sources() -> list[Path]:
    return _python_files(PACKAGE)


def _all_code() -> list[Path]:
    """The files of the package, and those that test, measure and show it."""
    return [path for folder in CODE_FOLDERS for path in _python_files(ROOT / folder)]


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path), filename=str(path))


def _at(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def _is_under(path: Path, places: tuple[str, ...]) -> bool:
    """Whether `path` is one of `places`: a file of the package, or a folder when it ends in a slash."""
    inside = path.relative_to(PACKAGE).as_posix()
    return any(inside == place or (place.endswith("/") and inside.startswith(place)) for place in places)


def _docstring(node: ast.AST) -> ast.Constant | None:
    """The string node that documents a module, class or function."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            return first.value
    return None


def _lines_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """A long docstring teaches; counting it would punish the functions that are explained best."""
    lines = _line_span(function)
    docstring = _docstring(function)
    return lines - _line_span(docstring) if docstring else lines


def _line_span(node: ast.stmt | ast.expr) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _time_reads(path: Path) -> Iterator[tuple[int, str]]:
    """Where a file takes hold of the time module, or asks `datetime` or `date` for the present."""
    date_names = set(DATE_CLASSES)
    may_name_time = _is_under(path, MAY_NAME_TIME)
    nodes = list(ast.walk(_tree(path)))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "datetime":
            date_names |= {name.asname for name in node.names if name.asname and name.name in DATE_CLASSES}
    for node in nodes:
        match node:
            case ast.Import(names=names) if any(name.name == "time" for name in names):
                # `import time as x` would hide its uses from the next-but-one case, so no alias is let through.
                if not may_name_time or any(name.name == "time" and name.asname for name in names):
                    yield node.lineno, "import time"
            case ast.ImportFrom(module="time", names=names):
                for name in names:
                    if not (may_name_time and name.name == "struct_time"):
                        yield node.lineno, f"from time import {name.name}"
            case ast.Attribute(value=ast.Name(id="time"), attr=attr) if may_name_time and _reads_a_clock(attr):
                yield node.lineno, f"time.{attr}"
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=attr):
                if owner in date_names and attr in DATE_READS:
                    yield node.lineno, f"{owner}.{attr}"


def _reads_a_clock(attr: str) -> bool:
    stem = attr.removesuffix("_ns")
    return stem in {"ctime", "gmtime", "localtime", "monotonic", "perf_counter", "sleep", "time"} or "clock" in attr


def _sql_words(path: Path) -> Iterator[tuple[int, str]]:
    """The SQL in a file's strings, f-strings too. Docstrings may speak of SQL, so they do not count."""
    nodes = list(ast.walk(_tree(path)))
    docstrings = {id(docstring) for node in nodes if (docstring := _docstring(node))}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found = SQL.search(node.value)
            if found:
                yield node.lineno + node.value[: found.start()].count("\n"), found.group()


def _public_names() -> list[tuple[str, str]]:
    """Each name in `outlast.__all__` but the dunder ones, with the file and line that exports it."""
    init = PACKAGE / "__init__.py"
    if not init.exists():
        pytest.skip("src/outlast/__init__.py does not exist yet")
    names = getattr(importlib.import_module("outlast"), "__all__", [])
    lines = {
        node.value: node.lineno
        for node in ast.walk(_tree(init))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return [(name, _at(init, lines.get(name, 1))) for name in names if not name.startswith("__")]


def _own_docstring(module: object, name: str) -> str | None:
    """The docstring somebody wrote for a name; the signature that a dataclass documents itself with is none."""
    value = getattr(module, name)
    text = value.__doc__
    return None if isinstance(value, type) and text and text.startswith(f"{value.__name__}(") else text
