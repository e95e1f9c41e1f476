"""Pictures of a report for the docs: `python tests/browser/report_pictures.py REPORT.html`."""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path("docs/images")
#: Name → width, height, theme, and the section that stands at the top.
VIEWS = {
    "report": (1280, 1000, "light", None),
    "report-tables": (1280, 1000, "light", "tables"),
    "report-map": (1280, 1000, "dark", "map"),
    "report-phone": (390, 844, "light", None),
}

with sync_playwright() as playwright:
    chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    for name, (width, height, scheme, section) in VIEWS.items():
        page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.goto(Path(sys.argv[1]).resolve().as_uri() + (f"#{section}" if section else ""))
        page.wait_for_timeout(300)
        picture = page.screenshot()
        # Few colours are enough for a page, and keep the repository small.
        Image.open(io.BytesIO(picture)).convert("RGB").quantize(64).save(
            IMAGES / f"{name}.png", optimize=True
        )
    chromium.close()
