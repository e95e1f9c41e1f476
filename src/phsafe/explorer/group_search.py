"""Search for groups to pin: lines of tables, regions, and races or ethnicities, found by plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from phsafe.explorer.pinned_groups import PinnedGroup, levels_of, line_label
from phsafe.model.schema import POSTAL_CODES
from phsafe.model.spec import Catalog

MOST_FOUND = 20
MAX_WORDS = 200
#: Everyday words for the words of titles and labels.
EVERYDAY = {
    "under": "children child kids kid minors youth",
    "children": "kids kid minors",
    "child": "children kids kid",
    "renter": "renters rent rented tenants",
    "owner": "owners owned homeowners",
    "owned": "owners owner homeowners",
    "female": "mother mothers women woman single",
    "male": "father fathers men man single",
    "families": "family",
    "family": "families",
    "population": "people persons residents total everyone",
    "average": "mean size",
    "couple": "couples partners",
    "grandchild": "grandchildren",
    "united": "us usa nation national country",
    "hawaiian": "hawaiians nhpi",
    "islander": "islanders",
    "indian": "indians aian",
    "native": "natives",
    "asian": "asians",
    "hispanic": "hispanics latinos latina",
}
#: Words that carry no meaning in a search.
FILLERS = frozenset(("a", "an", "and", "by", "for", "from", "in", "of", "on", "or", "the", "to", "who", "with"))


def search(words: str, catalog: Catalog, states: tuple[str, ...]) -> dict[str, Any]:
    """Return the groups that match all words, best first. A word matches the beginning of a word of a group.

    Args:
        words: What the user typed.
        catalog: The tables and levels.
        states: The states of the scenario; groups elsewhere are left out.
    """
    asked = [word for word in _words(words[:MAX_WORDS]) if word not in FILLERS]
    if not asked:
        return {"found": [], "more": 0, "hint": "Type what to look for, such as: children Hawaiian Wyoming."}
    matches = sorted(_matches(asked, catalog, frozenset(states)))
    found = [PinnedGroup.from_dict(_document(match), catalog).to_dict() for match in matches[:MOST_FOUND]]
    hint = "" if found else "No group matches all of these words. Try fewer, such as: renters Vermont."
    return {"found": found, "more": max(0, len(matches) - MOST_FOUND), "hint": hint}


#: How well a group matches, its position in the catalog, and its table, line, region and iteration.
Match = tuple[int, int, str, int, str, str]


def _matches(asked: list[str], catalog: Catalog, states: frozenset[str]) -> Iterator[Match]:
    for position, (table, number, line_words, levels) in enumerate(_lines(catalog)):
        left = [word for word in asked if not _in(word, line_words)]
        for regions, iterations in levels:
            for code, names, everyone in iterations:
                open_words = [word for word in left if not _in(word, names)]
                for region, region_words, state in regions:
                    if (state and state not in states) or not all(_in(word, region_words) for word in open_words):
                        continue
                    # What wasn't asked for should be general: everyone, the nation, the totals of tables.
                    extra = int(number > 1) + (bool(state) and not any(_in(word, region_words) for word in asked))
                    extra += not everyone and not any(_in(word, names) for word in asked)
                    yield extra, position, table, number, region, code


@lru_cache(maxsize=8)
def _lines(catalog: Catalog) -> list[tuple[str, int, frozenset[str], list[Any]]]:
    """Return every line with its words, and the words of its regions and iterations."""
    postal = {code: name.lower() for name, code in POSTAL_CODES.items()}
    found = []
    for table in catalog.tables:
        levels = [
            (
                [
                    (code, _known(f"{name} {postal.get(code, '')}"), code[:2] if level.geography.columns else "")
                    for code, name in level.geography.regions
                ],
                [(i.code, _known(i.label), level.iteration_level.is_total) for i in level.iteration_level.iterations],
            )
            for level in levels_of(catalog, table)
        ]
        for line in table.shell:
            words = _known(f"{table.name} {table.title} {line_label(table, line)}")
            found.append((table.name, line.number, words, levels))
    return found


def _known(text: str) -> frozenset[str]:
    words = _words(text)
    return frozenset(words) | {more for word in words for more in EVERYDAY.get(word, "").split()}


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def _in(word: str, words: frozenset[str]) -> bool:
    return any(one.startswith(word) for one in words)


def _document(match: Match) -> dict[str, object]:
    return dict(zip(("table", "line", "region", "iteration"), match[2:], strict=True))
