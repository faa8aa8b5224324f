"""A class is found again by its name, in what is imported or in an annotation, and nothing is imported for it."""

import collections
import dataclasses
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Annotated, Any, Optional

import msgspec
import pytest

from outlast.codec import JsonCodec
from outlast.core.errors import DecodingError, EncodingError

codec = JsonCodec()


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    a: int
    b: list[int] = []


def moved(value: object, module: str = "old.place") -> bytes:
    """Return the bytes as if the class had lived in another module when they were stored."""
    return codec.encode(value).replace(f"{type(value).__module__}:".encode(), f"{module}:".encode())


@dataclasses.dataclass
class Job:
    name: str


@dataclasses.dataclass
class Holder:
    inner: "dict[str, list[Wire | None]]"


@pytest.mark.parametrize(
    "annotation",
    [
        Wire,
        Wire | None,
        Optional[Wire],  # noqa: UP045  # another class of typing's than `Wire | None`
        list[Wire],
        dict[str, tuple[Wire, ...]],
        Annotated[Wire, "note"],
        Holder,
        list[Holder],
        collections.abc.Callable[[int], Wire],
    ],
    ids=str,
)
def test_a_class_that_moved_is_found_in_the_annotation(annotation: object) -> None:
    assert codec.decode(moved(Wire(a=1)), annotation) == Wire(a=1)
    nested = codec.decode(moved(Wire(a=1)).join([b'{"deep":[', b"]}"]), annotation)
    assert nested == {"deep": [Wire(a=1)]}


def test_a_class_that_is_not_found_is_an_error_that_names_it() -> None:
    with pytest.raises(DecodingError, match=r"old\.place:Wire .*not imported.*Import old\.place in this process"):
        codec.decode(moved(Wire(a=1)))
    with pytest.raises(DecodingError, match=r"old\.place:Wire"):
        codec.decode(moved(Wire(a=1)), Job | int)
    with pytest.raises(DecodingError, match="collections has no such struct: was it moved or renamed"):
        codec.decode(moved(Wire(a=1), "collections"))


def test_two_classes_of_one_name_in_the_annotation_decide_nothing() -> None:
    twin = msgspec.defstruct("Wire", ["a"], module="elsewhere")
    with pytest.raises(DecodingError):
        codec.decode(moved(Wire(a=1)), Wire | twin)


def test_a_class_of_another_kind_is_refused() -> None:
    data = codec.encode(Job("x")).replace(b"Job", b"Wire")
    with pytest.raises(DecodingError, match=r"Wire was stored as dataclass"):
        codec.decode(data)


def test_a_class_that_cannot_be_found_by_its_name_is_refused() -> None:
    hidden = dataclasses.make_dataclass("Hidden", ["x"])
    with pytest.raises(EncodingError, match=r"^\$: type .*Hidden cannot be stored: .* does not name it"):
        codec.encode(hidden(1))


def test_looking_a_class_up_imports_nothing_and_wakes_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[str] = []

    class Lazy(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            woken.append(name)
            return Wire

    monkeypatch.setitem(sys.modules, "old.place", Lazy("old.place"))
    with pytest.raises(DecodingError):
        codec.decode(moved(Wire(a=1)))
    assert woken == []
    before = set(sys.modules)
    with pytest.raises(DecodingError):
        codec.decode(moved(Wire(a=1), "this"))  # importing it prints a poem
    assert set(sys.modules) == before


PROGRAM = """
import dataclasses, sys
from outlast.codec import JsonCodec

@dataclasses.dataclass
class Job:
    name: str

if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        sys.stdout.buffer.write(JsonCodec().encode(Job("x")))
    else:
        value = JsonCodec().decode(sys.stdin.buffer.read())
        assert type(value) is Job, value
"""


def python(*arguments: str, cwd: Path, stdin: bytes = b"") -> bytes:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, input=stdin, check=True, stdout=subprocess.PIPE).stdout


def test_a_program_and_a_worker_that_imports_it_know_each_others_classes(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(PROGRAM)
    worker = "import sys, agent; from outlast.codec import JsonCodec; codec = JsonCodec()\n"
    as_program = python("agent.py", "write", cwd=tmp_path)
    as_module = python("-m", "agent", "write", cwd=tmp_path)
    as_import = python("-c", worker + "sys.stdout.buffer.write(codec.encode(agent.Job('x')))", cwd=tmp_path)
    assert as_program == as_module == as_import
    python("agent.py", cwd=tmp_path, stdin=as_import)
    read = "assert type(codec.decode(sys.stdin.buffer.read())) is agent.Job"
    python("-c", worker + read, cwd=tmp_path, stdin=as_program)


def test_a_program_without_a_name_that_can_be_imported_finds_its_own_classes(tmp_path: Path) -> None:
    (tmp_path / "my-agent.py").write_text(PROGRAM)
    data = python("my-agent.py", "write", cwd=tmp_path)
    assert b"__main__:Job" in data
    python("my-agent.py", cwd=tmp_path, stdin=data)
