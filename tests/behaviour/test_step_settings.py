"""Settings of a step, a workflow or a Retry that make no sense are refused where they are written."""

from __future__ import annotations

from typing import Any

import pytest

from outlast import Retry, WrongUse, step, workflow


@step
async def fetch(what: str, *, times: int = 1) -> str:
    return what * times


async def _function() -> None: ...


@pytest.mark.parametrize("name", ["", "a/b", "a#b", "a.b", "[a]", "a!", "a%", "a\nb", "a\0"])
def test_a_name_that_identities_could_not_hold_is_refused(name: str) -> None:
    with pytest.raises(WrongUse, match="cannot name a step"):
        step(name=name)(_function)
    with pytest.raises(WrongUse, match="cannot name a workflow"):
        workflow(name=name)(_function)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"effect": "twice"}, "must be 'pure', 'idempotent' or 'once'"),
        ({"confirm": _function}, "belong to effect='once'"),
        ({"definite": (ValueError,)}, "belong to effect='once'"),
        ({"definite": (ValueError, "x"), "effect": "once"}, "must be exception types"),
        ({"timeout": 0}, "must be a positive"),
        ({"timeout": -1.0}, "must be a positive"),
        ({"timeout": float("nan")}, "must be a positive"),
        ({"timeout": float("inf"), "effect": "once"}, "must be a positive, finite"),
        ({"effect": "once", "settle": -1}, "not negative"),
        ({"retry": 3}, "must be a Retry"),
        ({"timeout": "3"}, r"timeout='3': must be a positive, finite number of seconds"),
        ({"timeout": True}, "timeout=True: must be a positive"),
        ({"effect": "once", "settle": "3"}, "settle='3': must be a finite number of seconds"),
        ({"settle": 5}, "settle= belongs to effect='once', this step is 'idempotent'"),
        ({"effect": "pure", "settle": 5}, "settle= belongs to effect='once', this step is 'pure'"),
        ({"check_args": "no"}, "check_args='no': must be True or False"),
        ({"key": "k"}, r"key= names one call and not a step; .*a_step.options\(key=...\)"),
        ({"name": 5}, "name=5: the name of a step is a str"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_where_they_are_written(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(WrongUse, match=message):
        step(**settings)(_function)


@pytest.mark.parametrize(
    "settings",
    [
        {"attempts": 0},
        {"initial": -1},
        {"factor": 0.5},
        {"max_delay": -1},
        {"jitter": 2},
        {"within": 0},
        {"on": "ValueError"},
        {"on": (ValueError, "x")},
        {"never": 5},
        {"initial": float("nan")},
        {"max_delay": float("inf")},
    ],
    ids=str,
)
def test_a_retry_that_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Retry"):
        Retry(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"attempts": "3"},
        {"attempts": 1.5},
        {"attempts": True},
        {"initial": "1"},
        {"factor": None},
        {"within": "60"},
        {"jitter": "0.1"},
    ],
    ids=str,
)
def test_a_retry_of_what_is_no_number_is_refused_with_the_name_of_the_setting(settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(TypeError, match=rf"Retry\({name}=.*must be a (whole )?number"):
        Retry(**settings)


def test_a_once_step_that_is_used_with_another_effect_keeps_its_settle_to_itself() -> None:
    once = step(effect="once", settle=5)(_function)
    assert once.options(effect="pure") is not once
    with pytest.raises(WrongUse, match="settle= belongs"):
        fetch.options(settle=5)


def test_an_unknown_option_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(WrongUse, match=r"no such option: retries; there are .*retry"):
        fetch.options(retries=3)
    with pytest.raises(WrongUse, match="no such option: retries"):
        step(retries=3)  # type: ignore[call-overload]
    with pytest.raises(WrongUse, match="'pure', 'idempotent' or 'once'"):
        fetch.options(effect="maybe")
    with pytest.raises(WrongUse, match="a key is a str"):
        fetch.options(key=5)


def test_a_retry_takes_its_errors_as_a_type_a_tuple_or_a_list() -> None:
    for on in (OSError, (OSError,), [OSError]):
        assert Retry(on=on) == Retry(on=(OSError,))  # type: ignore[arg-type]
