"""Errors are recorded whatever they hold, and raised again as what they were."""

import asyncio
import dataclasses
import enum
import json
import subprocess
import threading
import traceback
import urllib.error
from typing import Any

import attrs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.codec import JsonCodec
from outlast.core.errors import Diverged, OutlastError, RunStuck, StepError
from outlast.core.frames import KEPT

codec = JsonCodec()


def round_trip(error: BaseException) -> BaseException:
    data = codec.encode_error(error)
    again = codec.decode_error(data)
    assert codec.encode_error(again) == codec.encode_error(codec.decode_error(codec.encode_error(again)))
    return again


def caught(action: Any, *args: Any) -> Exception:
    try:
        action(*args)
    except Exception as error:  # noqa: BLE001  # whatever it is
        return error
    raise AssertionError("raised nothing")


class CardDeclined(Exception):
    def __init__(self, card: str, *, code: int) -> None:
        ran.append("CardDeclined")
        super().__init__(f"card {card} declined")
        self.card = card
        self.code = code


class WithSlots(ValueError):
    __slots__ = ("where",)


class Reason(enum.Enum):
    FULL = 1


@dataclasses.dataclass
class QuotaError(Exception):
    reason: Reason
    left: tuple[int, ...] = ()


@attrs.define(auto_exc=True)
class AttrsError(Exception):
    code: int


class OwnText(Exception):
    def __str__(self) -> str:
        return f"{self.args[0].status}"


class Group(ExceptionGroup[Exception]):
    def __new__(cls, message: str, members: list[Exception], code: int) -> "Group":
        ran.append("Group")
        group = super().__new__(cls, message, members)
        group.code = code
        return group

    code: int


class Broken(Exception):
    """Fights everyone who looks at it."""

    def __init__(self) -> None:
        super().__init__(self)

    def __str__(self) -> str:
        raise SystemExit("str")

    def __repr__(self) -> str:
        raise KeyboardInterrupt

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Response:
    status = 404


ran: list[str] = []


def slotted() -> WithSlots:
    error = WithSlots("bad")
    error.where = ("line", 7)
    return error


ERRORS = [
    Exception("err"),
    ValueError(),
    ValueError("a", 1, None, (2,), {3}),
    KeyError("k"),
    KeyError(("a", 1)),
    FileNotFoundError(2, "no such file", "/tmp/x"),
    OSError(5, "io", "a", None, "b"),
    OSError("only text"),
    BlockingIOError(11, "later", 7),
    ConnectionResetError(104, "reset"),
    TimeoutError("late"),
    StopIteration(3),
    StopAsyncIteration("end"),
    ImportError("no", name="mod", path="/p"),
    caught(bytes.decode, b"\xff"),
    caught(str.encode, "\ud800"),
    UnicodeTranslateError("x", 0, 1, "why"),
    caught(compile, "a b", "file.py", "exec"),
    caught(getattr, 1, "nope"),
    caught(json.loads, "{x"),
    caught(lambda: 1 / 0),
    subprocess.CalledProcessError(3, ["a", "b"], b"out"),
    asyncio.IncompleteReadError(b"ab", 4),
    CardDeclined("tok", code=7),
    slotted(),
    QuotaError(Reason.FULL, (1,)),
    AttrsError(5),
    RunStuck("stuck", "in_doubt"),
    Diverged("two\nsides"),
    StepError("m", type_name="a:B", text="t"),
    ValueError("lone \ud800 surrogate"),
    ValueError("NUL \x00"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_as_what_it_was(error: Exception) -> None:
    error.add_note("while charging")
    ran.clear()
    again = round_trip(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert repr(again) == repr(error)
    assert again.args == error.args
    assert {name: part for name, part in again.__dict__.items() if name != KEPT} == error.__dict__
    assert again.__notes__ == error.__notes__
    assert again.__traceback__ is None
    for name in ("errno", "filename", "filename2", "characters_written", "start", "lineno", "name", "value", "where"):
        assert getattr(again, name, None) == getattr(error, name, None)
    assert traceback.format_exception_only(again) == traceback.format_exception_only(error)
    assert ran == []


@given(st.lists(st.none() | st.booleans() | st.integers() | st.text(st.characters(codec=None)) | st.dates()))
def test_any_arguments_come_back(args: list[Any]) -> None:
    error = ValueError(*args)
    again = round_trip(error)
    assert (type(again), again.args, str(again)) == (ValueError, error.args, str(error))


def test_an_error_is_never_masked_by_what_it_holds() -> None:
    error = CardDeclined("tok", code=7)
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    error.deep = {"fine": (1,), "bad": [lambda: 1]}  # type: ignore[attr-defined]
    again: Any = round_trip(error)
    assert type(again) is CardDeclined
    assert (again.card, again.code) == ("tok", 7)
    assert again.lock.startswith("<unlocked _thread.lock object at 0x…")
    assert again.deep["fine"] == (1,)
    assert again.deep["bad"][0].startswith("<function ")


def test_the_text_of_a_part_that_cannot_be_stored_is_the_same_in_every_process() -> None:
    one, two = ValueError("x"), ValueError("x")
    one.held, two.held = object(), object()  # type: ignore[attr-defined]
    assert codec.encode_error(one) == codec.encode_error(two)


def test_an_error_whose_text_is_that_of_its_argument_keeps_it() -> None:
    class Local:
        def __str__(self) -> str:
            return "what it says"

    again = round_trip(ValueError(Local()))
    assert str(again) == "what it says"
    assert str(round_trip(ValueError([Local]))) == str(ValueError([Local]))


def test_encoding_an_error_never_raises() -> None:
    looped = ValueError("loop")
    looped.args = (looped, [looped])
    looped.me = looped  # type: ignore[attr-defined]
    deep = ValueError(0)
    wide = ValueError(0)
    for number in range(1000):
        deep = ValueError(number, deep)
        wide = ValueError(wide, wide) if number < 12 else wide
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    for error in (Broken(), looped, deep, wide, ValueError(nested), ValueError(Broken())):
        again = codec.decode_error(codec.encode_error(error))
        assert type(again) in (ValueError, StepError)
        str(again)


def test_an_error_over_the_limit_is_cut_and_keeps_its_type() -> None:
    small = JsonCodec(max_bytes=20_000)
    error = CardDeclined("tok" * 100_000, code=7)
    error.body = b"x" * 1_000_000  # type: ignore[attr-defined]
    data = small.encode_error(error)
    again: Any = small.decode_error(data)
    assert len(data) <= 20_000
    assert type(again) is CardDeclined
    assert again.code == 7
    assert "cut)" in str(again)
    assert str(again).startswith("card toktok")
    assert type(JsonCodec(max_bytes=10).decode_error(JsonCodec(max_bytes=10).encode_error(error))) is CardDeclined
    many = ValueError(*range(100_000))
    assert type(small.decode_error(small.encode_error(many))) is ValueError


def test_groups_come_back_with_their_members() -> None:
    error = ExceptionGroup(
        "outer", [ValueError(1), ExceptionGroup("inner", [KeyError("k"), CardDeclined("t", code=1)])]
    )
    again: Any = round_trip(error)
    assert type(again) is ExceptionGroup
    assert str(again) == str(error)
    assert repr(again) == repr(error)
    assert again.subgroup(KeyError).exceptions[0].exceptions[0].args == ("k",)
    ran.clear()
    mine: Any = round_trip(Group("g", [ValueError(1)], 7))
    assert type(mine) is Group
    assert mine.code == 7
    assert repr(mine) == repr(Group("g", [ValueError(1)], 7))
    assert ran == ["Group", "Group"], "only the test's own two"


def test_causes_are_kept_as_text_and_shown() -> None:
    def fail() -> None:
        try:
            try:
                raise KeyError("first")
            except KeyError:
                raise CardDeclined("tok", code=1)  # noqa: B904  # a context, not a cause
        except CardDeclined as error:
            raise ValueError("third") from error

    again = round_trip(caught(fail))
    cause = again.__cause__
    assert isinstance(cause, StepError)
    assert cause.type_name == f"{__name__}:CardDeclined"
    assert cause.text == "card tok declined"
    context = cause.__context__
    assert isinstance(context, StepError)
    assert (context.type_name, context.text) == ("builtins:KeyError", "'first'")
    shown = "".join(traceback.format_exception(again))
    assert shown.index("first") < shown.index("card tok declined") < shown.index("third")
    assert "".join(traceback.format_exception(round_trip(again))) == shown


def test_from_none_still_hides_the_context() -> None:
    def fail() -> None:
        try:
            raise KeyError("hidden")
        except KeyError:
            raise ValueError("shown") from None

    again = round_trip(caught(fail))
    assert again.__suppress_context__
    assert "hidden" not in "".join(traceback.format_exception(again))


def test_a_class_that_is_not_imported_becomes_a_step_error_with_name_and_text() -> None:
    error = CardDeclined("tok", code=7)
    error.add_note("note")
    data = codec.encode_error(error).replace(__name__.encode(), b"not.imported")
    again = codec.decode_error(data)
    assert isinstance(again, StepError)
    assert again.type_name == "not.imported:CardDeclined"
    assert again.text == "card tok declined"
    assert str(again) == "not.imported:CardDeclined: card tok declined"
    assert again.__notes__ == ["note"]
    assert codec.encode_error(codec.decode_error(codec.encode_error(again))) == codec.encode_error(again)


def test_a_local_class_becomes_a_step_error() -> None:
    class Local(Exception):
        pass

    again = round_trip(Local("text"))
    assert isinstance(again, StepError)
    assert again.type_name.endswith("<locals>.Local")
    assert again.text == "text"


def test_an_error_whose_text_would_fail_becomes_a_step_error() -> None:
    again = round_trip(OwnText(Response()))
    assert isinstance(again, StepError)
    assert again.text == "404"


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), asyncio.CancelledError("x"), BaseException("b")]
)
def test_what_would_end_a_worker_comes_back_as_a_step_error(error: BaseException) -> None:
    for wrapped in (error, BaseExceptionGroup("g", [error])):
        again = round_trip(wrapped)
        assert type(again) is StepError
        assert again.type_name == f"{type(wrapped).__module__}:{type(wrapped).__qualname__}"
    assert type(codec.decode(codec.encode([error]))[0]) is StepError


def test_errors_are_values_too() -> None:
    values = codec.decode(codec.encode({"outcomes": [1, ValueError("x"), CardDeclined("t", code=1)]}))["outcomes"]
    assert [type(value) for value in values] == [int, ValueError, CardDeclined]
    surrogates = codec.decode(codec.encode([ValueError("\ud800")]))
    assert surrogates[0].args == ("\ud800",)


@pytest.mark.parametrize(
    "data", [b"", b"null", b"{}", b"\xff", b'{"$exception":[]}', b'{"$exception":["x",{}]}', b"[" * 100_000]
)
def test_damaged_bytes_are_a_step_error(data: bytes) -> None:
    again = codec.decode_error(data)
    assert isinstance(again, StepError)
    assert isinstance(again, OutlastError)
    assert "cannot be read" in str(again)


def test_an_http_error_of_the_standard_library_comes_back() -> None:
    error = urllib.error.HTTPError("http://x", 404, "not found", {}, None)  # type: ignore[arg-type]
    again: Any = round_trip(error)
    assert type(again) is urllib.error.HTTPError
    assert str(again) == "HTTP Error 404: not found"
    assert again.code == 404
    error.close()


class Strict(pydantic.BaseModel):
    count: int
    names: list[str] = []

    @pydantic.field_validator("count")
    @classmethod
    def small(cls, value: int) -> int:
        if value > 5:
            raise ValueError("too {big}")
        return value


@pytest.mark.parametrize(
    "action",
    [
        lambda: Strict(count=7),
        lambda: Strict(count="x", names=3),  # type: ignore[arg-type]
        lambda: Strict.model_validate({}),
        lambda: Strict.model_validate_json('{"count":[]}'),
        lambda: Strict.model_validate_json('{"names":3}'),
        lambda: Strict.model_validate_json("{"),
    ],
)
def test_a_validation_error_of_pydantic_comes_back(action: Any) -> None:
    error: Any = caught(action)
    again: Any = round_trip(error)
    assert type(again) is pydantic.ValidationError
    assert str(again) == str(error)
    assert again.args == error.args
    assert repr(again.errors()) == repr(error.errors())
