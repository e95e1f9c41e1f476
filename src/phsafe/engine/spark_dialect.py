"""What Ibis leaves out, or what means something else, where it writes SQL for Spark."""

from __future__ import annotations

from typing import Any

import ibis.expr.operations as ops
import sqlglot.expressions as sge
from ibis.backends.sql.compilers.pyspark import PySparkCompiler

# ruff: noqa: N802, ANN401  (Ibis' names, and sqlglot's types are its own affair)


class Compiler(PySparkCompiler):
    """Ibis' compiler, and three rules more."""

    def visit_CountStar(self, op: ops.CountStar, *, arg: Any, where: Any) -> Any:
        """Where a condition is true of no row and unknown for some, Ibis' sum is null; a count is 0."""
        return self.f.count(sge.Star()) if where is None else self.f.count_if(where)

    def visit_RegexSearch(self, op: ops.RegexSearch, *, arg: Any, pattern: Any) -> Any:
        r"""In Java ``$`` stands before a last line end too, so that "3\n" would be a number; ``\z`` is the very end."""
        if isinstance(op.pattern, ops.Literal) and op.pattern.value.endswith("$"):
            pattern = sge.convert(f"{op.pattern.value[:-1]}\\z")
        return self.f.regexp_like(arg, pattern)

    def visit_ScalarUDF(self, op: ops.ScalarUDF, **arguments: Any) -> Any:
        """DuckDB's `array_extract` is null outside the array; so is Spark's `get`, which begins at 0."""
        if op.__func_name__ == "array_extract":
            array, position = arguments.values()
            return self.f.get(array, position - 1)
        return super().visit_ScalarUDF(op, **arguments)
