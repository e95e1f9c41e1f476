"""Reference sections generated from the program when the site is built, so that they are never out of date.

A page marks the position of a section with `<!-- generated: NAME -->`; the functions in PARTS return its Markdown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import typer.main
from sphinx.application import Sphinx
from trust import trust

import phsafe
from phsafe.cli.app import app as program
from phsafe.cli.app import help_record, usage
from phsafe.cli.examples import EXAMPLES
from phsafe.cli.json_documents import DOCUMENTS
from phsafe.model.conditions import Where
from phsafe.model.levels import LEVELS
from phsafe.model.schema import LAYOUTS, Column, Digits
from phsafe.model.spec import Table, Tabulation
from phsafe.model.tables import CENSUS_2020

MARK = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace every mark in a page by its generated section; an unknown name is an error."""
    source[0] = MARK.sub(lambda mark: "\n".join(PARTS[mark[1]]()), source[0])


def rows(head: tuple[str, ...], body: Iterator[tuple[str, ...]]) -> Iterator[str]:
    """A Markdown table."""
    yield ""
    for row in (head, ("---",) * len(head)):
        yield f"| {' | '.join(row)} |"
    for row in body:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def other_pages() -> Iterator[str]:
    """A table of contents for pages that index.md doesn't list yet, so that new pages are never lost."""
    docs = Path(__file__).parent.parent
    listed = set(re.findall(r"[\w/-]+", (docs / "index.md").read_text(encoding="utf-8")))
    pages = (path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.md"))
    names = sorted(name for name in pages if name not in listed | {"index"})
    if names:
        yield from ("```{toctree}", ":caption: More", ":hidden:", "", *names, "```")


# Commands


def commands() -> Iterator[str]:
    """Every command with its help, usage, arguments and options."""
    root = typer.main.get_command(program)
    panels: dict[str, list[str]] = {}
    for name, command in root.commands.items():
        panels.setdefault(command.rich_help_panel or "Commands", []).append(name)
    for panel, names in panels.items():
        yield f"\n## {panel}\n"
        for name in names:
            command = root.commands[name]
            yield from one_command(f"phsafe {name}", command, "###")
            for word, child in getattr(command, "commands", {}).items():
                yield from one_command(f"phsafe {name} {word}", child, "####")


def one_command(call: str, command: typer.core.TyperCommand, heading: str) -> Iterator[str]:
    """A command, as in its `--help`."""
    yield f"\n{heading} `{call}`\n"
    yield f"{plain(command.help or '')}\n"
    if getattr(command, "commands", None):
        return
    context = typer.Context(command, info_name=call)
    yield f"```text\n{call} {usage(command, context)}\n```\n"
    records = [help_record(p, context) for p in command.get_params(context) if "--help" not in p.opts]
    body = ((f"`{term}`", plain(text)) for term, text in filter(None, records))
    yield from rows(("argument or option", "description"), body)
    name = call.removeprefix("phsafe ")
    yield "Examples:\n"
    yield from (
        f"- `{call} {arguments}`".replace(" `", "`") + f": {text}" for arguments, text in EXAMPLES[name].items()
    )
    yield "\nWith `--json`:\n"
    document = DOCUMENTS[name]
    yield from rows(("key", "meaning"), ((f"`{key}`", meaning) for key, meaning in document.items()))


def plain(text: str) -> str:
    """Help text without Rich markup."""
    return re.sub(r"\[/?(?:bold|red|green|dim|italic|cyan|yellow)?\]", "", text).strip()


# Input columns, tables and levels


def input_columns() -> Iterator[str]:
    """The columns of the three input tables."""
    for layout in LAYOUTS:
        yield f"\n### {layout.name}\n"
        yield from rows(
            ("column", "type", "values", "description"),
            (
                (
                    f"`{c.name}`",
                    "integer" if c.is_integer else "text",
                    domain(c),
                    c.label + ("" if c.required else " (optional)"),
                )
                for c in layout.columns
            ),
        )


def domain(column: Column) -> str:
    """The values that a column may have, in short."""
    if isinstance(column.domain, Digits):
        return f"{column.domain.width} digits" if column.domain.width > 1 else "1 digit"
    if isinstance(column.domain, range):
        return f"{column.domain[0]}–{column.domain[-1]}"
    return codes_text(list(column.domain))


def tables() -> Iterator[str]:
    """PH1 to PH8: universe, lines, and the condition of every basis cell."""
    for table in CENSUS_2020.tables:
        yield f"\n### {table.name}: {table.title}\n"
        yield f"Universe: {table.universe.lower()}.\n"
        for tabulation in (*table.tabulations, *table.truncation):
            yield f"- **`{tabulation.name}`** counts {counted(tabulation)}"
        for derived in table.derived:
            yield f"- **`{derived.name}`** is summed from `{derived.source}`, at no privacy cost"
        yield from rows(("line", "label", "definition"), shell(table))


def counted(tabulation: Tabulation) -> str:
    """What a tabulation counts, and by whose race and ethnicity it is repeated."""
    who = f"people with {condition(tabulation.persons)}" if tabulation.persons is not None else "units"
    units = f"units with {condition(tabulation.units)}" if tabulation.units.terms else ""
    joined = f"{who}, in {units}" if tabulation.counts_persons and units else units or who
    if tabulation.beyond is not None:
        beyond = f"τ of `{tabulation.threshold}`"
        joined += f", beyond {beyond}" if tabulation.counts_persons else f" with more people than {beyond}"
    by = {None: "not repeated by race and ethnicity", "person": "repeated by the person's race and ethnicity"}
    return f"{joined}; {by.get(tabulation.iterate_by, 'repeated by the race and ethnicity of the householder')}"


def shell(table: Table) -> Iterator[tuple[str, str, str]]:
    """The lines of a table, with the definition of each."""
    for line in table.shell:
        parts = []
        if line.of:
            parts.append("sum of " + ", ".join(map(str, line.of)))
        for tabulation in table.tabulations:
            if line.number in tabulation.cells and tabulation.cells[line.number].terms:
                parts.append(f"`{tabulation.name}`: {condition(tabulation.cells[line.number])}")
        if table.average:
            parts.append(f"per line {table.average.per[line.number]} of `{table.average.denominator}`")
        yield str(line.number), "&emsp;" * line.indent + line.label, "; ".join(parts)


def condition(where: Where | None) -> str:
    """A condition as text: columns with their codes."""
    parts = [f"{name} {codes_text(sorted(codes))}" for name, codes in (where.terms if where else ())]
    return " and ".join(parts)


def codes_text(codes: list) -> str:
    """Codes as text, with runs of more than two as a range."""
    runs: list[list] = []
    for code in codes:
        if runs and int(code) == int(runs[-1][-1]) + 1:
            runs[-1].append(code)
        else:
            runs.append([code])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def levels() -> Iterator[str]:
    """The population group levels."""
    body = (
        (
            f"`{level.key}`",
            level.label,
            ", ".join(i.code.replace("*", r"\*") for i in level.iteration_level.iterations),
        )
        for level in LEVELS
    )
    yield from rows(("in a config", "name", "iterations"), body)


# Python


def api() -> Iterator[str]:
    """The public functions and classes with their docstrings."""
    functions = [name for name in phsafe.__all__ if name[0].islower()]
    classes = [name for name in phsafe.__all__ if not name[0].islower() and not name.isupper()]
    for title, names in (("Functions", functions), ("Classes", classes)):
        yield f"\n## {title}\n"
        for name in names:
            is_class = isinstance(getattr(phsafe, name), type)
            members = "   :members:\n" if is_class else ""
            directive = f".. {'autoclass' if is_class else 'autofunction'}:: {phsafe._HOMES[name]}.{name}\n{members}"
            yield f"### `phsafe.{name}`\n\n```{{eval-rst}}\n{directive}```\n"


def modules() -> Iterator[str]:
    """Every module with the summary of its docstring."""
    root = Path(phsafe.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        if parts[-1] in ("__main__",):
            continue
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        found.append((f"`{name}`", " ".join(text.split("\n\n")[0].split())))
    yield from rows(("module", "content"), iter(sorted(found)))


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "commands": commands,
    "input-columns": input_columns,
    "tables": tables,
    "levels": levels,
    "api": api,
    "modules": modules,
    "trust": trust,
    "other-pages": other_pages,
}
