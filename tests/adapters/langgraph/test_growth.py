"""What a thread takes on the disk as it grows, and what is given back."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from outlast.langgraph import Saver
from tests.adapters.langgraph.graphs import line_of, thread

TURNS = 2_000


class Talk(TypedDict):
    messages: Annotated[list[Any], add_messages]


def chat(saver: Saver) -> Any:
    """Return a graph that answers a message with one of a size such as models give."""

    def model(_: Talk) -> Any:
        return {"messages": [AIMessage("an answer of some length " * 8)]}

    return StateGraph(Talk).add_node("model", model).add_edge(START, "model").compile(checkpointer=saver)


def test_a_thread_of_2000_turns_grows_nearly_in_a_line_and_gives_its_space_back(tmp_path: Path) -> None:
    """Each turn adds two entries to a list, of which each checkpoint has the whole."""

    class Notes(TypedDict):
        notes: Annotated[list[dict[str, str]], operator.add]

    def model(_: Notes) -> Any:
        return {"notes": [{"role": "ai", "content": "an answer of some length " * 8}]}

    def question(turn: int) -> Any:
        return {"notes": [{"role": "human", "content": f"question {turn} of a person " * 4}]}

    path = tmp_path / "agent.db"
    sizes = []
    with Saver(f"sqlite:///{path}") as saver:
        graph = StateGraph(Notes).add_node("model", model).add_edge(START, "model").compile(checkpointer=saver)
        for turn in range(TURNS):
            graph.invoke(question(turn), thread(), durability="exit")
            if turn % (TURNS // 4) == TURNS // 4 - 1:
                sizes.append(sum(saver.sizes("t").values()))
        whole = graph.get_state(thread()).values["notes"]
        assert len(whole) == 2 * TURNS
        first, last = sizes[0], sizes[-1] - sizes[-2]  # of the first and of the last quarter of the turns
        assert last < 1.2 * first
        on_disk = path.stat().st_size
        saver.prune(["t"])
        assert graph.get_state(thread()).values["notes"] == whole
        graph.invoke(question(TURNS), thread())
        assert len(graph.get_state(thread()).values["notes"]) == 2 * TURNS + 2
    assert path.stat().st_size < on_disk / 4


def test_a_list_comes_back_as_it_was_whatever_is_done_to_it(saver: Saver) -> None:
    """Longer, shorter, and changed in its midst; with what tells one type of an item from another."""

    class State(TypedDict):
        items: list[Any]

    graph = StateGraph(State).add_node("n", lambda _: {}).add_edge(START, "n").compile(checkpointer=saver)
    base: list[Any] = [f"item {n} " * 30 for n in range(70)]
    for items in (base, base[:33], [*base[:5], None, b"\0" * 3_000, *base[6:]], [], base * 2, [base, {"a": base}]):
        graph.invoke({"items": items}, thread())
        assert graph.get_state(thread()).values["items"] == items
    assert [state.values["items"] for state in graph.get_state_history(thread()) if state.next == ()][-1] == base


def test_parts_that_were_pruned_meanwhile_are_sent_again(url: str) -> None:
    with Saver(url) as one, Saver(url) as other:
        graph = chat(one)
        for n in range(12):
            graph.invoke({"messages": [HumanMessage(f"{n} " * 200)]}, thread())
        whole = graph.get_state(thread()).values["messages"]
        other.delete_thread("t")
        graph.invoke({"messages": whole}, thread())
        assert [m.content for m in graph.get_state(thread()).values["messages"][:-1]] == [m.content for m in whole]


def test_pruning_leaves_the_head_of_each_namespace_and_its_writes(saver: Saver) -> None:
    inner = line_of("deep").compile(checkpointer=True)
    graph = StateGraph(Talk).add_node("model", lambda _: {"messages": []}).add_edge(START, "model")
    graph.add_node("sub", lambda _: inner.invoke({"log": []}) and {"messages": []}).add_edge("model", "sub")
    compiled = graph.compile(checkpointer=saver)
    for n in range(3):
        compiled.invoke({"messages": [HumanMessage(str(n))]}, thread())
    before = compiled.get_state(thread())
    saver.prune(["t"])
    kept = [found.config["configurable"]["checkpoint_ns"] for found in saver.list(thread())]
    assert len(kept) == len(set(kept))
    assert compiled.get_state(thread()) == before


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_pruning_keeps_what_a_delta_channel_is_made_of(saver: Saver, durability: Any) -> None:
    class Grows(TypedDict):
        log: Annotated[list[str], DeltaChannel(lambda state, added: [*state, *(x for some in added for x in some)])]
        plain: Annotated[list[str], operator.add]

    def node(_: Any) -> Any:
        return {"log": ["node"], "plain": ["node"]}

    graph = StateGraph(Grows).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
    for n in range(5):
        graph.invoke({"log": [str(n)], "plain": [str(n)]}, thread(), durability=durability)
    before = graph.get_state(thread()).values
    assert before["log"] == before["plain"] == [name for n in range(5) for name in (str(n), "node")]
    saver.prune(["t"])
    assert graph.get_state(thread()).values == before
    graph.invoke({"log": ["on"], "plain": ["on"]}, thread(), durability=durability)
    assert graph.get_state(thread()).values["log"] == [*before["log"], "on", "node"]


def test_a_channel_that_grows_is_told_now_and_then(saver: Saver, caplog: pytest.LogCaptureFixture) -> None:
    """Each turn adds a prompt of half a MiB, of which nobody needs more than the last."""

    class Prompts(TypedDict):
        prompts: Annotated[list[str], operator.add]

    graph = StateGraph(Prompts).add_node("n", lambda _: {}).add_edge(START, "n").compile(checkpointer=saver)
    for _ in range(9):
        graph.invoke({"prompts": ["an agent" * 2**16]}, thread())
    told = [record.getMessage() for record in caplog.records if "channel 'prompts' of thread 't'" in record.message]
    assert [line.partition(" holds ")[2][:7] for line in told] == ["1.0 MiB", "4.0 MiB"]
    assert saver.sizes("t")["prompts"] > 0
