"""The built site: every link and anchor leads somewhere inside it, and nothing is fetched from elsewhere."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

#: Tags whose address the browser fetches by itself.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """The ids of a page, what it links to and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in FETCHED and values.get(FETCHED[tag]):
            self.loads.append(values[FETCHED[tag]])


def broken(root: Path) -> list[str]:
    """All links that lead nowhere, and all that a page fetches from outside."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in root.rglob("*.html")}
    found = []
    for path, page in pages.items():
        place = path.relative_to(root)
        found += [f"{place} fetches {url}" for url in page.loads if urlsplit(url).netloc]
        for url in (*page.links, *page.loads):
            if urlsplit(url).scheme or urlsplit(url).netloc:
                continue
            name, anchor = urldefrag(url)
            target = (path.parent / unquote(name.partition("?")[0])).resolve() if name else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{place} links to {url}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].ids:
                found.append(f"{place} links to {url}, which has no such place")
    return found


def test_links_lead_somewhere_and_nothing_is_fetched(site):
    assert broken(site) == []


def test_styles_fetch_nothing(site):
    outside = [
        str(path.relative_to(site))
        for path in site.rglob("*.css")
        if "url(http" in (text := path.read_text(encoding="utf-8")) or "url(//" in text or "@import" in text
    ]
    assert outside == []


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<p id="x"><a href="b.html#y"><a href="a.html#x"><a href="c.html">')
    (tmp_path / "b.html").write_text('<p id="z"><script src="https://example.org/x.js">')
    assert sorted(broken(tmp_path)) == [
        "a.html links to b.html#y, which has no such place",
        "a.html links to c.html",
        "b.html fetches https://example.org/x.js",
    ]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("commands.html", ("phsafe release", "phsafe ledger verify", "--sensitivity", "Occupied housing units")),
        ("api.html", ("phsafe.api.release", "phsafe.budgets.Budget", "Publish noisy measurements to a new folder")),
        ("formats.html", ("100000001–899999999", "AIANNHCE", "0, 2–97")),
        ("algorithm.html", ("HHT2 06 and RELSHIP 25–27", 'class="diagram"', "state_A-G")),
        ("notebooks/a-release.html", ("<img alt=", "Rhode Island")),
    ],
)  # fmt: skip
def test_generated_parts_are_there(site, page, words):
    text = (site / page).read_text(encoding="utf-8").replace("</span>", "").replace('<span class="pre">', "")
    assert [word for word in words if word not in text] == []
