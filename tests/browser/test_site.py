"""The documentation in Chromium: console, accessibility, phone, dark mode, print, keyboard and search."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext

pytestmark = pytest.mark.needs("chromium")
DEVICES = {
    "desktop": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "phone, dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}
#: Pages with pictures, tables, a notebook, generated parts and proofs, each checked on one device.
PAGES = {
    "desktop": ("index", "explanation/algorithm", "reference/formats", "notebooks/a-release"),
    "phone, dark": ("tutorials/tutorial", "reference/commands", "reference/glossary"),
}


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def context_for(browser: Browser, device: str) -> BrowserContext:
    context = browser.new_context(**DEVICES[device])
    # A busy machine is slow, and these tests are not about speed.
    context.set_default_timeout(300_000)
    return context


@pytest.mark.parametrize("device", PAGES)
def test_pages_are_clean(device, browser, address):
    """Pages log nothing, make no outside requests, pass axe and fit the width of the window."""
    found = []
    page = context_for(browser, device).new_page()
    page.on("console", lambda message: found.append(f"{page.url}: {message.type} {message.text}"))
    page.on("pageerror", lambda error: found.append(f"{page.url}: {error}"))
    page.on("request", lambda request: request.url.startswith(address) or found.append(request.url))
    for name in PAGES[device]:
        page.goto(f"{address}/{name}.html")
        result = Axe().run(page, options={"preload": False})
        found += [f"{name}: {v['id']} {v['nodes'][0]['html'][:200]}" for v in result.response["violations"]]
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            found.append(f"{name}: wider than the window")
    page.context.close()
    assert found == []


def test_keyboard_search_and_theme(browser, address):
    page = context_for(browser, "desktop").new_page()
    page.goto(f"{address}/index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to content"
    page.goto(f"{address}/reference/formats.html")
    reached = "[...document.querySelectorAll('.table-wrapper')].every(e => e.tabIndex === 0)"
    assert page.evaluate(reached), "a scrolling table can't be reached by keyboard"
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
        pytest.fail("the button doesn't change the theme")
    page.context.close()


def test_printed_pages_are_light_and_without_navigation(browser, address):
    """Print shows only the page itself, with light pictures even in dark mode."""
    page = context_for(browser, "phone, dark").new_page()
    page.goto(f"{address}/explanation/algorithm.html")
    page.emulate_media(media="print")
    assert not page.locator(".sidebar-drawer").is_visible()
    colour = page.evaluate("getComputedStyle(document.querySelector('svg.diagram .paper')).fill")
    assert colour == "rgb(245, 248, 250)"
    assert len(page.pdf()) > 10_000
    page.context.close()
