"""The folder `tables/`: each finished table with names, as CSV and Parquet, with a codebook and metadata.

The metadata (`csv-metadata.json`, CSV on the Web) describe every file and column, so that other programs can check and
load them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.names import coverage, iteration_names, region_names
from phsafe.estimation.named_tables import NAMED_COLUMNS, NAMED_KEY, NamedColumn, named
from phsafe.estimation.people_counted import coverage_text, limit_text
from phsafe.model.spec import Line, Table

if TYPE_CHECKING:
    from phsafe.estimation.estimates import Estimates

TITLE = "Tables about people in their households"
#: The name under which programs look for metadata beside a CSV file.
DESCRIPTOR = "csv-metadata.json"
CODEBOOK = "codebook.csv"
CODEBOOK_PAGE = "codebook.md"
#: The columns of the codebook, with their meaning.
CODEBOOK_COLUMNS = {
    "TABLE": "The table, such as PH3; empty if the row applies to all tables.",
    "COLUMN": "The column of the table.",
    "CODE": "A code of the column; empty if the row describes the column itself.",
    "MEANING": "What the column or the code means.",
}
CODEBOOK_KEY = ("TABLE", "COLUMN", "CODE")
#: Where each iteration's race and ethnicity come from.
WHOSE = {"householder": "of the householder", "person": "of the person", None: "not broken down"}


def write_tables_folder(estimates: Estimates, folder: Path) -> None:
    """Write the folder, which must not exist yet. Its bytes depend only on the estimates."""
    folder.mkdir()
    for name, frame in estimates.tables.items():
        shown = named(estimates.config, frame)
        shown.write_csv(folder / f"{name}.csv")
        shown.write_parquet(folder / f"{name}.parquet")
    book = codebook(estimates)
    book.write_csv(folder / CODEBOOK)
    (folder / CODEBOOK_PAGE).write_text(_page(estimates, book), encoding="utf-8")
    text = json.dumps(_descriptor(estimates), ensure_ascii=False, indent=2)
    (folder / DESCRIPTOR).write_text(text + "\n", encoding="utf-8")


def product_title(config: Config) -> str:
    """The name of the data product: as the config says, or a general one."""
    return config.publication.title or TITLE


def shown_tables(estimates: Estimates) -> list[Table]:
    """The specifications of the tables that there are, in order."""
    return [table for table in estimates.config.catalog.tables if table.name in estimates.tables]


def described(estimates: Estimates, table: Table) -> str:
    """What a table is about, and whom it leaves out."""
    return f"{table.title}. Universe: {table.universe}.{limit_text(estimates, table)}"


def codebook(estimates: Estimates) -> pl.DataFrame:
    """Every column, and every code of a column that has codes: TABLE, COLUMN, CODE and MEANING."""
    return pl.DataFrame(list(_codes(estimates)), schema=dict.fromkeys(CODEBOOK_COLUMNS, pl.String), orient="row")


def _codes(estimates: Estimates) -> Iterator[tuple[str, str, str, str]]:
    config = estimates.config
    for column in NAMED_COLUMNS:
        yield "", column.name, "", f"{column.title}. {column.about}"
    types = {level.geography.region_type: level.geography.label for level in config.catalog.levels}
    for code, label in types.items():
        yield "", "REGION_TYPE", code, label
    for (_, code), name in region_names(config).items():
        yield "", "REGION_ID", code, name
    for code, label in iteration_names(config).items():
        yield "", "ITERATION_CODE", code, label
    for table in shown_tables(estimates):
        yield table.name, "", "", f"{described(estimates, table)} Race and ethnicity: {_whose(table)}."
        for line in table.shell:
            yield table.name, "CELL", str(line.number), _meaning(table, line)


def _whose(table: Table) -> str:
    return WHOSE[table.tabulations[0].iterate_by]


def _meaning(table: Table, line: Line) -> str:
    """The label of a line under those above it, and the lines that it adds up."""
    path: list[str] = []
    for other in table.shell:
        if other.number <= line.number:
            path = [*path[: other.indent], other.label.rstrip(":")]
    adds = f" (the sum of lines {', '.join(map(str, line.of))})" if line.of and table.average is None else ""
    return " › ".join(path) + adds


def _page(estimates: Estimates, book: pl.DataFrame) -> str:
    """The codebook as Markdown, for people."""
    parts = [f"# Codebook: {_cell(product_title(estimates.config))}", _cell(estimates.cite()),
             _cell(coverage_text(estimates)), _markdown(
        "Columns", "column", book.filter(pl.col("CODE") == "", pl.col("COLUMN") != "").select("COLUMN", "MEANING")
    )]  # fmt: skip
    for column, title in (("REGION_TYPE", "Region types"), ("REGION_ID", "Regions"), ("ITERATION_CODE", "Groups")):
        codes = book.filter(COLUMN=column).filter(pl.col("CODE") != "").select("CODE", "MEANING")
        parts.append(_markdown(title, column, codes))
    for table in shown_tables(estimates):
        rows = book.filter(TABLE=table.name)
        about = rows.filter(COLUMN="")["MEANING"][0]
        lines = rows.filter(COLUMN="CELL").select("CODE", "MEANING")
        parts.append(_markdown(f"{table.name}\n\n{_cell(about)}", "CELL", lines))
    return "\n\n".join(parts) + "\n"


def _markdown(title: str, column: str, rows: pl.DataFrame) -> str:
    lines = [f"| {_cell(code)} | {_cell(meaning)} |" for code, meaning in rows.iter_rows()]
    return "\n".join([f"## {title}", "", f"| {column} | meaning |", "|---|---|", *lines])


def _cell(text: str) -> str:
    """Text that Markdown shows as it is, in one cell of a table."""
    return "".join(f"\\{c}" if c in "\\|*_`<[" else c for c in text)


def _descriptor(estimates: Estimates) -> dict[str, Any]:
    """The metadata of all files: who publishes what, and the columns, types, codes and keys of each table."""
    about, tables = estimates.config.publication, shown_tables(estimates)
    known = {
        "dc:publisher": about.agency, "dc:issued": about.date, "dc:hasVersion": about.version,
        "dc:license": about.licence, "schema:contactPoint": about.contact, "dc:identifier": estimates.release_id,
    }  # fmt: skip
    return {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "dc:title": product_title(estimates.config),
        "dc:description": f"Finished tables for {coverage(estimates.config)}, with 90 % intervals. Noise that protects "
        f"privacy was added to the counts. {coverage_text(estimates)}",
        "dc:bibliographicCitation": estimates.cite(),
        "dc:creator": f"PHSafe {version('phsafe')}",
        **{name: text for name, text in known.items() if text},
        "tables": [
            *(_table(table.name, described(estimates, table), _columns(estimates, table), NAMED_KEY)
              for table in tables),
            _table("codebook", "Every column and code of the tables.", _codebook_columns(), CODEBOOK_KEY),
        ],
    }  # fmt: skip


def _table(name: str, about: str, columns: list[dict[str, Any]], key: Sequence[str]) -> dict[str, Any]:
    return {
        "url": f"{name}.csv",
        "dc:title": name,
        "dc:description": about,
        "tableSchema": {"columns": columns, "primaryKey": list(key)},
    }


def _columns(estimates: Estimates, table: Table) -> list[dict[str, Any]]:
    value = "integer" if table.average is None else "number"
    frame = estimates.tables[table.name]
    return [
        {
            "name": column.name,
            "titles": column.name,
            "dc:title": column.title,
            "dc:description": column.about,
            "required": column.name != "NOTE",
            "datatype": _datatype(column, value, frame),
        }
        for column in NAMED_COLUMNS
    ]


def _datatype(column: NamedColumn, value: str, frame: pl.DataFrame) -> Any:  # noqa: ANN401
    """The type of a column: text with its codes, or numbers from 0."""
    if column.type == "string":
        if column.name not in NAMED_KEY:
            return "string"
        codes = frame[column.name].unique(maintain_order=True).to_list()
        return {"base": "string", "format": "|".join(map(re.escape, codes))}
    return {"base": value if column.type == "value" else column.type, "minimum": 0}


def _codebook_columns() -> list[dict[str, Any]]:
    return [
        {"name": name, "titles": name, "dc:description": about, "datatype": "string"}
        for name, about in CODEBOOK_COLUMNS.items()
    ]
