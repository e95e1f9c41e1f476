"""Change the code a little, many times, and see whether the tests notice. Not part of the test suite.

    python tests/mutation/mutate.py privacy.sensitivity tabulation.truncation > survivors.txt

Works on a copy of the last commit. Each mutant differs from the code in one operator, comparison, condition or number,
or lacks one call; a child process with everything but phsafe imported loads the mutant and runs the tests of its
module, up to the first failure. A mutant that hangs is killed, and counts as noticed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ATTACKS = "tests/privacy_attacks"
LOSSES = f"{ATTACKS}/test_attack_claims.py::test_losses_follow_from_distances_and_noise"
NOISE = f"{ATTACKS}/test_attack_claims.py::test_noise_is_never_below_its_calibration"
MET = f"{ATTACKS}/test_attack_claims.py::test_noise_is_not_above_its_calibration_where_a_float_can_meet_it"
SHOWN = f"{ATTACKS}/test_attack_claims.py::test_what_is_shown_of_a_loss_is_never_below_it"
REPLAY = f"{ATTACKS}/test_attack_replay.py"
COUNTING = [
    f"{ATTACKS}/test_attack_engine_exhaustive.py",
    *(f"tests/tabulation/test_{name}.py" for name in ("truncation", "coding", "plan")),
]
LEDGER = [
    "tests/privacy/test_ledger.py",
    # Many processes for minutes; what they show does not hang on one operator.
    "--deselect=tests/privacy/test_ledger.py::test_of_five_parallel_releases_with_room_for_two_two_succeed",
    "--deselect=tests/privacy/test_ledger.py::test_kill_9_never_loses_a_charge_or_breaks_the_ledger",
]
RELEASING = [
    "tests/test_releasing.py",
    "--deselect=tests/test_releasing.py::test_parallel_releases_cannot_pass_the_cap_together",
    "--deselect=tests/test_releasing.py::test_kill_at_any_moment_leaves_no_half_release_and_no_uncharged_one",
]
#: The tests of each module, the quickest first; options apply to all.
TESTS = {
    "privacy.sensitivity": [
        "tests/privacy/test_sensitivity.py",
        f"{ATTACKS}/test_attack_exhaustive.py",
        LOSSES,
    ],
    "privacy.mechanism": ["tests/privacy/test_mechanism.py", MET, NOISE, REPLAY],
    "privacy.accountant": ["tests/privacy/test_accountant.py", SHOWN, "tests/test_budgets.py"],
    "privacy.margins": ["tests/privacy/test_margins.py"],
    "privacy.ledger_file": LEDGER,
    "privacy.ledger": LEDGER,
    "privacy.ledger_chain": LEDGER,
    "releasing": RELEASING,
}
#: What phsafe imports, loaded once.
PARTS = (
    "numpy",
    "polars",
    "pyarrow",
    "ibis",
    "duckdb",
    "scipy.stats",
    "rich",
    "opendp.prelude",
    "dp_accounting",
)
TIMEOUT = 300
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
    """Whether a condition has no operator of its own to change."""
    return not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str)
               for side in (node.left, node.right))  # fmt: skip


def survives(copy_of: Path, module: str, text: str, tests: list[str]) -> bool:
    """Whether all tests pass with the mutant in place of the module."""
    pid = os.fork()
    if pid == 0:
        _child(copy_of, module, text, tests)
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return False


def _child(copy_of: Path, module: str, text: str, tests: list[str]) -> None:
    code = 3
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        path = copy_of / "src" / "phsafe" / Path(*module.split(".")).with_suffix(".py")
        path.write_text(text)
        import pytest

        # Most mutants fall to the first tests, which are quick; the others are not even collected then.
        files = [test for test in tests if not test.startswith("--")]
        options = ["-x", "-q", "-p", "no:cacheprovider", *(test for test in tests if test.startswith("--"))]
        for part in (files[:1], files[1:]):
            code = pytest.main([*options, *part]) if part else code
            if code:
                break
    finally:
        os._exit(int(code))


def main() -> None:
    """Mutate the named modules and print what survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--every", type=int, default=1, help="try every n-th mutant only")
    parser.add_argument("--commit", default="HEAD", help="the commit to work on")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", given.commit], check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        os.chdir(place)
        sys.path.insert(0, str(place / "src"))
        sys.dont_write_bytecode = True
        for name in (*PARTS, "pytest"):
            __import__(name)
        for module in given.modules:
            _module(place, module, given.every)


def _module(place: Path, module: str, every: int) -> None:
    path = place / "src" / "phsafe" / Path(*module.split(".")).with_suffix(".py")
    source = path.read_text()
    tests = TESTS.get(module, COUNTING)
    print(f"## {module}: {' '.join(tests)}", flush=True)  # noqa: T201
    if not survives(place, module, source, tests):
        print("the tests fail without any change", flush=True)  # noqa: T201
        return
    killed = total = 0
    for number, (line, what, text) in enumerate(mutants(source)):
        if number % every:
            continue
        total += 1
        alive = survives(place, module, text, tests)
        killed += not alive
        if alive:
            shown = source.splitlines()[line - 1].strip() if line else ""
            print(f"survived: line {line}: {what}: {shown}", flush=True)  # noqa: T201
    path.write_text(source)
    print(f"{module}: {killed} of {total} killed", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
