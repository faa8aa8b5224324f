"""How the stores on a database go through a batch: what none can take is answered first, and neighbours go together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from outlast.stores.rules import objection
from outlast.stores.verbs import Answer, Finish, StartRun, Verb, Write

JUST_WRITES = {Write}


def answer(verbs: Sequence[Verb], commit: Callable[[Sequence[Verb]], list[Answer]]) -> list[Answer]:
    """Answer each verb, in order: those that no store can take here, all others by `commit`."""
    objections = [objection(verb) for verb in verbs]
    good = [verb for verb, objected in zip(verbs, objections, strict=True) if objected is None]
    rest = iter(commit(good) if good else ())
    return [next(rest) if objected is None else objected for objected in objections]


def apply_in_order(
    verbs: Sequence[Verb],
    alone: Callable[[Any], Answer],
    together: Mapping[type[Verb], Callable[[Any], list[Answer]]],
) -> list[Answer]:
    """Apply verbs as if one after the other, neighbours of a kind that `together` knows in one go."""
    if {*map(type, verbs)} == JUST_WRITES:  # most batches by far
        return together[Write](verbs)
    answers: dict[int, Answer] = {}
    for kinds, places in _neighbours(verbs):
        if not kinds:
            (place,) = places
            answers[place] = alone(verbs[place])
        for kind in kinds:
            some = [place for place in places if type(verbs[place]) is kind]
            answers.update(zip(some, together[kind]([verbs[place] for place in some]), strict=True))
    return [answers[place] for place in range(len(verbs))]


def _neighbours(verbs: Sequence[Verb]) -> Iterator[tuple[tuple[type[Verb], ...], list[int]]]:
    """Split a batch into stretches that can be applied together, each with the kinds in it, in order.

    The writes of a stretch come before its ends: an end rests on the records before it, and a stretch
    holds nothing more of a run that has ended in it.
    """
    at = 0
    while at < len(verbs):
        start, ended = at, set[int]()
        if type(verbs[at]) is StartRun:
            while at < len(verbs) and type(verbs[at]) is StartRun:
                at += 1
            yield (StartRun,), list(range(start, at))
            continue
        while at < len(verbs) and isinstance(verb := verbs[at], (Write, Finish)) and verb.run not in ended:
            if type(verb) is Finish:
                ended.add(verb.run)
            at += 1
        if at > start:
            yield (Write, Finish) if ended else (Write,), list(range(start, at))
        else:
            yield (), [at]
            at += 1
