"""A running page and a real Chromium."""

import shutil
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from phsafe.explorer.serve import Service

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
