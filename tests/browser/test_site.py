"""The documentation in a real Chromium: console, axe, a phone, dark, print, keyboard and search."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext

pytestmark = pytest.mark.needs("chromium")
#: Each kind of page once: pictures, tables, notebook, generated parts, proofs.
LOOKS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "phone, dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}
#: Pages of every kind, each looked at once in one of two ways.
KINDS = {
    "desktop": ("index", "algorithm", "formats", "notebooks/a-release"),
    "phone, dark": ("tutorial", "commands", "glossary"),
}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def looked(browser: Browser, look: str) -> BrowserContext:
    context = browser.new_context(**LOOKS[look])
    # A busy machine is slow; nothing here is about speed.
    context.set_default_timeout(300_000)
    return context


@pytest.mark.parametrize("look", KINDS)
def test_pages_are_clean(look, browser, address):
    """No word in the console, no request elsewhere, nothing that axe finds, nothing that sticks out sideways."""
    found = []
    page = looked(browser, look).new_page()
    page.on("console", lambda message: found.append(f"{page.url}: {message.type} {message.text}"))
    page.on("pageerror", lambda error: found.append(f"{page.url}: {error}"))
    page.on("request", lambda request: request.url.startswith(address) or found.append(request.url))
    for name in KINDS[look]:
        page.goto(f"{address}/{name}.html")
        result = Axe().run(page, options={"preload": False})
        found += [f"{name}: {v['id']} {v['nodes'][0]['html'][:200]}" for v in result.response["violations"]]
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            found.append(f"{name}: wider than the window")
    page.context.close()
    assert found == []


def test_keyboard_search_and_theme(browser, address):
    page = looked(browser, "desktop").new_page()
    page.goto(f"{address}/index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to content"
    page.goto(f"{address}/formats.html")
    reached = "[...document.querySelectorAll('.table-wrapper')].every(e => e.tabIndex === 0)"
    assert page.evaluate(reached), "a table that scrolls can't be reached by keyboard"
    page.locator("input[name=q]").first.fill("truncation")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li").count() > 2
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    theme = page.locator(".theme-toggle").locator("visible=true").first
    for _ in range(3):
        theme.press("Enter")
        if page.evaluate("getComputedStyle(document.body).backgroundColor") != before:
            break
    else:
        pytest.fail("no press of the button changes the theme")
    page.context.close()


def test_print(browser, address):
    """On paper there is the page alone, and its pictures are light even where the screen was dark."""
    page = looked(browser, "phone, dark").new_page()
    page.goto(f"{address}/algorithm.html")
    page.emulate_media(media="print")
    assert not page.locator(".sidebar-drawer").is_visible()
    colour = page.evaluate("getComputedStyle(document.querySelector('svg.diagram .paper')).fill")
    assert colour == "rgb(245, 248, 250)"
    assert len(page.pdf()) > 10_000
    page.context.close()
