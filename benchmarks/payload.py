"""What every step returns, here and in the systems compared: a dict that is 200 bytes of JSON."""

from __future__ import annotations

import json
from typing import Any

SIZE_BYTES = 200

PAYLOAD: dict[str, Any] = {
    "id": 123456, "status": "ok", "model": "small-1", "tokens": 512, "score": 0.875,
    "tags": ["a", "b", "c"], "text": "",
}  # fmt: skip
PAYLOAD["text"] = "x" * (SIZE_BYTES - len(json.dumps(PAYLOAD)))
