"""A reader finds answers from the start page: one link away, in the page that its purpose suggests."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
#: Question → the word of the start page under which a reader looks, the page, and words of the answer.
QUESTIONS = {
    "How do I see it run?": ("learn", "tutorials/quickstart.md", "In the clone, run:"),
    "How do I install it without a network?": ("do", "how-to/install.md", "## Without a network"),
    "What do I do when the cap is used up?": ("do", "how-to/runbook.md", "phsafe ledger amend"),
    "How do I publish a table of my own?": ("do", "how-to/own-tables.md", "[[tables]]"),
    "How do I publish counties?": ("do", "how-to/counties.md", "county_*"),
    "What does exit code 3 mean?": ("look up", "reference/commands.md", "exit code"),
    "What does the column HHT2 mean?": ("look up", "reference/formats.md", "HHT2"),
    "How much privacy does a release cost, and who proved it?": ("understand", "privacy.md", "## 1. The guarantee"),
    "How far is a number from the truth?": ("understand", "explanation/faq.md", "## How large is the noise?"),
    "Who else checked the losses?": ("understand", "explanation/reviews.md", "dp-accounting"),
    "Does it run on Windows?": ("change", "development/tools.md", "| Windows |"),
    "How does the noise differ from 2020?": ("understand", "explanation/2020-noise.md", "σ² = Δ²/(2ρ)"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_is_one_link_away(question):
    word, page, answer = QUESTIONS[question]
    start = (DOCS / "index.md").read_text()
    (row,) = re.findall(rf"^\| \*\*{word}\*\*.*$", start, re.MULTILINE)
    assert f"]({page})" in row
    assert answer.lower() in (DOCS / page).read_text().lower()


def test_every_page_is_linked_from_the_start_page():
    start = (DOCS / "index.md").read_text()
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"index.md"}
    assert [page for page in sorted(pages) if f"]({page})" not in start] == []
