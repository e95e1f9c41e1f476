"""Writing chunks as they come, as Parquet (a file for each state) or CSV (a file for each table).

Nothing in a file depends on time, machine or number of processes: fixed encodings and compression, one row
group for each chunk, rows in ascending order of MAFID.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from phsafe.schema import LAYOUTS, Layout
from phsafe.synthesis import places
from phsafe.synthesis.chunk import Tables
from phsafe.synthesis.draws import AnyArray

#: Code lists of the columns whose numbers are indices; a code is its own index where they start at 0.
CODES = {
    "CENRACE": [f"{code:02d}" for code in range(64)],
    "HHRACE": [f"{code:02d}" for code in range(64)],
    "RELSHIP": [f"{code:02d}" for code in range(39)],
    "TEN": [str(code) for code in range(5)],
    "HHT": [str(code) for code in range(8)],
    "HHT2": [f"{code:02d}" for code in range(13)],
    "CPLT": [str(code) for code in range(6)],
    "TABBLKCOU": list(places.COUNTIES),
    "TABTRACTCE": list(places.TRACTS),
    "TABBLK": list(places.BLOCKS),
    "TABBLKGRPCE": list(places.BLOCK_GROUPS),
}
_DICTIONARIES = {name: pa.array(codes) for name, codes in CODES.items()}


def constants(state: str) -> dict[str, str]:
    """The columns of geo that are the same in a whole state."""
    return {
        "TABBLKST": state,
        "REGIONCE": places.region(state),
        "DIVISIONCE": places.division(state),
        "PLACEFP": places.NO_PLACE,
        "AIANNHCE": places.NO_AREA,
    }


def arrow_table(layout: Layout, columns: Mapping[str, AnyArray], state: str) -> pa.Table:
    """The chunk as an Arrow table in the layout's order, texts as dictionaries."""
    fixed = constants(state)
    zeros = pa.array(np.zeros(len(columns["MAFID"]), dtype=np.int8))
    arrays: dict[str, Any] = {}
    for column in layout.columns:
        name = column.name
        if name in fixed:
            arrays[name] = pa.DictionaryArray.from_arrays(zeros, pa.array([fixed[name]]))
        elif name in _DICTIONARIES:
            arrays[name] = pa.DictionaryArray.from_arrays(pa.array(columns[name]), _DICTIONARIES[name])
        else:
            arrays[name] = pa.array(columns[name])
    return pa.table(arrays)


class ParquetSink(AbstractContextManager["ParquetSink"]):
    """`persons/44.parquet` and so on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state = ""
        self._open = ExitStack()
        self._writers: dict[str, pq.ParquetWriter] = {}
        for layout in LAYOUTS:
            (folder / layout.name).mkdir()

    def write(self, state: str, tables: Tables) -> None:
        """Write one chunk as a row group of each table."""
        if state != self._state:
            self._finish()
            self._state = state
        for layout in LAYOUTS:
            table = arrow_table(layout, tables[layout.name], state)
            if layout.name not in self._writers:
                path = self._folder / layout.name / f"{state}.parquet"
                self._writers[layout.name] = self._open.enter_context(_parquet(path, table.schema))
            self._writers[layout.name].write_table(table, row_group_size=max(1, table.num_rows))

    def _finish(self) -> None:
        self._writers = {}
        self._open.close()

    def __exit__(self, *_: object) -> None:
        self._finish()


def _parquet(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path,
        schema,
        version="2.6",
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in schema.names if name != "MAFID"],
        # Ascending whole numbers: a few bits each.
        column_encoding={"MAFID": "DELTA_BINARY_PACKED"},
        # Without it, readers see plain texts rather than Arrow's dictionaries.
        store_schema=False,
    )


class CsvSink(AbstractContextManager["CsvSink"]):
    """`persons.csv` and so on: comma, header, no quotes."""

    def __init__(self, folder: Path) -> None:
        self._open = ExitStack()
        self._files: dict[str, BinaryIO] = {}
        for layout in LAYOUTS:
            file = self._open.enter_context((folder / f"{layout.name}.csv").open("wb"))
            file.write(",".join(column.name for column in layout.columns).encode() + b"\n")
            self._files[layout.name] = file

    def write(self, state: str, tables: Tables) -> None:
        """Append one chunk to each file."""
        options = pa_csv.WriteOptions(include_header=False, quoting_style="none")
        for layout in LAYOUTS:
            table = arrow_table(layout, tables[layout.name], state)
            plain = pa.schema([(f.name, _plain(f.type)) for f in table.schema])
            pa_csv.write_csv(table.cast(plain), self._files[layout.name], options)

    def __exit__(self, *_: object) -> None:
        self._open.close()


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


SINKS: dict[str, type[CsvSink] | type[ParquetSink]] = {"csv": CsvSink, "parquet": ParquetSink}
