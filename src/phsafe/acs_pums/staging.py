"""Stage CSV files as Parquet: one streaming pass that keeps only the needed columns, as text."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from phsafe.acs_pums.pums_archive import CsvFile
from phsafe.acs_pums.pums_columns import FileType, file_type
from phsafe.errors import DataError
from phsafe.readers.delimited import MAX_HEADER, header
from phsafe.system.progress import Progress

BLOCK = 16 * 2**20


@dataclass(frozen=True)
class Staged:
    """A staged CSV file: its original name, its type, the columns it had, and the Parquet file."""

    name: str
    file_type: FileType
    columns: frozenset[str]
    path: Path


def stage(files: Sequence[CsvFile], folder: Path, progress: Progress) -> list[Staged]:
    """Stage all files. Headers are checked first, and their problems are reported together."""
    problems: list[str] = []
    picked: list[tuple[CsvFile, FileType, list[str], dict[str, str]]] = []
    for file in files:
        try:
            names = _header(file)
            recognised = file_type(names)
            picked.append((file, recognised, names, recognised.pick(names)))
        except DataError as error:
            problems += [
                reason if reason.startswith(file.name) else f"{file.name}: {reason}" for reason in error.reasons
            ]
    if problems:
        raise DataError(problems)
    total = sum(file.size for file in files) or 1
    done, staged = 0, []
    for number, (file, recognised, names, columns) in enumerate(picked):
        path = folder / f"{number}.parquet"

        def report(read: int, before: int = done) -> None:
            progress("reading files", min(1.0, (before + read) / total))

        _write(file, names, columns, path, report)
        done += file.size
        staged.append(Staged(file.name, recognised, frozenset(columns), path))
    return staged


def _header(file: CsvFile) -> list[str]:
    with file.open() as stream:
        line = stream.readline(MAX_HEADER)
    return [name.strip().upper() for name in header(file.name, line)]


def _write(
    file: CsvFile, names: Sequence[str], columns: dict[str, str], path: Path, report: Callable[[int], None]
) -> None:
    wanted = list(columns.values())
    schema = pa.schema([(here, pa.string()) for here in columns])
    with file.open() as stream, pq.ParquetWriter(path, schema, compression="zstd") as writer:
        records = 0
        try:
            for batch in _batches(_Counted(stream, report), names, wanted):
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
                records += batch.num_rows
        except pa.ArrowInvalid:
            # Arrow's message quotes the line.
            raise DataError(
                f"{file.name}: expected CSV in UTF-8 with as many values in every line as in the header, "
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
    """A stream that reports how many bytes have been read."""

    def __init__(self, stream: IO[bytes], report: Callable[[int], None]) -> None:
        self._stream, self._report, self._read = stream, report, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> Any:  # noqa: ANN401
        data = self._stream.read(size)
        self._read += len(data)
        self._report(self._read)
        return data
