"""Tags of time zones that have a key. Imported with the first of them, since `zoneinfo` takes its time to import."""

from __future__ import annotations

import zoneinfo

from outlast.codec.scalars import PLAIN, UNCOMPARED, tag_zone
from outlast.codec.tagging import tagger

tagger(zoneinfo.ZoneInfo)(tag_zone)
PLAIN[zoneinfo.ZoneInfo] = lambda value: zoneinfo.ZoneInfo(value.key)
UNCOMPARED.add(zoneinfo.ZoneInfo)
