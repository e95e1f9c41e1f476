"""DuckDB in this process: the engine unless another is asked for."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Self, TypeVar

import duckdb
import ibis
import ibis.expr.operations as ops
import pyarrow as pa
from ibis.expr.types import Table

from phsafe.engine.duckdb_errors import in_words, was_interrupted
from phsafe.engine.duckdb_parts import side_by_side
from phsafe.engine.duckdb_views import View, literal_path, quoted, text_view
from phsafe.engine.options import Engine, EngineOptions, Location, Storage
from phsafe.engine.ranges import NOTHING, WHOLE, KeyRange, ranges_between, sorted_cuts, unsorted_parts
from phsafe.engine.writing import WRITING
from phsafe.errors import PHSafeError
from phsafe.scratch import temporary_folder

T = TypeVar("T")


class DuckDB:
    """DuckDB with its own temporary folder, readable by the owner only and removed at the end."""

    def __init__(self, options: EngineOptions) -> None:
        self._scratch = temporary_folder(options.temp_dir)
        self._folder = self._scratch.path
        self._files: list[str] = []
        self._views: list[View] = []
        self._numbers = count()
        #: Whether the files that parts are cut from are sorted by key, or small.
        self._in_order = False
        # Shared with the engines of parts: a query is written once, whichever part it runs over.
        self._names: dict[object, str] = {}
        self._sql: dict[object, str] = {}
        self._tables: dict[object, Table] = {}
        settings: dict[str, object] = {"temp_directory": str(self._folder), "preserve_insertion_order": False}
        if options.threads is not None:
            settings["threads"] = options.threads
        if options.memory_limit is not None:
            settings["memory_limit"] = options.memory_limit
        try:
            self._ibis = ibis.duckdb.connect(**settings)
            self._connection = self._ibis.con
        except BaseException as error:
            self._scratch.remove()
            if isinstance(error, RuntimeError) and was_interrupted(error):
                raise KeyboardInterrupt from None
            if not isinstance(error, duckdb.Error):
                raise
            raise PHSafeError(
                f"can't open DuckDB with {'all' if options.threads is None else options.threads} threads "
                f"and memory limit {options.memory_limit or 'none'}: expected a whole number and a size such as 4GB"
            ) from None

    @property
    def storage(self) -> Storage | None:
        """See `Engine`. DuckDB reads what this program can see."""
        return None

    @property
    def passes_over(self) -> bool:
        """See `Engine`. Parquet files tell between which values their pieces lie, and `stored` makes them of others."""
        return True

    def read_csv(self, paths: Sequence[Location], header: Sequence[str], *, gzip: bool) -> Table:
        """See `Engine`. Nothing is guessed: separator, quotes and types are given, and no column comes from a path."""
        return self._text(
            paths,
            header,
            header=True,
            delim=",",
            quote='"',
            escape='"',
            compression="gzip" if gzip else "none",
        )

    def read_lines(self, paths: Sequence[Location]) -> Table:
        """See `Engine`: CSV of one column, with a separator that no text has."""
        return self._text(
            paths,
            ["line"],
            header=False,
            delim="\x01",
            quote="",
            escape="",
            nullstr="\x02",
            compression="none",
        )

    def _text(self, paths: Sequence[Location], columns: Sequence[str], **form: str | bool) -> Table:
        """Text files in a view whose columns are known; Ibis would ask for them."""
        name = f"phsafe_{next(self._numbers)}"
        self._execute(text_view(name, self._literal_paths(paths), columns, form))
        return self._named(name, ibis.schema(dict.fromkeys(columns, "string")))

    def read_parquet(self, paths: Sequence[Location], key: str) -> Table:
        """See `Engine`. Nothing is guessed: a folder named ``TABBLKST=44`` is no column."""
        view = self._view(paths, key)
        return self._tell(lambda: self._ibis.table(view.name))

    def _view(self, paths: Sequence[Location], key: str) -> View:
        files = [Path(path).absolute() for path in paths]
        self._files += [os.fspath(path) for path in files]
        view = View(f"phsafe_{next(self._numbers)}", files, key)
        self._execute(view.definition(WHOLE))
        self._views.append(view)
        return view

    def read_arrow(self, frame: pa.Table) -> Table:
        """See `Engine`."""
        name = f"phsafe_{next(self._numbers)}"
        self._tell(lambda: self._connection.register(name, frame))
        return self._tell(lambda: self._ibis.table(name))

    def stored(self, table: Table, key: str) -> Table:
        """See `Engine`: a Parquet file in the temporary folder."""
        file = self._folder / f"{next(self._numbers)}.parquet"
        self._execute(f"COPY ({self._compiled(table)}) TO {quoted(os.fspath(file))} (FORMAT parquet)")
        return self._named(self._view([file], key).name, table.schema())

    def frequent(self, keys: Table, limit: int) -> Table:
        """See `Engine`. In sorted order, the key `limit` rows further up is the same.

        DuckDB is quick at sorting what is nearly sorted, quicker than at counting.
        """
        (name,) = keys.columns
        sorted_keys = keys.mutate(further_up=keys[name].lag(limit).over(order_by=name))
        return sorted_keys.filter(sorted_keys.further_up == sorted_keys[name]).select(name).distinct()

    def each_part(
        self, tables: Sequence[Table], work: Callable[[Engine], None], progress: Callable[[float], None]
    ) -> None:
        """See `Engine`. Small parts are counted side by side, each by one thread; large ones in turn, by all."""
        [(threads,)] = self._execute("SELECT current_setting('threads')").fetchall()
        parts, self._in_order = self._parts(tables, threads)
        if self._in_order and len(parts) > 1:
            # Once written, a query is every part's: so the first call is over nothing, and the threads begin together.
            with self.within(NOTHING):
                work(self)
            self._side_by_side(parts, threads, work, progress)
            return
        for i, keys in enumerate(parts, start=1):
            with self.within(keys):
                work(self)
            progress(i / len(parts))

    def _side_by_side(
        self,
        parts: Sequence[KeyRange],
        threads: int,
        work: Callable[[Engine], None],
        progress: Callable[[float], None],
    ) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._execute, f"SET threads TO {threads}")
            self._execute("SET threads TO 1")
            others = [self._other() for _ in range(min(threads, len(parts)))]
            for other in others:
                stack.callback(other._connection.close)
            side_by_side(others, parts, work, progress)

    def _parts(self, tables: Sequence[Table], threads: int) -> tuple[list[KeyRange], bool]:
        """The parts of some tables, and whether their files are sorted by key, or small: then parts are small too.

        Parquet files say between which keys their pieces lie; a sample says it of unsorted ones.
        """
        views = {id(table): self._view_of(table) for table in tables}
        pieces = {view: view.groups for view in views.values() if view and view.groups is not None}
        if len(pieces) < len(tables):
            return [WHOLE], False
        groups = list(pieces.values())
        cuts = sorted_cuts(groups, threads)
        if cuts is not None:
            return ranges_between(cuts), True
        if (parts := unsorted_parts(groups)) <= 1:
            return [WHOLE], False
        largest = max(pieces, key=lambda view: view.rows)
        shares = [i / parts for i in range(1, parts)]
        [(found,)] = self._execute(largest.sampled_quantiles(shares)).fetchall()
        return ranges_between([key for key in found or () if key is not None]), False

    def _view_of(self, table: Table) -> View | None:
        """The view that a table reads, or None if it reads something else."""
        names = {found.name for found in table.op().find(ops.DatabaseTable)}
        return next((view for view in self._views if {view.name} == names), None)

    def _other(self) -> DuckDB:
        """The same engine with a connection of its own: its views and temporary tables are nobody else's."""
        other = copy.copy(self)
        other._connection = self._connection.cursor()
        return other

    @contextlib.contextmanager
    def within(self, keys: KeyRange) -> Iterator[None]:
        """While the context lasts, tables that were read have only the rows of a range."""
        for view in self._views:
            self._execute(view.definition(keys))
        try:
            yield
        finally:
            for view in self._views:
                self._execute(view.definition(WHOLE))

    @contextlib.contextmanager
    def materialized(self, expression: Table) -> Iterator[Table]:
        """See `Engine`."""
        with WRITING:
            name = self._names.setdefault(expression.op(), f"phsafe_kept_{len(self._names)}")
        self._execute(f'CREATE TEMP TABLE "{name}" AS {self._compiled(expression)}')
        try:
            yield self._table(name, expression)
        finally:
            self._execute(f'DROP TABLE temp."{name}"')

    def gathered(self, expression: Table, key: str) -> contextlib.AbstractContextManager[Table]:
        """See `Engine`. Sorting narrow rows that lie in any order takes less time and memory than it saves."""
        if self._in_order:
            return contextlib.nullcontext(expression)
        with WRITING:
            ordered = expression.order_by(key)
        return self.materialized(ordered)

    def _table(self, name: str, expression: Table) -> Table:
        """The table that holds an expression's rows, the same object each time."""
        key = (name, expression.op())
        with WRITING:
            if key not in self._tables:
                self._tables[key] = self._named(name, expression.schema())
            return self._tables[key]

    def _named(self, name: str, schema: ibis.Schema) -> Table:
        """A table or view of DuckDB's whose columns are known."""
        return ops.DatabaseTable(name, schema=schema, source=self._ibis).to_expr()

    def fetch(self, expression: Table) -> pa.Table:
        """See `Engine`."""
        sql = self._compiled(expression)
        found = self._tell(lambda: self._connection.sql(sql).to_arrow_table())
        with WRITING:
            schema = expression.schema().to_pyarrow()
        return found.cast(schema)

    def _execute(self, sql: str) -> duckdb.DuckDBPyConnection:
        return self._tell(lambda: self._connection.execute(sql))

    def _compiled(self, expression: Table) -> str:
        """The SQL of an expression, written once however many parts it runs over."""
        key = expression.op()
        with WRITING:
            if key not in self._sql:
                self._sql[key] = self._ibis.compile(expression)
            return self._sql[key]

    def interrupt(self) -> None:
        """Stop the query that is running, if there is one."""
        self._connection.interrupt()

    def close(self) -> None:
        """See `Engine`."""
        try:
            self._ibis.disconnect()
        finally:
            self._scratch.remove()

    def _literal_paths(self, paths: Sequence[Location]) -> list[str]:
        absolute = [Path(path).absolute() for path in paths]
        self._files += [os.fspath(path) for path in absolute]
        return [literal_path(path) for path in absolute]

    def _tell(self, work: Callable[[], T]) -> T:
        """The result of some work, or its failure in our words alone.

        What is raised behind the `except` has no `__context__`, in which DuckDB's own text would live on.
        """
        told: BaseException
        try:
            return work()
        except duckdb.Error as error:
            told = in_words(error, self._folder, self._files)
        except RuntimeError as error:
            if not was_interrupted(error):
                raise
            told = KeyboardInterrupt()
        raise told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
