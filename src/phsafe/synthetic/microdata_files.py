"""Write chunks as they arrive, as Parquet (a file for each table and state) or CSV (a file for each table).

Nothing in a file depends on the time, the machine or the number of processes: encodings and compression are fixed,
each chunk is one row group, and rows ascend by MAFID.
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

from phsafe.model.schema import LAYOUTS, Layout
from phsafe.synthetic import geocodes
from phsafe.synthetic.chunks import Tables
from phsafe.synthetic.random_draws import AnyArray

#: Code lists of the columns stored as indices; where the codes start at 0, a code is its own index.
CODES = {
    "CENRACE": [f"{code:02d}" for code in range(64)],
    "HHRACE": [f"{code:02d}" for code in range(64)],
    "RELSHIP": [f"{code:02d}" for code in range(39)],
    "TEN": [str(code) for code in range(5)],
    "HHT": [str(code) for code in range(8)],
    "HHT2": [f"{code:02d}" for code in range(13)],
    "CPLT": [str(code) for code in range(6)],
    "TABBLKCOU": list(geocodes.COUNTIES),
    "TABTRACTCE": list(geocodes.TRACTS),
    "TABBLK": list(geocodes.BLOCKS),
    "TABBLKGRPCE": list(geocodes.BLOCK_GROUPS),
}
_DICTIONARIES = {name: pa.array(codes) for name, codes in CODES.items()}


def constants(state: str) -> dict[str, str]:
    """The columns of geo that are constant within a state."""
    return {
        "TABBLKST": state,
        "REGIONCE": geocodes.region(state),
        "DIVISIONCE": geocodes.division(state),
        "PLACEFP": geocodes.NO_PLACE,
        "AIANNHCE": geocodes.NO_AREA,
    }


def arrow_table(layout: Layout, columns: Mapping[str, AnyArray], state: str) -> pa.Table:
    """Convert a chunk to an Arrow table in layout order, with text columns as dictionaries."""
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
    """Writes one Parquet file for each table and state, such as `persons/44.parquet`."""

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
        # Ascending integers take a few bits each.
        column_encoding={"MAFID": "DELTA_BINARY_PACKED"},
        # Don't store the Arrow schema, so that readers see plain strings rather than dictionaries.
        store_schema=False,
    )


class CsvSink(AbstractContextManager["CsvSink"]):
    """Writes one CSV file for each table, such as `persons.csv`: comma-separated, with a header, unquoted."""

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


def _plain(data_type: pa.DataType) -> pa.DataType:
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


SINKS: dict[str, type[CsvSink] | type[ParquetSink]] = {"csv": CsvSink, "parquet": ParquetSink}
