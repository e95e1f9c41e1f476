"""Mutation testing: make many small changes to the code and see which ones the tests detect. Not part of the suite.

    python tests/mutation/mutate.py privacy_math.sensitivity counting.truncate > survivors.txt

Works on a copy of the last commit. Each mutant differs from the code in one operator, comparison, condition or number,
or lacks one call. The tests of a module are collected once and run once on the original code. For each mutant, a forked
child process replaces the functions and constants of the module with those of the mutant and runs the tests up to the
first failure, the fastest tests of a file first. A mutant that uses three times the CPU time of the original run, or
waits much longer, is considered to hang and counts as killed. Subprocesses that a test starts run the original code,
so they don't detect anything.
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
EXACT = f"{ATTACKS}/test_attack_claims.py::test_noise_is_exactly_calibrated_if_a_float_can_represent_the_scale"
DISPLAYED = f"{ATTACKS}/test_attack_claims.py::test_displayed_losses_are_never_understated"
REPLAY = f"{ATTACKS}/test_attack_replay.py"
COUNTING = [
    *(f"tests/counting/test_{name}.py" for name in ("tallies", "kernel", "truncate", "beyond", "oracle", "encode")),
    *(f"tests/counting/test_{name}.py" for name in ("plan", "coding", "vectorize", "rules", "rules_by_hand")),
    "tests/pipeline/test_scan.py",
    f"{ATTACKS}/test_attack_structure_engine.py",
    f"{ATTACKS}/test_attack_engine_exhaustive.py",
]
LEDGER = [
    "tests/privacy/test_ledger.py",
    "tests/privacy/test_ledger_chain.py",
    "tests/privacy/test_ledger_file.py",
    "tests/privacy/test_ledger_keys.py",
    "tests/privacy/test_ledger_policy.py",
    "tests/privacy/test_ledger_decisions.py",
    # These run many processes for minutes, and don't depend on a single operator.
    "--deselect=tests/privacy/test_ledger.py::test_of_five_parallel_releases_exactly_two_fit_under_the_cap",
    "--deselect=tests/privacy/test_ledger.py::test_kill_9_never_loses_a_charge_or_damages_the_ledger",
]
RELEASING = [
    "tests/pipeline/test_publish.py",
    "tests/pipeline/test_release_guards.py",
    "tests/test_side_channels.py::test_file_times_reveal_only_the_day",
    "--deselect=tests/pipeline/test_publish.py::test_parallel_releases_cannot_exceed_the_cap",
    "--deselect=tests/pipeline/test_publish.py::test_kill_at_any_moment_leaves_no_partial_and_no_uncharged_release",
]
#: The tests of each module, the fastest files first; options apply to all of them.
TESTS = {
    "privacy_math.sensitivity": [
        "tests/privacy_math/test_sensitivity.py",
        f"{ATTACKS}/test_attack_exhaustive.py",
        LOSSES,
    ],
    "privacy.mechanism": [EXACT, NOISE, "tests/privacy/test_mechanism.py", REPLAY],
    "privacy.accountant": ["tests/privacy/test_accountant.py", DISPLAYED, "tests/privacy/test_budgets.py"],
    "privacy_math.margins": ["tests/privacy_math/test_margins.py"],
    "privacy.ledger_file": LEDGER,
    "privacy.ledger": LEDGER,
    "privacy.ledger_keys": LEDGER,
    "privacy.ledger_policy": LEDGER,
    "privacy.ledger_chain": LEDGER,
    "privacy.ledger_entries": LEDGER,
    "pipeline.publish": RELEASING,
    "pipeline.release_ledger": ["tests/pipeline/test_release_ledger.py"],
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
    """Every mutant of a module, as (line, description, source)."""
    tree = ast.parse(source)
    skipped = {id(n) for node in ast.walk(tree) for part in _annotations(node) for n in ast.walk(part)}
    nodes = [n for n in ast.walk(tree) if id(n) not in skipped]
    for index, node in enumerate(nodes):
        for number, (what, _) in enumerate(_changes(node)):
            mutant = copy.deepcopy(tree)
            mutant_skipped = {id(n) for t in ast.walk(mutant) for part in _annotations(t) for n in ast.walk(part)}
            target = [n for n in ast.walk(mutant) if id(n) not in mutant_skipped][index]
            list(_changes(target))[number][1]()
            yield getattr(node, "lineno", 0), what, ast.unparse(ast.fix_missing_locations(mutant))


def _annotations(node: ast.AST) -> list[ast.AST]:
    """Parts that are not logic: annotations, decorators, and code for type checkers only."""
    parts = [getattr(node, name, None) for name in ("annotation", "returns")]
    parts += getattr(node, "decorator_list", [])
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        parts += node.body
    if isinstance(node, ast.Module):  # Type aliases.
        parts += [s.value for s in node.body if isinstance(s, ast.Assign) and isinstance(s.value, ast.Subscript)]
    return [part for part in parts if part is not None]


def _changes(node: ast.AST):
    """The possible changes of a node, as (description, function that applies the change in place)."""
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
    """Whether a condition has no operator of its own to change and is not for type checkers only."""
    if isinstance(test, ast.Name) and test.id == "TYPE_CHECKING":
        return False
    return not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str)
               for side in (node.left, node.right))  # fmt: skip


class Mutation:
    """A pytest plugin that runs the tests once for every mutant of a module, each time in a forked child process."""

    def __init__(self, module: ModuleType, given: argparse.Namespace) -> None:
        self.module, self.given = module, given
        self.source = Path(module.__file__).read_text()
        self.seconds: dict[str, float] = {}
        self.failed: str | None = None
        #: How a child process passes its result to the parent.
        self.result_file = Path("result.json").absolute()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Fork for each mutant. The child runs the tests, the parent doesn't."""
        limit = self._run(self.source, None)
        if limit is None:
            return None
        if limit < 0:
            emit(f"the tests fail on the original code: {self._child_result()['failed']}")
            return True
        seconds = self._child_result()["seconds"]
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
                emit(f"survived: {shown}")
            elif self.given.killed:
                emit(f"killed: {shown}: {self._child_result()['failed']}")
        emit(f"{self.module.__name__}: {killed} of {total} killed")
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record how long each test took and which one failed."""
        if report.when == "call":
            self.seconds[report.nodeid] = report.duration
        if report.failed:
            self.failed = report.nodeid

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """End a child process here, without running the parent's clean-up."""
        if os.getpid() != PARENT:
            self.result_file.write_text(json.dumps({"seconds": self.seconds, "failed": self.failed}))
            os._exit(int(exitstatus))

    def _child_result(self) -> dict[str, Any]:
        """The result of the last child process, which has none if it was stopped."""
        return json.loads(self.result_file.read_text()) if self.result_file.exists() else {"failed": "did not finish"}

    def _run(self, text: str, limit: int | None) -> int | None:
        """The CPU seconds of a run that passes, −1 if it fails; None in the child process, which runs the tests."""
        self.result_file.unlink(missing_ok=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        pid = os.fork()
        if pid == 0:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
                signal.alarm(10 * limit + 300)
            try:
                install(self.module, text)
            except BaseException:
                os._exit(3)
            return None
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return int(after.ru_utime - before.ru_utime) if status == 0 else -1


def install(module: ModuleType, text: str) -> None:
    """Replace the code of a module's functions, and its constants, by those of a changed source."""
    other = ModuleType(module.__name__)
    other.__file__ = module.__file__
    # Dataclasses look up their module by name.
    sys.modules[module.__name__] = other
    try:
        exec(compile(text, str(module.__file__), "exec"), other.__dict__)
    finally:
        sys.modules[module.__name__] = module
    _install(vars(module), vars(other), module)


def _install(old: dict[str, object], new: dict[str, object], module: ModuleType) -> None:
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
                _install(dict(vars(value)), dict(vars(new[name])), module)
        elif not isinstance(value, ModuleType) and old is vars(module) and repr(value) != repr(new[name]):
            for importer in list(sys.modules.values()):
                if getattr(importer, "__dict__", {}).get(name) is value:
                    setattr(importer, name, new[name])


def _function(value: object) -> FunctionType | None:
    """The plain function behind a method, a property (cached or not) or a wrapper."""
    for inside in ("fget", "func", "__func__", "__wrapped__"):
        value = getattr(value, inside, None) or value
    return value if isinstance(value, FunctionType) else None


def emit(line: str) -> None:
    """Print a line, bypassing pytest's capture."""
    os.write(OUT, f"{line}\n".encode())


PARENT, OUT = os.getpid(), os.dup(1)


def main() -> None:
    """Mutate the given modules and print the mutants that survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+", help="modules of phsafe, such as privacy_math.sensitivity")
    parser.add_argument("--every", type=int, default=1, help="test only every n-th mutant")
    parser.add_argument("--line", type=int, action="append", help="test only the mutants of this line")
    parser.add_argument("--killed", action="store_true", help="also print killed mutants and the test that failed")
    parser.add_argument("--tests", action="append", help="run only these tests, for a first pass; for a single module")
    parser.add_argument("--commit", default="HEAD", help="the commit to mutate")
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
        tests = given.tests or TESTS.get(module, COUNTING)
        emit(f"## {module}: {' '.join(tests)}")
        plugin = Mutation(importlib.import_module(f"phsafe.{module}"), given)
        assert str(plugin.module.__file__).startswith(folder)
        # Import it once here instead of in every child process.
        importlib.import_module("opendp.measurements")
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests], plugins=[plugin])


if __name__ == "__main__":
    main()
