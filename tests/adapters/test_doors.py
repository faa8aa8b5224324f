"""What holds for the public module of every adapter, with and without its framework."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.adapters.doors import ADAPTERS, MODULES, PACKAGE, ROOT, door, extra_of, is_installed, page_of
from tests.docs.pages import text_of
from tests.docs.running import run_page

INSTALLED = [adapter for adapter in ADAPTERS if is_installed(adapter)]

WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({modules!r}))  # these are not installed, as far as imports go
try:
    import outlast.{adapter}
except ImportError as error:
    print(error)
"""


def test_outlast_loads_no_adapter() -> None:
    code = "import sys, outlast, outlast.sync, outlast.cli; print(*sorted(sys.modules))"
    loaded = _python(code).split()
    assert "outlast.runtime.app" in loaded
    frameworks = {module for modules in MODULES.values() for module in modules}
    assert [name for name in loaded if name.startswith("outlast.adapters") or name in frameworks] == []


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_framework_that_is_missing_is_named_with_the_extra_that_brings_it(adapter: str) -> None:
    printed = _python(WITHOUT.format(adapter=adapter, modules=MODULES[adapter]))
    assert f"pip install 'outlast[{extra_of(adapter)}]'" in printed
    assert printed.startswith(f"outlast.{adapter} needs ")


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_has_an_extra_a_door_tests_pins_and_a_page(adapter: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert extra_of(adapter) in project["project"]["optional-dependencies"]
    places = (
        PACKAGE / f"{adapter}.py",
        ROOT / "tests" / "adapters" / adapter / "requirements.txt",
        ROOT / "constraints" / f"{adapter}.txt",
        page_of(adapter),
    )
    assert [str(path) for path in places if not path.is_file()] == []


@pytest.mark.parametrize("adapter", INSTALLED)
def test_every_public_name_of_an_adapter_has_a_docstring_and_a_place_on_its_page(adapter: str) -> None:
    names = door(adapter).__all__
    assert names
    assert [name for name in names if not getattr(door(adapter), name).__doc__] == []
    assert [name for name in names if not re.search(rf"`[^`\n]*\b{name}\b", text_of(page_of(adapter)))] == []


@pytest.mark.parametrize("adapter", INSTALLED)
def test_the_page_of_an_adapter_runs(adapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page_of(adapter), tmp_path, monkeypatch)


def _python(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
