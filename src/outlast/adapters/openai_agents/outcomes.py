"""What the SDK's code gives, as a journal can keep it."""

from __future__ import annotations

from typing import Any

from outlast.codec.json_codec import JsonCodec
from outlast.core.errors import OutlastError

_codec = JsonCodec()
_PLAIN = (str, int, float, bool, type(None))


def storable(value: Any) -> Any:
    """Return a value, or its text where no journal can keep it.

    A tool may return anything that has a text, since that is what its model gets to see.
    """
    if type(value) in _PLAIN:
        return value
    try:
        _codec.decode(_codec.encode(value), Any)
    except OutlastError:
        return str(value)
    return value


def same(value: Any) -> Any:
    """Return the value: a journal keeps it as it is."""
    return value
