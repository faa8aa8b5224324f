"""Tags of paths. Imported with the first of them, since `pathlib` takes its time to import."""

from __future__ import annotations

import pathlib
from typing import Any

from outlast.codec.tagging import Walk, tag, tagger, untag, untagger


@tagger(pathlib.PosixPath, pathlib.WindowsPath)
def _tag_path(value: pathlib.Path, walk: Walk, depth: int) -> object:
    return {"$path": tag(str(value), walk, depth)}


@untagger("$path")
def _untag_path(payload: Any, hint: object) -> pathlib.Path:
    return pathlib.Path(untag(payload, hint))


@tagger(pathlib.PurePosixPath, pathlib.PureWindowsPath)
def _tag_pure_path(value: pathlib.PurePath, walk: Walk, depth: int) -> object:
    return {"$purepath": [type(value).__name__, tag(str(value), walk, depth)]}


@untagger("$purepath")
def _untag_pure_path(payload: list[Any], hint: object) -> pathlib.PurePath:
    name, text = payload
    cls = {"PurePosixPath": pathlib.PurePosixPath, "PureWindowsPath": pathlib.PureWindowsPath}[name]
    return cls(untag(text, hint))
