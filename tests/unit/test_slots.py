"""When slots are: the table of daylight saving in the documentation, read and followed."""

from __future__ import annotations

import datetime as dt
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from outlast import WrongUse
from outlast.runtime.slots import Spec, decoded, spec_of

TABLE = Path(__file__).parents[2] / "docs" / "daylight-saving.json"


class Day(msgspec.Struct, frozen=True):
    """One row: a cron expression on the day of a change, and the slots of that day, by the zone's own clock."""

    zone: str
    day: str
    change: str
    cron: str
    slots: list[str]


DAYS = msgspec.json.decode(TABLE.read_bytes(), type=list[Day])


def cron_spec(cron: str, zone: str = "UTC") -> Spec:
    return spec_of(cron, None, zone, "one", 100, 60.0, "skip")


@pytest.mark.parametrize("row", DAYS, ids=lambda row: f"{row.zone} {row.day} {row.cron}")
def test_the_table_of_daylight_saving(row: Day) -> None:
    zone = ZoneInfo(row.zone)
    start = dt.datetime.fromisoformat(row.day).replace(tzinfo=zone)
    end = (dt.datetime.fromisoformat(row.day) + dt.timedelta(days=1)).replace(tzinfo=zone)
    slots = cron_spec(row.cron, row.zone).slots(start.timestamp() - 1, 0.0)
    found = []
    for at in slots:
        if at >= end.timestamp():
            break
        found.append(dt.datetime.fromtimestamp(at, zone).strftime("%H:%M%z"))
    assert found == row.slots


def test_the_table_has_both_changes_of_two_years_in_each_zone() -> None:
    days = {(row.zone, row.day[:4]): set() for row in DAYS}
    for row in DAYS:
        days[row.zone, row.day[:4]].add(row.change)
    for zone in ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe"):
        for year in ("2026", "2027"):
            assert days[zone, year] == {"forward", "back"}


def moments(spec: Spec, after: float, count: int, anchor: float = 0.0) -> list[float]:
    return list(islice(spec.slots(after, anchor), count))


def test_six_fields_have_the_second_first() -> None:
    assert moments(cron_spec("*/20 * * * * *"), 0.0, 3) == [20.0, 40.0, 60.0]


def test_a_slot_comes_after_the_moment_and_never_at_it() -> None:
    spec = cron_spec("* * * * *")
    assert [spec.first(at, 0.0) for at in (59.0, 59.999, 60.0, 60.4)] == [60.0, 60.0, 120.0, 120.0]


def test_intervals_count_from_when_the_schedule_began() -> None:
    spec = spec_of(None, 10.0, "UTC", "one", 100, 60.0, "skip")
    assert moments(spec, 5.0, 3, anchor=5.0) == [15.0, 25.0, 35.0]
    assert moments(spec, 15.0, 1, anchor=5.0) == [25.0]
    assert moments(spec, -12.0, 3, anchor=5.0) == [-5.0, 5.0, 15.0]  # as a clock set back, or a backfill, asks


def test_an_interval_has_no_slot_twice_whatever_its_fractions() -> None:
    spec = spec_of(None, 0.1, "UTC", "one", 100, 60.0, "skip")
    at, seen = 1.8e9 + 0.123, []
    for _ in range(1_000):
        at = spec.first(at, 1.7e9 + 0.3)
        seen.append(round(at, 3))
    assert seen == sorted(set(seen))
    assert seen[-1] - seen[0] == pytest.approx(99.9, abs=0.01)


@pytest.mark.parametrize("spec", [cron_spec("* * * * *"), spec_of(None, 60, "UTC", "one", 100, 60.0, "skip")])
def test_of_very_many_slots_the_last_ones_are_found(spec: Spec) -> None:
    now = 60.0 * 1_000_000 + 30.0
    found, before = spec.until(60.0 - 1e-3, now, 0.0, 3)
    assert found == [60.0 * n for n in (999_998, 999_999, 1_000_000)]
    assert before >= 9_999


def test_few_slots_are_all_found() -> None:
    for spec in (cron_spec("* * * * *"), spec_of(None, 60, "UTC", "one", 100, 60.0, "skip")):
        assert spec.until(60.0 - 1e-3, 200.0, 0.0, 10) == ([60.0, 120.0, 180.0], 0)
        assert spec.until(60.0 - 1e-3, 200.0, 0.0, 2) == ([120.0, 180.0], 1)


def test_a_spec_is_kept_and_read_again() -> None:
    spec = spec_of("0 3 * * *", None, "Europe/Berlin", "all", 7, 1.0, "queue")
    assert decoded(spec.encoded()) == spec


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cron": None}, "either cron= or every="),
        ({"every": 5}, "either cron= or every="),
        ({"cron": "61 * * * *"}, "cron='61 .*five fields"),
        ({"cron": "* * *"}, "five fields"),
        ({"cron": "0 3 31 2 *"}, "cron="),
        ({"cron": None, "every": 0}, "every=0"),
        ({"cron": None, "every": float("nan")}, "every=nan"),
        ({"cron": None, "every": True}, "every=True"),
        ({"timezone": "Mars/Olympus"}, "timezone='Mars/Olympus': no such time zone"),
        ({"timezone": "../etc"}, "no such time zone"),
        ({"timezone": ""}, "no such time zone"),
        ({"catch_up": "some"}, "catch_up='some'"),
        ({"most": 0}, "catch_up_limit=0"),
        ({"grace": -1}, "grace=-1"),
        ({"overlap": "wait"}, "overlap='wait'"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], says: str) -> None:
    good = {"cron": "0 3 * * *", "every": None, "timezone": "UTC", "catch_up": "one", "most": 100, "grace": 60.0}
    with pytest.raises(WrongUse, match=says):
        spec_of(**good | {"overlap": "skip"} | given)  # type: ignore[arg-type]
