"""Columns of values as PostgreSQL's arrays, so that one statement carries any number of rows.

psycopg writes lists, too, but looks at each element anew to find its type; what a column of a table holds is known, and
then an array is a few bytes around each value. (The form is that of the wire protocol: dimensions, whether there are
nulls, the type of the elements, their number, the first index; then each with its length.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, ClassVar

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

_HEAD = struct.Struct("!iiiii")
_LENGTH = struct.Struct("!i")
_INT = struct.Struct("!iq")
_FLOAT = struct.Struct("!id")
_NULL = _LENGTH.pack(-1)
_TRUE, _FALSE = b"\0\0\0\1\1", b"\0\0\0\1\0"


class Column:
    """The values of one column, in the order of the rows."""

    __slots__ = ("values",)

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = tuple(values)


class Ints(Column):
    """bigint[]"""


class Floats(Column):
    """double precision[]"""


class Bools(Column):
    """boolean[], without nulls"""


class Texts(Column):
    """text[]"""


class Blobs(Column):
    """bytea[]"""


class _ArrayDumper(Dumper):
    format = Format.BINARY
    element: ClassVar[int]

    def _head(self, column: Column) -> bytes:
        return _HEAD.pack(1, 1, self.element, len(column.values), 1)


class _IntsDumper(_ArrayDumper):
    oid, element = 1016, 20

    def dump(self, obj: Any) -> Buffer | None:
        pack = _INT.pack
        return self._head(obj) + b"".join([_NULL if value is None else pack(8, value) for value in obj.values])


class _FloatsDumper(_ArrayDumper):
    oid, element = 1022, 701

    def dump(self, obj: Any) -> Buffer | None:
        pack = _FLOAT.pack
        return self._head(obj) + b"".join([_NULL if value is None else pack(8, value) for value in obj.values])


class _BoolsDumper(_ArrayDumper):
    oid, element = 1000, 16

    def dump(self, obj: Any) -> Buffer | None:
        return self._head(obj) + b"".join([_TRUE if value else _FALSE for value in obj.values])


class _BlobsDumper(_ArrayDumper):
    oid, element = 1001, 17

    def dump(self, obj: Any) -> Buffer | None:
        pack, parts = _LENGTH.pack, [self._head(obj)]
        for value in obj.values:
            if value is None:
                parts.append(_NULL)
            else:
                parts += (pack(len(value)), value)
        return b"".join(parts)


class _TextsDumper(_ArrayDumper):
    oid, element = 1009, 25

    def dump(self, obj: Any) -> Buffer | None:
        pack, parts = _LENGTH.pack, [self._head(obj)]
        for value in obj.values:
            if value is None:
                parts.append(_NULL)
            else:
                encoded = value.encode()
                parts += (pack(len(encoded)), encoded)
        return b"".join(parts)


_DUMPERS: dict[type[Column], type[_ArrayDumper]] = {
    Ints: _IntsDumper,
    Floats: _FloatsDumper,
    Bools: _BoolsDumper,
    Texts: _TextsDumper,
    Blobs: _BlobsDumper,
}


def teach(connection: psycopg.Connection[Any]) -> None:
    """Let a connection take columns as parameters."""
    for column, dumper in _DUMPERS.items():
        connection.adapters.register_dumper(column, dumper)
