"""Times, lengths of time and texts, the way this command line writes them."""

from __future__ import annotations

import datetime as dt

LEAST_ERROR = 60
CUT = "…"
"""Stands where a text was cut."""
YEAR_S = 31_556_952


def clock_time(at: float | None) -> str:
    """Return a time as local date and time: `2025-11-29 19:24:05`."""
    if at is None:
        return ""
    try:
        return dt.datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"in the year {1970 + at / YEAR_S:.0f}"


def iso_time(at: float | None) -> str | None:
    """Return a time for JSON: `2025-11-29T18:24:05.123Z`."""
    if at is None:
        return None
    try:
        return dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return None


def lasted(seconds: float) -> str:
    """Return a length of time in one or two units: `12 ms`, `3.4 s`, `2 min 5 s`, `3 d 4 h`."""
    seconds = max(0.0, seconds)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, smaller_size, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def ago(at: float | None, now: float) -> str:
    """Return how long ago a time was, or in how long it will be: `3 min ago`, `in 5.0 s`."""
    if at is None:
        return ""
    return f"{lasted(now - at)} ago" if at <= now else f"in {lasted(at - now)}"


def size(number: int) -> str:
    """Return a number of bytes as `4.2 MB`."""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def visible(text: str) -> str:
    """Return a text with control characters escaped: a stored value must not steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_lines(text: str) -> str:
    """Return a text with control characters escaped, but for the ends of its lines."""
    return "\n".join(visible(line) for line in text.split("\n"))


def shortened(text: str, length: int | None) -> str:
    """Return a text in one line of at most `length` characters (None: of any length)."""
    line = visible(text)
    return line if length is None or len(line) <= length else line[: length - 1] + CUT


def cut_within(text: str, length: int | None) -> str:
    """Return an error's text in one line, cut in its middle: it ends with what to do."""
    line = visible(text)
    if length is None or len(line) <= length:
        return line
    last = max(line.rfind(end, 0, -1) for end in (". ", "; ", ": "))  # of the sentence before the last
    kept = len(line) - last - 1 if last >= 0 else 0
    kept = kept if 0 < kept <= length // 2 else length // 2
    return f"{line[: length - kept - 1].rstrip()}{CUT}{line[len(line) - kept :]}"


def with_where(error: str, where: str, length: int | None = None, *, advice: bool = False) -> str:
    """Return an error's line and where it was raised, cut to `length` characters; with `advice` in its middle."""
    end = f" ({visible(where)})" if where else ""
    cut = cut_within if advice else shortened
    return cut(error, None if length is None else max(length - len(end), LEAST_ERROR)) + end


def counted(number: int, noun: str) -> str:
    """Return `1 run`, `2 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
