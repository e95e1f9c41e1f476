"""The built site: all internal links and anchors resolve, and pages load nothing from other sites."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

#: Tags whose address the browser loads automatically.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """The ids of a page, its links, and the resources that it loads."""

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
    """List broken links and resources loaded from other sites."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in root.rglob("*.html")}
    found = []
    for path, page in pages.items():
        name_of_page = path.relative_to(root)
        found += [f"{name_of_page} fetches {url}" for url in page.loads if urlsplit(url).netloc]
        for url in (*page.links, *page.loads):
            if urlsplit(url).scheme or urlsplit(url).netloc:
                continue
            name, anchor = urldefrag(url)
            target = (path.parent / unquote(name.partition("?")[0])).resolve() if name else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{name_of_page} links to {url}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].ids:
                found.append(f"{name_of_page} links to {url}, which has no such anchor")
    return found


def test_links_resolve_and_nothing_is_loaded_from_other_sites(site):
    assert broken(site) == []


def test_styles_load_nothing_from_other_sites(site):
    outside = [
        str(path.relative_to(site))
        for path in site.rglob("*.css")
        if "url(http" in (text := path.read_text(encoding="utf-8")) or "url(//" in text or "@import" in text
    ]
    assert outside == []


def test_broken_links_are_detected(tmp_path):
    (tmp_path / "a.html").write_text('<p id="x"><a href="b.html#y"><a href="a.html#x"><a href="c.html">')
    (tmp_path / "b.html").write_text('<p id="z"><script src="https://example.org/x.js">')
    assert sorted(broken(tmp_path)) == [
        "a.html links to b.html#y, which has no such anchor",
        "a.html links to c.html",
        "b.html fetches https://example.org/x.js",
    ]


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        (
            "reference/commands.html",
            ("phsafe release", "phsafe ledger verify", "--sensitivity", "Number of households"),
        ),
        (
            "reference/api.html",
            ("phsafe.pipeline.calls.release", "phsafe.privacy.budgets.Budget", "Publish noisy measurements to a new"),
        ),
        ("reference/formats.html", ("100000001–899999999", "AIANNHCE", "0, 2–97")),
        ("explanation/algorithm.html", ("HHT2 06 and RELSHIP 25–27", 'class="diagram"', "state_A-G")),
        ("notebooks/a-release.html", ("<img alt=", "Rhode Island")),
    ],
)  # fmt: skip
def test_generated_parts_are_present(site, page, texts):
    text = (site / page).read_text(encoding="utf-8").replace("</span>", "").replace('<span class="pre">', "")
    assert [expected for expected in texts if expected not in text] == []
