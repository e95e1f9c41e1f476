"""The explorer page's latency from a keystroke to new numbers, in Chromium: `python benchmarks/explore.py`."""

from __future__ import annotations

import shutil
import statistics
import threading

from playwright.sync_api import sync_playwright

from phsafe.explorer.launch import Service

ARGUMENTS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
]
TYPED = "0.0250125"
ROUNDS = 5


def main() -> None:
    """Type a budget digit by digit, several times, and print the latencies measured by the page."""
    times: list[float] = []
    with Service(port=0) as service, sync_playwright() as playwright:
        thread = threading.Thread(target=service.run, daemon=True)
        thread.start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(service.link)
        page.wait_for_selector("#total-unbounded")
        field = page.locator('[data-tab="PH1_num"][data-level="state_*"]')
        for _ in range(ROUNDS):
            field.fill("")
            field.focus()
            for digit in TYPED:
                before = page.evaluate("Number(document.documentElement.dataset.settled || 0)")
                page.keyboard.type(digit)
                page.wait_for_function("n => Number(document.documentElement.dataset.settled) > n", arg=before)
                times.append(float(page.evaluate("document.documentElement.dataset.latency")))
        browser.close()
        service.server.should_exit = True
        thread.join(5)
    print(f"{len(times)} keystrokes: median {statistics.median(times):.0f} ms, worst {max(times):.0f} ms")


if __name__ == "__main__":
    main()
