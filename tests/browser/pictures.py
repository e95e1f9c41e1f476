"""Take screenshots for the docs, of a report or the site: `python tests/browser/pictures.py REPORT.html|SITE`."""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path("docs/images")
#: File name → width, height, colour scheme, and the page or section to show.
REPORT = {
    "report": (1280, 1000, "light", ""),
    "report-compare": (1280, 900, "light", "#compare&first=STATE+06&second=STATE+48&compare-table=PH3"),
    "report-map": (1280, 1060, "dark", "#map&figure=PH1+1"),
    "report-phone": (390, 844, "light", ""),
}
SITE = {
    "site": (1280, 900, "light", "/index.html"),
    "site-algorithm": (1280, 900, "dark", "/explanation/algorithm.html"),
    "site-phone": (390, 844, "light", "/privacy.html"),
}

source = Path(sys.argv[1]).resolve()
with sync_playwright() as playwright:
    chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    for name, (width, height, scheme, shown) in (SITE if source.is_dir() else REPORT).items():
        page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.goto(source.as_uri() + shown)
        page.wait_for_timeout(300)
        picture = page.screenshot()
        # 64 colours are enough for a page and keep the repository small.
        Image.open(io.BytesIO(picture)).convert("RGB").quantize(64).save(IMAGES / f"{name}.png", optimize=True)
    chromium.close()
