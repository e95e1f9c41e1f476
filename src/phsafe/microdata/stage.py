"""From CSV to Parquet with the few columns that are needed, as texts: a pass that holds a few blocks at a time."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from phsafe.errors import DataError
from phsafe.microdata.archive import CsvFile
from phsafe.microdata.layout import Kind, kind_of
from phsafe.progress import Progress
from phsafe.readers.delimited import MAX_HEADER, header

BLOCK = 16 * 2**20


@dataclass(frozen=True)
class Staged:
    """A CSV file as Parquet: where it came from, of what kind it is, the columns that it had."""

    name: str
    kind: Kind
    columns: frozenset[str]
    path: Path


def stage(files: Sequence[CsvFile], folder: Path, progress: Progress) -> list[Staged]:
    """Stage every file; every file's problems are told at once. Headers are looked at before anything is read."""
    problems: list[str] = []
    picked: list[tuple[CsvFile, Kind, list[str], dict[str, str]]] = []
    for file in files:
        try:
            names = _header(file)
            kind = kind_of(names)
            picked.append((file, kind, names, kind.pick(names)))
        except DataError as error:
            problems += [
                reason if reason.startswith(file.name) else f"{file.name}: {reason}" for reason in error.reasons
            ]
    if problems:
        raise DataError(problems)
    total = sum(file.size for file in files) or 1
    done, staged = 0, []
    for number, (file, kind, names, columns) in enumerate(picked):
        path = folder / f"{number}.parquet"

        def tell(read: int, before: int = done) -> None:
            progress("reading files", min(1.0, (before + read) / total))

        _write(file, names, columns, path, tell)
        done += file.size
        staged.append(Staged(file.name, kind, frozenset(columns), path))
    return staged


def _header(file: CsvFile) -> list[str]:
    with file.open() as stream:
        line = stream.readline(MAX_HEADER)
    return [name.strip().upper() for name in header(file.name, line)]


def _write(
    file: CsvFile, names: Sequence[str], columns: dict[str, str], path: Path, tell: Callable[[int], None]
) -> None:
    wanted = list(columns.values())
    schema = pa.schema([(here, pa.string()) for here in columns])
    with file.open() as stream, pq.ParquetWriter(path, schema, compression="zstd") as writer:
        records = 0
        try:
            for batch in _batches(_Counted(stream, tell), names, wanted):
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
                records += batch.num_rows
        except pa.ArrowInvalid:
            # Arrow's own words quote the line.
            raise DataError(
                f"{file.name}: expected CSV in UTF-8 with as many values in every line as the header has names, "
                "got something else"
            ) from None
        if not records:
            raise DataError(f"{file.name}: expected records below the header, got none")


def _batches(stream: io.RawIOBase, names: Sequence[str], wanted: Sequence[str]) -> pa_csv.CSVStreamingReader:
    return pa_csv.open_csv(
        stream,
        pa_csv.ReadOptions(column_names=list(names), skip_rows=1, block_size=BLOCK),
        pa_csv.ParseOptions(newlines_in_values=False),
        pa_csv.ConvertOptions(
            include_columns=list(wanted), column_types=dict.fromkeys(wanted, pa.string()),
            null_values=[""], strings_can_be_null=True,
        ),
    )  # fmt: skip


class _Counted(io.RawIOBase):
    """A stream that tells how many bytes were read."""

    def __init__(self, stream: IO[bytes], tell: Callable[[int], None]) -> None:
        self._stream, self._tell, self._read = stream, tell, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> Any:  # noqa: ANN401
        data = self._stream.read(size)
        self._read += len(data)
        self._tell(self._read)
        return data
