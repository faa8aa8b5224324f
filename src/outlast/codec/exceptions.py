"""The tag of exceptions, and how they are rebuilt without running a constructor.

An exception is stored as the name of its class and: its text, arguments, attributes and notes, what C keeps of it
outside `__dict__` (`layout`), the members of a group, and a summary of its causes. A part that cannot be stored
becomes its text, since an error must reach the journal whatever it holds. Of the traceback the last line of the user's
code is kept, as text for people, and only of an error that is an outcome: one that is part of a value is compared.

What cannot be rebuilt comes back as `StepError`. So does every `BaseException` that is no `Exception`: a recorded
`KeyboardInterrupt` raised again would end the worker.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from outlast.codec.classes import Kind, c_constructor, find_class, loose_reference
from outlast.codec.instances import namespace_of, read_state, shape_of, untag_state, write_state
from outlast.codec.pydantic_models import is_validation_error, tag_validation_error, untag_validation_error
from outlast.codec.refusal import text_of
from outlast.codec.tagging import Walk, tag, tagger, to_json, untag, untagger
from outlast.core.errors import DecodingError, StepError
from outlast.core.frames import keep_where, where_of
from outlast.core.telling import text_of_error

_MOST_NESTED: Final = 8  # exceptions inside exceptions; deeper ones become text, so that shared ones cannot unfold
_MOST_CAUSES: Final = 20

# What these keep outside `__dict__`. `AttributeError.obj` is left out, as pickle does: it can be anything.
_UNICODE: Final = ("encoding", "object", "start", "end", "reason")
_LAYOUT: Final[dict[type, tuple[str, ...]]] = {
    AttributeError: ("name",),
    ImportError: ("msg", "name", "path", "name_from"),
    NameError: ("name",),
    OSError: ("errno", "strerror", "filename", "filename2", "characters_written"),
    StopIteration: ("value",),
    SyntaxError: (*("msg", "filename", "lineno", "offset", "text", "print_file_and_line", "end_lineno", "end_offset"),),
    UnicodeDecodeError: _UNICODE,
    UnicodeEncodeError: _UNICODE,
    UnicodeTranslateError: _UNICODE,
}
_BASE: Final[Any] = vars(BaseException)  # its descriptors, which no subclass can override
_GROUP: Final[Any] = vars(BaseExceptionGroup)


# -- encoding ----------------------------------------------------------------


@tagger(Kind.EXCEPTION)
def tag_exception(error: BaseException, walk: Walk, depth: int) -> object:
    """Tag an exception. Its parts are walked leniently: what cannot be stored in it becomes text."""
    walk.enter(depth, 1)
    if id(error) in walk.open_errors or len(walk.open_errors) >= _MOST_NESTED:
        return tag(f"{loose_reference(type(error))}: {text_of_error(error)}", walk, depth)
    lenient, walk.lenient = walk.lenient, True
    walk.open_errors.append(id(error))
    try:
        return {"$exception": [loose_reference(type(error)), _body(error, walk, depth + 3)]}
    finally:
        walk.lenient = lenient
        walk.open_errors.pop()


def _body(error: BaseException, walk: Walk, depth: int) -> dict[str, object]:
    cls = type(error)
    members = _GROUP["exceptions"].__get__(error) if isinstance(error, BaseExceptionGroup) else ()
    text = _part(text_of_error(error), walk, depth)
    body: dict[str, object] = {"text": text, "args": _args(error, text, members, walk, depth + 1)}
    optional: dict[str, object] = {
        "layout": _parts(_read_layout(error), walk, depth + 1),
        "state": _parts(read_state(error, shape_of(cls)), walk, depth + 1),
        "notes": [_part(note if isinstance(note, str) else text_of(note), walk, depth) for note in _notes(error)],
        "members": [_part(member, walk, depth + 1) for member in members],
        "causes": _causes(error, walk, depth),
        "alone": bool(_BASE["__suppress_context__"].__get__(error)) and _BASE["__cause__"].__get__(error) is None,
    }
    if members:
        optional["message"] = _part(_GROUP["message"].__get__(error), walk, depth)
    if walk.outcome:
        optional["where"] = _part(where_of(error), walk, depth)
    if is_validation_error(cls):
        optional["validation"] = tag_validation_error(error, walk, depth)
    body.update((name, part) for name, part in optional.items() if part)
    return body


def _args(
    error: BaseException, text: object, members: Collection[BaseException], walk: Walk, depth: int
) -> list[object]:
    before = walk.replaced
    args = [
        {"$members": type(arg) is tuple} if members and _holds(arg, members) else _part(arg, walk, depth)
        for arg in _BASE["args"].__get__(error)
    ]
    if walk.replaced > before and len(args) == 1 and type(error).__str__ is BaseException.__str__:
        return [text]  # the text of such an error is that of its one argument; so it still is when it comes back
    return args


def _part(value: object, walk: Walk, depth: int) -> object:
    """Tag one part of an exception, or its text where that fails."""
    try:
        tagged = tag(value, walk, depth)
        if not walk.part_bytes or len(to_json(tagged)) <= walk.part_bytes:
            return tagged
    except Exception:  # noqa: BLE001  # refused, or an object that fights being looked at
        pass
    walk.replaced += 1
    text = value if type(value) is str else text_of(value)
    if walk.part_bytes and len(text) > walk.part_bytes // 6:  # six bytes are the longest escape of a character
        text = f"{text[: walk.part_bytes // 6]}… ({len(text)} characters, cut)"
    return tag(text, walk, depth)


def _parts(state: dict[str, Any], walk: Walk, depth: int) -> dict[str, object]:
    return {name: _part(item, walk, depth) for name, item in state.items()}


def _holds(arg: object, members: Collection[BaseException]) -> bool:
    return type(arg) in (list, tuple) and [id(item) for item in arg] == [id(member) for member in members]  # type: ignore[attr-defined]


def _read_layout(error: BaseException) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in type(error).__mro__:
        for name in _LAYOUT.get(base, ()):
            try:
                item = vars(base)[name].__get__(error)
            except (AttributeError, KeyError):  # never set, or not in this Python
                continue
            if item is not None:
                found[name] = item
    return found


def _notes(error: BaseException) -> list[Any]:
    notes = namespace_of(error).get("__notes__")  # not by attribute: a class may have a `__getattr__`
    return notes if isinstance(notes, list) else []


def _causes(error: BaseException, walk: Walk, depth: int) -> list[object]:
    """Return the chain that a traceback would show, as `[is a cause, type, text, where]` for each link."""
    links: list[object] = []
    seen = {id(error)}
    while len(links) < _MOST_CAUSES:
        cause, context = (_BASE[name].__get__(error) for name in ("__cause__", "__context__"))
        hidden = _BASE["__suppress_context__"].__get__(error)
        following = cause if cause is not None else None if hidden else context
        if following is None or id(following) in seen:
            break
        name, text = loose_reference(type(following)), text_of_error(following)
        if type(following) is StepError and following.type_name:
            name, text = following.type_name, following.text
        link: list[object] = [cause is not None, _part(name, walk, depth), _part(text, walk, depth)]
        if walk.outcome and (where := where_of(following)):
            link.append(_part(where, walk, depth))
        links.append(link)
        seen.add(id(following))
        error = following
    return links


# -- decoding ----------------------------------------------------------------


@untagger("$exception")
def untag_exception(payload: list[Any], hint: object) -> BaseException:
    """Rebuild an exception, or a `StepError` in its place."""
    name, body = payload
    text = str(untag(body["text"], hint))
    notes = untag(body.get("notes", []), hint)
    try:
        error = _rebuild(find_class(name, Kind.EXCEPTION, hint), body, text, hint)
        str(error)  # an attribute that its text needs may have become text itself
    except BaseException:  # noqa: BLE001  # any failure has one answer, and `__str__` is user code
        error = StepError(f"{name}: {text}", type_name=name, text=text)
    if notes:
        namespace_of(error)["__notes__"] = notes
    keep_where(error, str(untag(body.get("where", ""), hint)))
    _link(error, untag(body.get("causes", []), hint))
    if body.get("alone"):
        _BASE["__suppress_context__"].__set__(error, True)
    return error


def _rebuild(cls: Any, body: dict[str, Any], text: str, hint: object) -> BaseException:
    if not issubclass(cls, Exception):
        raise DecodingError(f"{cls} is not an Exception")
    members: list[BaseException] = untag(body.get("members", []), hint)
    error: BaseException
    if is_validation_error(cls):
        error = untag_validation_error(body["validation"], text)
    elif members:
        error = BaseExceptionGroup.__new__(cls, untag(body["message"], hint), members)
    else:
        maker: Any = c_constructor(cls)
        error = maker.__new__(cls)
    if type(error) is not cls:
        raise DecodingError(f"{cls} cannot be made without its constructor")
    _BASE["args"].__set__(error, tuple(_untag_arg(arg, members, hint) for arg in body["args"]))
    for name, item in untag_state(body.get("layout", {}), hint).items():
        _write_layout(error, name, item)
    write_state(error, shape_of(cls), untag_state(body.get("state", {}), hint))
    return error


def _untag_arg(arg: Any, members: list[BaseException], hint: object) -> object:
    if type(arg) is dict and "$members" in arg:
        return tuple(members) if arg["$members"] else members
    return untag(arg, hint)


def _write_layout(error: BaseException, name: str, item: object) -> None:
    for base in type(error).__mro__:
        if name in _LAYOUT.get(base, ()):
            descriptor: Any = vars(base).get(name)
            if descriptor is not None:  # a name that this Python does not have is left out
                descriptor.__set__(error, item)
            return


def _link(error: BaseException, causes: list[Any]) -> None:
    """Hang stand-ins for its causes on an error, so that a traceback shows them."""
    for is_cause, name, text, *where in causes:
        following = StepError(f"{name}: {text}", type_name=name, text=text)
        keep_where(following, "".join(where))
        _BASE["__cause__" if is_cause else "__context__"].__set__(error, following)
        error = following
