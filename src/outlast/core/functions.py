"""A function of the user, as what steps and workflows are made of: its name, its place, its signature."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import re
import sys
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from outlast.core.errors import WrongUse

P = ParamSpec("P")
R = TypeVar("R")

MAX_NAME_LENGTH = 255
"""Of a step or a workflow, in characters: identities of calls and ids of children hold it."""
MOST_SHAPES = 100
"""So many ways to call one function are known not to need a look at its signature."""


class Definition(Generic[P, R]):
    """What steps and workflows have in common: a function with a name, and the face of that function."""

    noun = "definition"
    is_step = False
    has_self = False
    """Whether it is bound to an object, which only this process has."""
    load: object = None
    """What stands for the execution of its file, where it is known by its name."""

    @property
    def written(self) -> str:
        """Return its name as code has it: those of Outlast's own begin with `!` in a journal."""
        return f"outlast.{self.name[1:]}" if self.name.startswith("!") else self.name

    def __init__(self, fn: Callable[P, Any], name: str | None) -> None:
        if not callable(fn):
            raise WrongUse(f"@outlast.{self.noun} decorates a function, not {fn!r}")
        if isinstance(fn, staticmethod):
            raise WrongUse(f"@staticmethod belongs above @outlast.{self.noun}, not below it ({fn.__name__})")
        plain = _innermost(fn)
        if isinstance(plain, Definition):
            raise WrongUse(
                f"{plain.name} is a {plain.noun} already, and @outlast.{self.noun} decorates a plain function; "
                f"that is {plain.name}.fn"
            )
        if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
            raise WrongUse(f"{_plain_name(fn)} yields, and a {self.noun} returns one value; return a list instead")
        self.fn = fn
        self.plain = plain  # what a partial was made of, else `fn`
        self.name: str = _plain_name(fn) if name is None else name
        if not isinstance(self.name, str):
            raise WrongUse(f"name={name!r}: the name of a {self.noun} is a str")
        if len(self.name) > MAX_NAME_LENGTH:
            raise WrongUse(f"the name of a {self.noun} has at most {MAX_NAME_LENGTH} characters: {self.name[:40]!r}...")
        if not self.name or any(c in self.name for c in "/#.[]!%:") or not self.name.isprintable():
            raise WrongUse(f"{self.name!r} cannot name a {self.noun}: one or more characters, none of / # . [ ] ! % :")
        self.is_async = is_async(fn)
        self._fitting: set[object] = set()  # how many arguments, and which names, it is known to take
        self._fitting_bound: set[object] = set()  # the same, bound to an object
        functools.update_wrapper(self, fn, updated=())  # type: ignore[arg-type]
        self.__name__: str = getattr(fn, "__name__", self.name)  # partials and callable objects have none
        # Frameworks ask inspect and asyncio whether to await. Both look at the code's flags of anything
        # that has a function's attributes (Python 3.11 knows no other way), and at these marks.
        if self.is_async:
            code = getattr(plain, "__code__", None) or getattr(type(plain).__call__, "__code__", None)
            self.__code__ = code
            self.__defaults__ = getattr(fn, "__defaults__", None)
            self.__kwdefaults__ = getattr(fn, "__kwdefaults__", None)
            self._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
            if hasattr(inspect, "markcoroutinefunction"):
                inspect.markcoroutinefunction(self)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind like a function, so that a method can be decorated."""
        if instance is None:
            return self
        bound = copy.copy(self)
        bound.fn = bound.__wrapped__ = functools.partial(self.fn, instance)  # type: ignore[attr-defined]
        bound.has_self = True
        bound._fitting = self._fitting_bound
        return bound

    def __repr__(self) -> str:
        return f"<{self.noun} {self.name}>"

    @functools.cached_property
    def definition(self) -> str:
        """Where the function stands, `module:qualname`; a script run by itself counts as the module of its file's
        name.
        """
        fn = inspect.unwrap(_innermost(self.fn))
        module = getattr(fn, "__module__", "") or ""
        if module == "__main__":
            main = sys.modules["__main__"]
            spec = getattr(main, "__spec__", None)
            file = getattr(main, "__file__", None) or ""
            module = spec.name if spec is not None else file.replace("\\", "/").rpartition("/")[2].removesuffix(".py")
        return f"{module}:{getattr(fn, '__qualname__', self.name)}"

    @functools.cached_property
    def returns(self) -> Any:
        """The return annotation, for decoding; Any where there is none or it cannot be evaluated."""
        return _hints(self.fn).get("return", Any)

    @functools.cached_property
    def input_type(self) -> Any:
        """A type that holds all parameters' annotations, for finding classes when arguments are decoded."""
        hints = tuple(hint for name, hint in _hints(self.fn).items() if name != "return")
        return tuple[hints] if hints else Any  # type: ignore[valid-type]

    def check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise TypeError, as the call of the function would, when it does not take these arguments."""
        shape = (len(args), *kwargs) if kwargs else len(args)
        if shape in self._fitting:
            return
        try:  # a decorator's wrapper is asked itself: it may add arguments to those that it is given
            takes = inspect.signature(self.fn, follow_wrapped=False)
        except (TypeError, ValueError):
            return
        try:
            takes.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.noun} {self.name}{_shown(self.fn)}: {error}") from None
        if len(self._fitting) < MOST_SHAPES:
            self._fitting.add(shape)

    def say_argument(self, refused: str, *, whole: bool) -> str:
        """Return what a codec says of arguments that it refuses, with the parameter in place of the path's start.

        `whole`: they were encoded as a list of those by position and an object of those by name.
        """
        path = re.match(r"\$\[0\]\[(\d+)\]|\$\[1\]\.(\w+)" if whole else r"\$\[(\d+)\]()", refused)
        if path is None:
            return refused
        position, name = path[1], path[2]
        if position:
            name = self._parameter(int(position))
        return f"argument {name!r}{refused[path.end() :]}" if name else refused

    def _parameter(self, position: int) -> str:
        """Return the name of the parameter that takes the argument at this position."""
        for place, parameter in enumerate(self.signature.parameters.values() if self.signature is not None else ()):
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                return f"*{parameter.name}"
            if place == position:
                return parameter.name
        return ""

    @functools.cached_property
    def signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.fn)
        except (TypeError, ValueError):
            return None


def is_async(fn: Any) -> bool:
    """Tell whether calling this gives something to await."""
    fn = _innermost(fn)
    called = getattr(type(fn), "__call__", None)  # noqa: B004 - a callable object may be async, too
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(called)


def _shown(fn: Any) -> str:
    """Return the signature of a function as its author wrote it."""
    try:
        return str(inspect.signature(fn, eval_str=True))
    except Exception:  # noqa: BLE001 - an annotation may be anything
        return str(inspect.signature(fn))


def _innermost(fn: Any) -> Any:
    """Return the function that a partial, or a partial of one, calls."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _plain_name(fn: Any) -> str:
    fn = _innermost(fn)
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return "lambda" if name == "<lambda>" else str(name)


def _hints(fn: Any) -> dict[str, Any]:
    try:
        return inspect.get_annotations(_innermost(fn), eval_str=True)
    except Exception:  # noqa: BLE001 - an annotation may be anything; it only helps decoding
        return {}
