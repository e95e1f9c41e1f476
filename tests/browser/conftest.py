"""A running page and a real Chromium."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from phsafe.explorer.serve import Service

#: What WCAG 2.2 AA asks for, and what axe's authors hold to be good practice beside it.
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
#: Nothing but this machine: every other name fails to resolve, and nothing is fetched behind the page's back.
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
    """A fresh page with its numbers shown; it must end without an error in its console."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    faults: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(service.link)
    page.wait_for_selector("#total-unbounded")
    yield page
    context.close()
    assert not faults
    own = (f"http://127.0.0.1:{service.port}/", "blob:")
    assert [url for url in requests if not url.startswith(own)] == []


@pytest.fixture
def look(browser: Browser):
    """The function that opens a file; no page may end with a word in its console or a request to anywhere."""
    heard, contexts = [], []

    def at(path: Path, **options) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: heard.append(request.url) if request.url != path.as_uri() else None)
        page.on("dialog", lambda dialog: (heard.append("a dialog"), dialog.dismiss()))
        page.goto(path.as_uri())
        return page

    yield at
    for context in contexts:
        context.close()
    assert heard == []


@pytest.fixture(scope="session")
def blameless():
    """The function that has axe look at a page, and fails with its report."""

    def check(page: Page) -> None:
        found = Axe().run(page, options=RULES)
        assert found.violations_count == 0, found.generate_report()

    return check
