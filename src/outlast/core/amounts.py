"""What counts as a number of seconds, or of anything else, in a setting."""

from __future__ import annotations

import numbers


def is_number(value: object) -> bool:
    """Tell whether this is a real number: not a text of one, nor True or False."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    """Tell whether this is a whole number, of a type that has no other."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
