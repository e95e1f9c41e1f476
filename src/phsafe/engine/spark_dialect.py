"""What Ibis leaves out, or what means something else, where it writes SQL for Spark."""

from __future__ import annotations

from typing import Any

import ibis.expr.operations as ops
import sqlglot.expressions as sge
from ibis.backends.sql.compilers.pyspark import PySparkCompiler

# ruff: noqa: N802, ANN401  (Ibis' names, and sqlglot's types are its own affair)


class Compiler(PySparkCompiler):
    """Ibis' compiler, and four rules more."""

    def visit_CountStar(self, op: ops.CountStar, *, arg: Any, where: Any) -> Any:
        """Where a condition is true of no row and unknown for some, Ibis' sum is null; a count is 0."""
        return self.f.count(sge.Star()) if where is None else self.f.count_if(where)

    def visit_RegexSearch(self, op: ops.RegexSearch, *, arg: Any, pattern: Any) -> Any:
        """See `_to_the_end`."""
        return self.f.regexp_like(arg, _to_the_end(op.pattern, pattern))

    def visit_RegexExtract(self, op: ops.RegexExtract, *, arg: Any, pattern: Any, index: Any) -> Any:
        """See `_to_the_end`."""
        pattern = _to_the_end(op.pattern, pattern)
        return super().visit_RegexExtract(op, arg=arg, pattern=pattern, index=index)

    def visit_ScalarUDF(self, op: ops.ScalarUDF, **arguments: Any) -> Any:
        """DuckDB's `array_extract` is null outside the array; so is Spark's `get`, which begins at 0."""
        if op.__func_name__ == "array_extract":
            array, position = arguments.values()
            return self.f.get(array, position - 1)
        return super().visit_ScalarUDF(op, **arguments)


def _to_the_end(pattern: ops.Value, compiled: Any) -> Any:
    r"""In Java ``$`` stands before a last line end too, so that "3\n" would be a number; ``\z`` is the very end."""
    if isinstance(pattern, ops.Literal) and pattern.value.endswith("$") and not pattern.value.endswith("\\$"):
        return sge.convert(f"{pattern.value[:-1]}\\z")
    return compiled
