"""Arguments of public calls: wrong types and names are refused with a sentence, right ones pass unchanged."""

import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import phsafe
from phsafe.errors import ArgumentError, PHSafeError
from phsafe.system import public_calls
from phsafe.system.public_calls import checked

CALLS = [name for name in phsafe.__all__ if name.islower()]


@checked
def example(path: str | Path, number: int = 1, share: float = 0.5, mode: bool = False, names: list[str] | None = None):
    return path, number, share, mode, names


@pytest.mark.parametrize("name", CALLS)
def test_every_public_call_refuses_a_wrong_type(name):
    """An object of a class that no call knows, in place of the first argument."""
    with pytest.raises(ArgumentError, match=rf"^{name}, \w+: expected .+, got an? Surprise"):
        getattr(phsafe, name)(type("Surprise", (), {})(), *([None] * 2)[: REST.get(name, 0)])


#: How many more arguments a call needs.
REST = {
    "accuracy": 1, "exact_tables": 1, "pums": 1, "registry": 1, "release": 2, "report": 1, "solve": 1, "synth": 1,
    "tabulate": 1, "validate": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_every_public_call_suggests_the_right_argument(name):
    with pytest.raises(ArgumentError, match=rf"^{name}: expected the arguments .+, got 'zzz'"):
        getattr(phsafe, name)(zzz=1)
    with pytest.raises(ArgumentError, match="did you mean sensitivity"):
        phsafe.release("a", "b", "c", sensitvity="tight")


def test_a_catalog_is_not_a_config():
    with pytest.raises(TypeError, match=r"got a Catalog; a catalog has tables but no budgets: .+phsafe.config\('us'\)"):
        phsafe.budget(phsafe.CENSUS_2020)
    with pytest.raises(PHSafeError, match="make one with phsafe"):
        phsafe.estimate(phsafe.config("pr"))


def test_arguments_that_fit_pass():
    given = (Path("x"), np.int64(3), 2, True, ["a"])
    assert example(*given) == given
    assert example("x", share=Decimal(1) and 0.25) == ("x", 1, 0.25, False, None)


def test_all_problems_are_reported_together():
    with pytest.raises(ArgumentError) as caught:
        example(3, number="3", share=True, mode=1, names="abc")
    assert caught.value.reasons == (
        "example, path: expected a path, got a whole number (3)",
        "example, number: expected a whole number, got text ('3')",
        "example, share: expected a number, got True or False",
        "example, mode: expected True or False, got a whole number (1)",
        "example, names: expected a list, got text ('abc')",
    )
    with pytest.raises(ArgumentError, match="missing a required argument: 'path'"):
        example()


def test_an_unknown_name_of_the_package_is_corrected():
    with pytest.raises(AttributeError, match="did you mean budget"):
        _ = phsafe.budgt


def test_notebooks_show_progress_by_themselves(monkeypatch):
    """A stand-in for a kernel records what a notebook would display; docs/notebooks run in a real one."""
    shown = []

    class Handle:
        def update(self, content):
            shown.append(content)

    def display(content, display_id):
        shown.append(content)
        return Handle()

    ZMQInteractiveShell = type("ZMQInteractiveShell", (), {})  # noqa: N806
    notebook = SimpleNamespace(display=display, HTML=str)
    module = SimpleNamespace(get_ipython=ZMQInteractiveShell, display=notebook)
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)

    @checked
    def work(progress=None):
        progress("<counting>", 0.5)
        progress(3, 4)
        return "result"

    assert work() == "result"
    assert "&lt;counting&gt; <progress max=100 value=50>" in shown[1]
    assert "value=75" in shown[2]
    assert shown[3] == "<small>work: done</small>"
    shown.clear()
    with pytest.raises(TypeError):
        checked(lambda progress=None: progress())()
    assert "stopped" in shown[-1]
    shown.clear()
    assert checked(lambda progress=None: progress)(progress=len) is len
    assert shown == []


def test_elsewhere_there_is_no_progress():
    assert not public_calls._in_notebook()
    assert checked(lambda progress=None: progress)() is None
