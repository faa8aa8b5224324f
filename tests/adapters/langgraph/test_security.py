"""What callers and rows can make a checkpointer do."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path
from typing import Any

import apsw
import ormsgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from outlast import StoreError, WrongUse
from outlast.langgraph import Saver
from tests.adapters.langgraph.graphs import line_of, thread
from tests.conformance.test_checkpoints import HOSTILE

PLAIN = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=6) | st.sampled_from(HOSTILE)


def found(saver: Saver, config: Any, wanted: dict[Any, Any]) -> list[Any]:
    """Return what a filter finds; nothing where it is refused."""
    try:
        return list(saver.list(config, filter=wanted))
    except WrongUse:
        return []


@pytest.mark.parametrize("text", HOSTILE)
def test_a_filter_finds_nothing_of_another_thread(saver: Saver, text: str) -> None:
    graph = line_of("a").compile(checkpointer=saver)
    graph.invoke({"log": []}, {**thread("theirs"), "metadata": {"tenant": "theirs"}})
    for wanted in ({text: "theirs"}, {"tenant": text}, {f"tenant{text}": "theirs"} if text else {"": ""}, {text: text}):
        assert found(saver, thread("mine"), wanted) == []
        assert found(saver, None, wanted) == []
    assert list(saver.list(thread("theirs"), before=thread("theirs", checkpoint_id=text), limit=0)) == []
    assert saver.get_tuple(thread("theirs", checkpoint_id="x" + text)) is None
    assert saver.get_tuple(thread("theirs", checkpoint_ns=text or "no")) is None
    assert len(list(saver.list(None, filter={"tenant": "theirs"}))) == 3


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(max_size=8) | st.sampled_from(HOSTILE), value=PLAIN, other=PLAIN)
def test_a_filter_finds_what_is_equal_and_nothing_else(saver: Saver, name: str, value: Any, other: Any) -> None:
    saver.delete_thread("t")
    checkpoint: Any = {"v": 1, "id": "1", "ts": "", "channel_values": {}, "channel_versions": {}, "versions_seen": {}}
    metadata: Any = {name: value}
    if any("\ud800" <= char <= "\udfff" for text in (name, value) if isinstance(text, str) for char in text):
        with contextlib.suppress(UnicodeEncodeError, ormsgpack.MsgpackEncodeError, StoreError):
            saver.put(thread(), checkpoint, metadata, {})
        assert found(saver, thread(), {name: value}) == []
        return
    saver.put(thread(), checkpoint, metadata, {})
    (stored,) = saver.list(thread())
    kept = dict(stored.metadata).get(name)
    equal = type(kept) is type(other) and kept == other
    assert len(found(saver, thread(), {name: other})) == (equal and not ("\0" in name or "\ud800" in str(other)))


def test_a_filter_that_is_no_plain_json_is_refused(saver: Saver) -> None:
    with pytest.raises(WrongUse, match="cannot be filtered by"):
        list(saver.list(thread(), filter={"source": object()}))


class Runs:
    """What a pickle would run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def spoil(path: Path, kind: str, data: bytes) -> None:
    """Put something into the newest checkpoint of a store that no checkpointer has written."""
    db = apsw.Connection(str(path))
    sql = "UPDATE checkpoints SET type = ?, data = ? WHERE pk = (SELECT max(pk) FROM checkpoints)"
    db.execute(sql, (kind, data))
    db.close()


def test_a_pickle_in_a_row_is_not_loaded(tmp_path: Path) -> None:
    path, proof = tmp_path / "agent.db", tmp_path / "proof"
    with Saver(f"sqlite:///{path}") as saver:
        line_of("a").compile(checkpointer=saver).invoke({"log": []}, thread())
    spoil(path, "pickle", pickle.dumps(Runs(proof)))
    with Saver(f"sqlite:///{path}") as saver, pytest.raises(NotImplementedError, match="pickle"):
        saver.get_tuple(thread())
    assert not proof.exists()


def test_with_a_strict_serializer_no_class_is_made_that_is_not_allowed(tmp_path: Path) -> None:
    path, proof = tmp_path / "agent.db", tmp_path / "proof"
    with Saver(f"sqlite:///{path}") as saver:
        line_of("a").compile(checkpointer=saver).invoke({"log": []}, thread())
    call = ormsgpack.Ext(1, ormsgpack.packb(("builtins", "open", (str(proof), "w"))))
    spoil(path, "msgpack", ormsgpack.packb({"checkpoint": {"x": call}, "metadata": {}}))
    with Saver(f"sqlite:///{path}", serde=JsonPlusSerializer(allowed_msgpack_modules=None)) as saver:
        saver.get_tuple(thread())
    assert not proof.exists()
