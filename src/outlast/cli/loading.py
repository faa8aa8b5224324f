"""Importing the user's code, named as a file or as a module."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from outlast.core.definitions import Step
from outlast.core.errors import WrongUse
from outlast.core.functions import Definition
from outlast.core.workflows import Workflow
from outlast.runtime import registry
from outlast.runtime.app import App
from outlast.runtime.importing import imported_for_its_workflows


def load_all(names: list[str]) -> None:
    """Import the named files and modules. Raises WrongUse as `load` does, and for one that defines nothing."""
    for name in names:
        before = set(registry.names())
        module = load(name)
        if not definitions_in(module) and set(registry.names()) == before:
            raise WrongUse(
                f"{name} defines no workflow, so there would be nothing to execute; "
                "put @outlast.workflow above a function, or name the module where they are"
            )
    for name, places in registry.shared_names().items():
        raise WrongUse(
            f"{' and '.join(places)} are two workflows named {name!r}, and a worker that has one of them alone would "
            f"execute runs of the other; give one another name: @outlast.workflow(name=...)"
        )


def load(name: str) -> ModuleType:
    """Import a file (`agent.py`, as module `agent`) or a module (`shop.agent`). Raises WrongUse that shows why not."""
    if name.endswith(".py") or os.sep in name:
        return _load_file(name)
    if not all(name.split(".")):
        raise WrongUse(f"{name!r} is no module: give a file (agent.py) or a module (shop.agent)")
    if Path(name).is_file():
        raise WrongUse(f"{name} is no Python file: give one whose name ends with .py, or a module (shop.agent)")
    _put_first(os.getcwd())  # noqa: PTH109 - as `python -m` does
    _check_packages(name)
    try:
        with imported_for_its_workflows(name):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            file = f"; there is a file {name}.py: name it so" if Path(f"{name}.py").is_file() else ""
            raise WrongUse(f"there is no module {error.name!r} here or on Python's path{file}") from None
        raise _told(name, error) from error
    except Exception as error:
        raise _told(name, error) from error


def _check_packages(name: str) -> None:
    """Refuse a dotted name within what is no package: to import it would execute that (`bank.txt` means `bank.py`)."""
    path: Sequence[str] | None = None
    parts = name.split(".")
    for at, part in enumerate(parts[:-1], 1):
        found = PathFinder.find_spec(".".join(parts[:at]), path)
        if found is None or not part:
            return  # the import says so, or knows more than paths do
        path = found.submodule_search_locations
        if path is None:
            raise WrongUse(f"there is no file {name}, and there is no module {name!r}: {found.origin} is no package")


def _load_file(name: str) -> ModuleType:
    path = Path(name)
    if not path.is_file():
        raise WrongUse(f"there is no file {name}")
    if path.suffix != ".py":
        raise WrongUse(f"{name} is no Python file: give one whose name ends with .py")
    stem = path.stem
    if not stem.isidentifier():
        raise WrongUse(f"{name} cannot be imported: {stem!r} is no name for a module; rename the file")
    loaded = sys.modules.get(stem)
    if loaded is not None:
        if getattr(loaded, "__file__", None) and Path(str(loaded.__file__)).resolve() == path.resolve():
            return loaded
        where = getattr(loaded, "__file__", None) or "Python itself"
        raise WrongUse(f"{name} cannot be module {stem!r}, which is imported from {where} already; rename the file")
    _put_first(str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(stem, path.resolve())
    if spec is None or spec.loader is None:
        raise WrongUse(f"{name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    try:
        with imported_for_its_workflows(name):
            spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[stem]
        raise _told(name, error) from error
    except SystemExit as error:
        how = f"exit {error.code}"
        raise WrongUse(f"{name} ends the process when imported ({how}); put that under `if __name__ ...`") from None
    return module


def _told(name: str, error: Exception, what: str = "cannot be imported") -> WrongUse:
    """Return the error for a module that failed, with the traceback from the user's first line on."""
    trace = error.__traceback__
    own = (__file__, importlib.__file__)
    while trace is not None and (
        trace.tb_frame.f_code.co_filename in own or trace.tb_frame.f_code.co_filename.startswith("<frozen importlib")
    ):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    hint = ""
    if isinstance(error, ImportError) and "no known parent package" in str(error):
        hint = f"\n{name} belongs to a package: name it with dots (shop.agent), from the folder above the package"
    return WrongUse(f"{name} {what}:\n{text}{hint}")


def _put_first(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def definitions_in(module: ModuleType) -> dict[str, Definition[..., Any]]:
    """Return the workflows and steps that a module holds, by their name there."""
    return {name: value for name, value in vars(module).items() if isinstance(value, Definition)}


def find_definition(target: str) -> Workflow[..., Any] | Step[..., Any]:
    """Import the code of `FILE_OR_MODULE:NAME` and return what it names. Raises WrongUse that lists what there is."""
    code, colon, name = target.rpartition(":")
    if not colon or not code or not name:
        raise WrongUse(f"{target!r} is not CODE:WORKFLOW, such as agent.py:fulfil{_listing(load(target))}")
    module = load(code)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:  # it may be named otherwise than its function: @workflow(name=...)
        found = next((d for d in definitions_in(module).values() if d.name == name), None)
    if isinstance(found, Workflow | Step):
        return found
    if callable(found):
        raise WrongUse(f"{name} in {code} is a plain function; put @outlast.workflow or @outlast.step above it")
    raise WrongUse(f"{code} has no workflow or step {name!r}{_listing(module)}")


def find_app(target: str) -> App:
    """Return the App that `CODE:NAME` names, or that the function of that name makes. Raises WrongUse."""
    code, colon, name = target.rpartition(":")
    if not colon or not code or not name:
        raise WrongUse(f"{target!r} is not CODE:NAME, such as shop.agent:make_app; it is to name an App or its maker")
    found: Any = load(code)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise WrongUse(f"{code} has no {name}; --app takes an App, or a function that makes one")
    made = found
    if callable(found) and not isinstance(found, App):
        try:
            made = found()
        except Exception as error:
            raise _told(target, error, "did not make an App") from error
    if not isinstance(made, App):
        what = "gave" if made is not found else "is"
        raise WrongUse(f"{target} {what} {made!r}; --app takes an outlast.App, or a function that makes one")
    return made


def _listing(module: ModuleType) -> str:
    names = ", ".join(sorted(definitions_in(module)))
    return f"; it has {names}" if names else "; it defines none"
