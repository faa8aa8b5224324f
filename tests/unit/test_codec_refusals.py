"""What cannot be stored is refused before it is: with the path to the bad part, its type, and what to do."""

import dataclasses
import inspect
import io
import socket
import sys
import threading
import types
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.codec import JsonCodec
from outlast.core.errors import DecodingError, EncodingError, PayloadTooLarge

codec = JsonCodec()


def refusal(value: object) -> str:
    with pytest.raises(EncodingError) as caught:
        codec.encode(value)
    return str(caught.value)


@dataclasses.dataclass
class Holder:
    lock: object
    name: str = "x"


class Plain:
    pass


def numbers() -> Iterator[int]:
    yield 1


async def answers() -> AsyncIterator[int]:
    yield 1


async def answer() -> int:
    return 1


def local_instance() -> object:
    @dataclasses.dataclass
    class Local:
        x: int

    return Local(1)


def test_the_message_gives_path_type_and_advice() -> None:
    message = refusal({"items": [0, 1, 2, {"lock": threading.Lock()}]})
    assert message.startswith(f"$.items[3].lock: type _thread.{type(threading.Lock()).__name__} cannot be stored. ")
    assert message.endswith("make it inside the step that needs it, and store plain data.")


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (threading.Lock(), "inside the step"),
        (threading.Event(), "inside the step"),
        (io.StringIO(), "inside the step"),
        (lambda: 1, "Code is not data"),
        (print, "Code is not data"),
        (sys, "Code is not data"),
        (Holder, "Code is not data"),
        (numbers(), "store list"),
        (answers(), "store list"),
        (iter([1]), "store list"),
        (map(str, [1]), "store list"),
        ({}.keys(), "store list"),
        (memoryview(b"x"), "bytes("),
        (types.MappingProxyType({}), "dict("),
        (Plain(), "Use a dataclass"),
        (object(), "Use a dataclass"),
        (local_instance(), "Move the class to the top of its module"),
        (sys.version_info, "Use a dataclass"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_has_no_stored_form_is_refused_at_once(value: object, advice: str) -> None:
    message = refusal({"a": [value]})
    assert message.startswith("$.a[0]: ")
    assert advice in message


def test_sockets_files_and_coroutines_are_refused() -> None:
    coroutine = answer()
    try:
        with socket.socket() as open_socket, Path(__file__).open() as open_file:
            for value in (open_socket, open_file, coroutine):
                assert refusal([value]).startswith("$[0]: type ")
    finally:
        coroutine.close()


def test_paths_name_fields_keys_indexes_and_members() -> None:
    bad = object()
    assert refusal(Holder([bad])).startswith("$.lock[0]: ")
    assert refusal((1, {"two words": bad})).startswith("$[1]['two words']: ")
    assert refusal({7: {"x": bad}}).startswith("$[7].x: ")
    assert refusal({(1, bad): 1}).startswith("$<key (1, <object object at 0x")
    assert refusal({"s": {1, bad}}).startswith("$.s{…}: ")


class Changing(list[int]):
    """Breaks while it is walked, as a value does that another thread changes."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("changed")


def test_a_value_that_breaks_while_it_is_walked_is_refused_with_its_path() -> None:
    assert refusal({"a": [Changing()]}) == f"$.a[0]: type {__name__}.Changing cannot be stored: RuntimeError: changed"


def test_a_failed_walk_says_the_same_for_text_with_surrogates_in_it() -> None:
    assert refusal({"\ud800": ["\ud800", object()]}).startswith("$['\\ud800'][1]: type object")


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append({"again": loop})
    assert (
        refusal({"a": loop}) == "$.a[0].again: refers back to $.a, so it would have no end. Store an id in its place."
    )
    holder = Holder(None)
    holder.lock = (holder,)
    assert "refers back to $" in refusal(holder)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_is_limited_and_never_a_recursion_error() -> None:
    assert codec.decode(codec.encode(nested(300))) == nested(300)
    for levels in (301, 5_000, 100_000):
        message = refusal(nested(levels))
        assert "nested deeper than 300 levels" in message
        assert len(message) < 200


def test_a_stack_that_is_nearly_used_up_is_an_encoding_error() -> None:
    def deeper(frames: int) -> bytes:
        return codec.encode(nested(250)) if frames == 0 else deeper(frames - 1)

    with pytest.raises(EncodingError, match="nested deeper"):
        deeper(sys.getrecursionlimit() - len(inspect.stack()) - 100)


def test_what_was_encoded_can_be_decoded_from_a_deeper_stack() -> None:
    value: Any = 1
    for _ in range(58):
        value = Holder((value,))
    data = codec.encode(value)

    def deeper(frames: int) -> Any:
        return codec.decode(data) if frames == 0 else deeper(frames - 1)

    assert deeper(300) == value
    for _ in range(100):
        value = Holder((value,))
    assert "nested deeper" in refusal(value)


def test_a_value_over_the_limit_is_refused_with_both_sizes() -> None:
    small = JsonCodec(max_bytes=100)
    assert small.decode(small.encode("x" * 98)) == "x" * 98
    for value in ("x" * 99, b"x" * 1000, [1] * 1000, {str(key): 1 for key in range(1000)}):
        with pytest.raises(PayloadTooLarge, match=r"^\$.*100"):
            small.encode(value)


def test_a_value_that_unfolds_without_end_is_refused_before_it_fills_the_memory() -> None:
    value: list[Any] = []
    for _ in range(100):
        value = [value, value]  # 2 ** 100 lists
    with pytest.raises(PayloadTooLarge):
        JsonCodec(max_bytes=10_000).encode(value)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[1,", b'{"$int":"x"}', b'{"$tuple":1}', b"[" * 100_000])
def test_damaged_bytes_are_a_decoding_error(data: bytes) -> None:
    with pytest.raises(DecodingError):
        codec.decode(data)
