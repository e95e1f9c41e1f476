"""Change the code a little, many times, and see whether the tests notice. Not part of the test suite.

    python tests/mutation/mutate.py privacy.sensitivity counting.truncate > survivors.txt

Works on a copy of the last commit. Each mutant differs from the code in one operator, comparison, condition or number,
or lacks one call. The tests of a module are collected once and run once without change; for each mutant a forked child
puts the mutant's code into the functions and constants that are there, and runs the tests up to the first failure,
those of a file in the order of the time that they took. A mutant that uses three times the processor time of the whole
run without change, or waits for much longer, hangs, and counts as noticed. Tests that start a program of their own meet
the code without change, so they notice nothing here.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ATTACKS = "tests/privacy_attacks"
LOSSES = f"{ATTACKS}/test_attack_claims.py::test_losses_follow_from_distances_and_noise"
NOISE = f"{ATTACKS}/test_attack_claims.py::test_noise_is_never_below_its_calibration"
MET = f"{ATTACKS}/test_attack_claims.py::test_noise_is_not_above_its_calibration_where_a_float_can_meet_it"
SHOWN = f"{ATTACKS}/test_attack_claims.py::test_what_is_shown_of_a_loss_is_never_below_it"
REPLAY = f"{ATTACKS}/test_attack_replay.py"
COUNTING = [
    *(f"tests/counting/test_{name}.py" for name in ("plan", "coding", "tally", "vectorize", "kernel")),
    *(f"tests/counting/test_{name}.py" for name in ("truncation", "scan", "rules", "rules_by_hand", "oracle")),
    f"{ATTACKS}/test_attack_engine_exhaustive.py",
]
LEDGER = [
    "tests/privacy/test_ledger.py",
    "tests/privacy/test_ledger_chain.py",
    "tests/privacy/test_ledger_file.py",
    # Many processes for minutes; what they show does not hang on one operator.
    "--deselect=tests/privacy/test_ledger.py::test_of_five_parallel_releases_with_room_for_two_two_succeed",
    "--deselect=tests/privacy/test_ledger.py::test_kill_9_never_loses_a_charge_or_breaks_the_ledger",
]
RELEASING = [
    "tests/test_releasing.py",
    "tests/test_side_channels.py::test_times_say_the_day_and_no_more",
    "--deselect=tests/test_releasing.py::test_parallel_releases_cannot_pass_the_cap_together",
    "--deselect=tests/test_releasing.py::test_kill_at_any_moment_leaves_no_half_release_and_no_uncharged_one",
]
#: The files with the tests of each module, the quickest first; options apply to all.
TESTS = {
    "privacy.sensitivity": [
        "tests/privacy/test_sensitivity.py",
        f"{ATTACKS}/test_attack_exhaustive.py",
        LOSSES,
    ],
    "privacy.mechanism": [MET, NOISE, "tests/privacy/test_mechanism.py", REPLAY],
    "privacy.accountant": ["tests/privacy/test_accountant.py", SHOWN, "tests/test_budgets.py"],
    "privacy.margins": ["tests/privacy/test_margins.py"],
    "privacy.ledger_file": LEDGER,
    "privacy.ledger": LEDGER,
    "privacy.ledger_chain": LEDGER,
    "privacy.ledger_entries": LEDGER,
    "releasing": RELEASING,
}
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, description and text of every mutant of a module."""
    tree = ast.parse(source)
    skipped = {id(n) for node in ast.walk(tree) for part in _annotations(node) for n in ast.walk(part)}
    nodes = [n for n in ast.walk(tree) if id(n) not in skipped]
    for index, node in enumerate(nodes):
        for number, (what, _) in enumerate(_changes(node)):
            twin = copy.deepcopy(tree)
            twin_skipped = {id(n) for t in ast.walk(twin) for part in _annotations(t) for n in ast.walk(part)}
            target = [n for n in ast.walk(twin) if id(n) not in twin_skipped][index]
            list(_changes(target))[number][1]()
            yield getattr(node, "lineno", 0), what, ast.unparse(ast.fix_missing_locations(twin))


def _annotations(node: ast.AST) -> list[ast.AST]:
    """Parts that are not logic: annotations, decorators, and what is there for type checkers only."""
    parts = [getattr(node, name, None) for name in ("annotation", "returns")]
    parts += getattr(node, "decorator_list", [])
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        parts += node.body
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
        parts.append(node.value)
    return [part for part in parts if part is not None]


def _changes(node: ast.AST):
    """Pairs (description, how to make the change in place)."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            if type(op) in COMPARISONS:
                new = COMPARISONS[type(op)]
                yield (
                    f"{type(op).__name__} → {new.__name__}",
                    lambda i=i, new=new: node.ops.__setitem__(i, new()),
                )
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not _is_text(node):
        new = OPERATORS[type(node.op)]
        yield f"{type(node.op).__name__} → {new.__name__}", lambda: setattr(node, "op", new())
    elif isinstance(node, ast.BoolOp):
        new = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield f"{type(node.op).__name__} → {new.__name__}", lambda: setattr(node, "op", new())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "without minus", lambda: setattr(node, "op", ast.UAdd())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "without not", lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "without the call", lambda: setattr(node, "value", ast.Constant(None))
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and _is_plain(node.test):
        yield "if → if not", lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} → {not node.value}", lambda: setattr(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"{node.value} → {node.value + 1}", lambda: setattr(node, "value", node.value + 1)


def _is_plain(test: ast.expr) -> bool:
    """Whether a condition has no operator of its own to change, and is there for more than type checkers."""
    if isinstance(test, ast.Name) and test.id == "TYPE_CHECKING":
        return False
    return not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str)
               for side in (node.left, node.right))  # fmt: skip


class Mutation:
    """A pytest plugin: in place of one run of the tests, a run in a child for every mutant of a module."""

    def __init__(self, module: ModuleType, given: argparse.Namespace) -> None:
        self.module, self.given = module, given
        self.source = Path(module.__file__).read_text()
        self.seconds: dict[str, float] = {}
        self.failed: str | None = None
        #: What a child tells its parent.
        self.told = Path("told.json").absolute()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Fork for each mutant; a child goes on to the tests, the parent never does."""
        limit = self._run(self.source, None)
        if limit is None:
            return None
        if limit < 0:
            say(f"the tests fail without any change: {self._heard()['failed']}")
            return True
        seconds = self._heard()["seconds"]
        files = list(dict.fromkeys(item.path for item in session.items))
        session.items.sort(key=lambda item: (files.index(item.path), seconds[item.nodeid]))
        killed = total = 0
        for number, (line, what, text) in enumerate(mutants(self.source)):
            if number % self.given.every or (self.given.line and line not in self.given.line):
                continue
            used = self._run(text, 3 * limit + 10)
            if used is None:
                return None
            total += 1
            killed += used < 0
            shown = f"line {line}: {what}: {self.source.splitlines()[line - 1].strip() if line else ''}"
            if used >= 0:
                say(f"survived: {shown}")
            elif self.given.killed:
                say(f"killed: {shown}: {self._heard()['failed']}")
        say(f"{self.module.__name__}: {killed} of {total} killed")
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how long a test took, and which one failed."""
        if report.when == "call":
            self.seconds[report.nodeid] = report.duration
        if report.failed:
            self.failed = report.nodeid

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """A child ends here, without the parent's clean-up."""
        if os.getpid() != PARENT:
            self.told.write_text(json.dumps({"seconds": self.seconds, "failed": self.failed}))
            os._exit(int(exitstatus))

    def _heard(self) -> dict[str, Any]:
        """What the last child has told: nothing if it did not come to its end."""
        return json.loads(self.told.read_text()) if self.told.exists() else {"failed": "did not end"}

    def _run(self, text: str, limit: int | None) -> int | None:
        """Processor seconds of a run that passes, −1 for one that fails; None in the child, which is to run."""
        self.told.unlink(missing_ok=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        pid = os.fork()
        if pid == 0:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
                signal.alarm(10 * limit + 300)
            try:
                put_in(self.module, text)
            except BaseException:
                os._exit(3)
            return None
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return int(after.ru_utime - before.ru_utime) if status == 0 else -1


def put_in(module: ModuleType, text: str) -> None:
    """Give a module's functions and constants the code and values that they have in another text of it."""
    other = ModuleType(module.__name__)
    other.__file__ = module.__file__
    # Dataclasses look their module up by name.
    sys.modules[module.__name__] = other
    try:
        exec(compile(text, str(module.__file__), "exec"), other.__dict__)
    finally:
        sys.modules[module.__name__] = module
    _put_in(vars(module), vars(other), module)


def _put_in(old: dict[str, object], new: dict[str, object], module: ModuleType) -> None:
    for name, value in list(old.items()):
        if name not in new or (name.startswith("__") and name.endswith("__") and not callable(value)):
            continue
        was, now = _function(value), _function(new[name])
        if was is not None and now is not None:
            if was.__module__ == module.__name__:
                was.__code__, was.__defaults__, was.__kwdefaults__ = (
                    now.__code__,
                    now.__defaults__,
                    now.__kwdefaults__,
                )
        elif isinstance(value, type):
            if value.__module__ == module.__name__:
                _put_in(dict(vars(value)), dict(vars(new[name])), module)
        elif not isinstance(value, ModuleType) and old is vars(module) and value != new[name]:
            for place in list(sys.modules.values()):
                if getattr(place, "__dict__", {}).get(name) is value:
                    setattr(place, name, new[name])


def _function(value: object) -> FunctionType | None:
    """The plain function in a method, a property (cached or not) or a wrapper."""
    for inside in ("fget", "func", "__func__", "__wrapped__"):
        value = getattr(value, inside, None) or value
    return value if isinstance(value, FunctionType) else None


def say(line: str) -> None:
    """Past pytest's capture."""
    os.write(OUT, f"{line}\n".encode())


PARENT, OUT = os.getpid(), os.dup(1)


def main() -> None:
    """Mutate the named modules and print what survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+", help="names below phsafe, as privacy.sensitivity")
    parser.add_argument("--every", type=int, default=1, help="try every n-th mutant only")
    parser.add_argument("--line", type=int, action="append", help="try the mutants of this line only")
    parser.add_argument("--killed", action="store_true", help="say also what was killed, and by which test")
    parser.add_argument("--commit", default="HEAD", help="the commit to work on")
    given = parser.parse_args()
    if len(given.modules) > 1:
        git = ["git", "-C", str(ROOT), "rev-parse", given.commit]
        commit = subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
        for module in given.modules:
            one = [sys.executable, __file__, module, f"--every={given.every}", f"--commit={commit}"]
            subprocess.run([*one, *(["--killed"] if given.killed else [])], check=True)
        return
    (module,) = given.modules
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", given.commit], check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        os.chdir(folder)
        sys.path.insert(0, str(Path(folder) / "src"))
        os.environ["PYTHONPATH"] = sys.path[0]
        tests = TESTS.get(module, COUNTING)
        say(f"## {module}: {' '.join(tests)}")
        plugin = Mutation(importlib.import_module(f"phsafe.{module}"), given)
        assert str(plugin.module.__file__).startswith(folder)
        # What children would load one by one.
        importlib.import_module("opendp.prelude")
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests], plugins=[plugin])


if __name__ == "__main__":
    main()
