"""A step's result as its record holds it, and as it comes back: what replay will see, the body sees now."""

from __future__ import annotations

from typing import Any

from outlast.codec.refusal import text_of
from outlast.core.codec import Codec
from outlast.core.effects import InStep
from outlast.core.errors import OutlastError


def stored(value: Any, codec: Codec, returns: Any) -> tuple[bytes, Any]:
    """Return a value as it is stored, and as it comes back where the annotation says `returns`.

    Raises EncodingError, DecodingError.
    """
    data = codec.encode(value)
    return data, codec.decode(data, returns)


def returned(value: Any, codec: Codec, returns: Any, place: InStep) -> tuple[bytes, Any]:
    """Do the same with what a step's function has returned, and name the step in errors."""
    try:
        return stored(value, codec, returns)
    except OutlastError as refused:
        what = f"step {place.step_id} of run {place.run_id} returned what cannot be stored"
        raise type(refused)(f"{what}: {refused}") from None


def facts_as_json(annotations: dict[str, Any]) -> str:
    """Return annotations as JSON.

    They are for people, so what JSON cannot hold is told by its text, and never fails.
    """
    import json  # noqa: PLC0415 - seldom needed, and slow to import

    facts = {}
    for name, fact in annotations.items():
        try:
            json.dumps(fact, allow_nan=False)
            facts[name] = fact
        except Exception:  # noqa: BLE001 - it may be anything
            facts[name] = text_of(fact)
    return json.dumps(facts)
