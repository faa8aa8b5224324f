"""When a failed attempt is tried again: the arithmetic of Retry."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outlast.core.errors import EncodingError, LostRun, StepError, StepTimeout
from outlast.core.records import Effect
from outlast.core.retry import NO_RETRY, Retry

seconds = st.floats(min_value=0, max_value=1e9)
retries = st.builds(
    Retry,
    attempts=st.integers(min_value=1, max_value=10**6),
    initial=seconds,
    factor=st.floats(min_value=1, max_value=1e6),
    max_delay=seconds,
    jitter=st.floats(min_value=0, max_value=1),
)
attempts = st.integers(min_value=1, max_value=10**6)


@given(retries, attempts, st.text())
@example(Retry(initial=0.0, factor=2.0), 5_000, "")
def test_a_wait_is_never_negative_nor_over_its_limit(retry: Retry, attempt: int, key: str) -> None:
    assert 0 <= retry.next_delay(attempt, key) <= retry.max_delay


@given(retries, attempts, st.text())
def test_jitter_takes_off_no_more_than_its_fraction(retry: Retry, attempt: int, key: str) -> None:
    whole = _without_jitter(retry).next_delay(attempt, key)
    assert whole * (1 - retry.jitter) <= retry.next_delay(attempt, key) <= whole


@given(retries, attempts, st.text())
def test_waits_without_jitter_do_not_shrink(retry: Retry, attempt: int, key: str) -> None:
    plain = _without_jitter(retry)
    assert plain.next_delay(attempt, key) <= plain.next_delay(attempt + 1, key)


@given(retries, attempts, st.text())
def test_a_wait_is_the_same_wherever_it_is_computed(retry: Retry, attempt: int, key: str) -> None:
    assert retry.next_delay(attempt, key) == retry.next_delay(attempt, key)


def test_a_first_wait_of_nothing_stays_nothing() -> None:
    retry = Retry(initial=0.0)
    assert [retry.next_delay(attempt, "k") for attempt in (1, 2, 100, 5_000)] == [0, 0, 0, 0]


def test_waits_grow_by_their_factor_up_to_the_limit() -> None:
    retry = Retry(initial=1, factor=3, max_delay=10, jitter=0)
    assert [retry.next_delay(attempt, "k") for attempt in (1, 2, 3, 4, 10_000)] == [1, 3, 9, 10, 10]


def test_jitter_spreads_calls_that_fail_at_one_instant() -> None:
    delays = {Retry(jitter=0.5).next_delay(1, f"run-{n}") for n in range(100)}
    assert len(delays) == 100
    assert max(delays) - min(delays) > 0.4


@given(retries, attempts)
def test_there_are_as_many_attempts_as_were_asked_for(retry: Retry, attempt: int) -> None:
    assert retry.allows(attempt, due=0, first_started=0) == (attempt < retry.attempts)


@given(st.floats(min_value=0.001, max_value=1e6), seconds, seconds)
def test_no_attempt_begins_after_the_time_for_all(within: float, first: float, wait: float) -> None:
    retry = Retry(attempts=10**9, within=within)
    assert retry.allows(1, due=first + wait, first_started=first) == ((first + wait) - first <= within)


def test_without_a_retry_there_is_one_attempt() -> None:
    assert not NO_RETRY.allows(1, due=0, first_started=0)


@pytest.mark.parametrize(
    ("retry", "error", "effect", "wanted"),
    [
        (Retry(), ValueError(), Effect.PURE, True),
        (Retry(), ValueError(), Effect.IDEMPOTENT, True),
        (Retry(), ValueError(), Effect.ONCE, False),  # which may have happened
        (Retry(), StepTimeout(), Effect.PURE, True),
        (Retry(), StepTimeout(), Effect.ONCE, False),
        (Retry(), KeyboardInterrupt(), Effect.PURE, False),
        (Retry(), StepError(), Effect.PURE, False),
        (Retry(), EncodingError(), Effect.PURE, False),
        (Retry(on=EncodingError), EncodingError(), Effect.PURE, False),
        (Retry(), LostRun(), Effect.PURE, False),
        (Retry(on=OSError), ConnectionError(), Effect.ONCE, True),
        (Retry(on=(OSError, KeyError)), ValueError(), Effect.PURE, False),
        (Retry(never=ConnectionError), ConnectionResetError(), Effect.PURE, False),
        (Retry(on=OSError, never=ConnectionError), ConnectionError(), Effect.PURE, False),
        (Retry(on=OSError, never=(ConnectionError,)), PermissionError(), Effect.PURE, True),
        (Retry(never=StepTimeout), StepTimeout(), Effect.PURE, False),
        (Retry(on=TimeoutError), StepTimeout(), Effect.PURE, True),
    ],
)
def test_which_errors_are_tried_again(retry: Retry, error: BaseException, effect: Effect, wanted: bool) -> None:
    assert retry.wants(error, effect) is wanted


@pytest.mark.parametrize(
    "settings",
    [
        {"attempts": 0},
        {"initial": -1},
        {"initial": float("nan")},
        {"initial": float("inf")},
        {"factor": 0.5},
        {"factor": float("inf")},
        {"max_delay": -1},
        {"jitter": 1.1},
        {"jitter": -0.1},
        {"within": 0},
        {"within": float("nan")},
        {"on": "ConnectionError"},
        {"on": [ValueError()]},
        {"never": int},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Retry"):
        Retry(**settings)


def _without_jitter(retry: Retry) -> Retry:
    return Retry(
        attempts=retry.attempts, initial=retry.initial, factor=retry.factor, max_delay=retry.max_delay, jitter=0
    )
