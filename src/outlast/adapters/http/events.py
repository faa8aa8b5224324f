"""What a provider of models says in its answers: server-sent events as they come, and how many tokens were used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from outlast.runtime.run_usage import record_usage

LONGEST_JSON_BYTES = 4_000_000
"""A longer answer is not looked into."""


class Listener:
    """Hears an answer piece by piece. `told(event)` is called with the data of each event, decoded where it is JSON."""

    def __init__(self, content_type: str, told: Callable[[Any], None] | None) -> None:
        self._is_stream = content_type.startswith("text/event-stream")
        self._is_json = "json" in content_type
        self._told = told
        self._left = b""
        self._data: list[bytes] = []
        self._size = 0
        self._usage = Usage()

    def hear(self, chunk: bytes) -> None:
        """Hear a piece of the answer."""
        if self._is_json and self._size <= LONGEST_JSON_BYTES:
            self._size += len(chunk)
            self._data.append(chunk)
        elif self._is_stream:
            *lines, self._left = (self._left + chunk).split(b"\n")
            for line in lines:
                self._line(line.rstrip(b"\r"))

    def end(self) -> None:
        """The answer is over: record what was used for it, if it says so."""
        if self._is_stream:
            self._line(self._left.rstrip(b"\r"))
            self._line(b"")
        elif self._data and self._size <= LONGEST_JSON_BYTES:
            self._usage.look(_json(b"".join(self._data)))
        self._usage.record()

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            data, self._data = b"\n".join(self._data), []
            event = _json(data)
            self._usage.look(event)
            if self._told is not None:
                self._told(data.decode("utf-8", "replace") if event is None else event)


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None


class Usage:
    """What the parts of an answer say of tokens; later parts say more than earlier ones.

    OpenAI's two interfaces, Anthropic's and Google's are known, and all that speak like them.
    """

    def __init__(self) -> None:
        self._model = ""
        self._said: dict[str, Any] = {}

    def look(self, part: Any) -> None:
        """Look at one part: a whole answer, or an event."""
        if not isinstance(part, dict):
            return
        for place in (part, part.get("message"), part.get("response")):
            if isinstance(place, dict):
                model = place.get("model") or place.get("modelVersion")
                self._model = model if isinstance(model, str) else self._model
                usage = place.get("usage") or place.get("usageMetadata")
                if isinstance(usage, dict):
                    self._said |= {name: value for name, value in usage.items() if value is not None}

    def record(self) -> None:
        """Tell the step what was used."""
        counts = self._counts()
        if any(counts):
            tokens_in, tokens_out, cached = counts
            record_usage(
                model=self._model, input_tokens=max(tokens_in, cached), output_tokens=tokens_out, cached_tokens=cached
            )

    def _counts(self) -> tuple[int, int, int]:
        said = self._said
        if "promptTokenCount" in said:  # Google
            thoughts = _number(said, "thoughtsTokenCount")
            out = _number(said, "candidatesTokenCount") + thoughts
            return _number(said, "promptTokenCount"), out, _number(said, "cachedContentTokenCount")
        if "prompt_tokens" in said:  # OpenAI's chat completions
            cached = _number(said.get("prompt_tokens_details"), "cached_tokens")
            return _number(said, "prompt_tokens"), _number(said, "completion_tokens"), cached
        cached = _number(said.get("input_tokens_details"), "cached_tokens")  # OpenAI's responses
        read = _number(said, "cache_read_input_tokens")  # Anthropic, which counts these apart
        made = _number(said, "cache_creation_input_tokens")
        return _number(said, "input_tokens") + read + made, _number(said, "output_tokens"), cached or read


def _number(said: Any, name: str) -> int:
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
