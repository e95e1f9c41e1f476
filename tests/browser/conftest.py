"""Fixtures for tests in Chromium: the browser, the explorer's server, and accessibility checks."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from phsafe.explorer.launch import Service

#: The axe rules to check: WCAG 2.2 AA, and axe's best practices.
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
#: Restrict Chromium to this machine: no other name resolves, and background requests are off.
ARGUMENTS = [
    "--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium, "these tests need Chromium (apt-get install chromium)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with Service(port=0) as service:
        thread = threading.Thread(target=service.run, daemon=True)
        thread.start()
        yield service
        service.server.should_exit = True
        thread.join(5)


@pytest.fixture
def page(browser: Browser, service: Service) -> Iterator[Page]:
    """A fresh page that shows its numbers. Fails if the page logs to the console or makes a request elsewhere."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    # Chromium itself logs that the server refused a broken file or link.
    page.on("console", lambda message: errors.append(message.text) if "status of 400" not in message.text else None)
    page.on("request", lambda request: requests.append(request.url))
    page.goto(service.link)
    page.wait_for_selector("#total-unbounded")
    yield page
    context.close()
    assert errors == []
    own = (f"http://127.0.0.1:{service.port}/", "blob:")
    assert [url for url in requests if not url.startswith(own)] == []


@pytest.fixture
def open_page(browser: Browser):
    """A function that opens a file. Fails if the page logs to the console, opens a dialog or makes a request."""
    events, contexts = [], []

    def open_file(path: Path, fragment: str = "", **options) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: events.append(message.text))
        page.on("pageerror", lambda error: events.append(str(error)))
        # A picture that the page itself made has an address that begins with blob:.
        own = (path.as_uri(), "blob:")
        page.on("request", lambda request: events.append(request.url) if not request.url.startswith(own) else None)
        page.on("dialog", lambda dialog: (events.append("a dialog"), dialog.dismiss()))
        page.goto(path.as_uri() + fragment)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert events == []


@pytest.fixture(scope="session")
def assert_accessible():
    """A function that checks a page with axe and fails with its report."""

    def check(page: Page) -> None:
        found = Axe().run(page, options=RULES)
        assert found.violations_count == 0, found.generate_report()

    return check
