"""Outlast with one guard taken out. Each function does that to the process that calls it.

The tests must notice every one of these: what no test notices, nothing keeps in place.
"""

from __future__ import annotations
