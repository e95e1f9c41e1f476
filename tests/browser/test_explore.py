"""PHExplore in Chromium: edit, lock, solve, compare, export, undo, share, and invalid input."""

import base64
import json
import os
import zlib
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from phsafe.configs.config import Config
from phsafe.explorer.joint_margins import joint_moe
from phsafe.explorer.launch import Service
from phsafe.model.exact_numbers import text
from phsafe.privacy.budgets import budget

pytestmark = pytest.mark.needs("chromium")

US = Config.load("examples/us.json")
IMAGES = Path("docs/images")
#: Whether to redraw the docs' pictures of the page.
SCREENSHOTS = os.environ.get("PHSAFE_SCREENSHOTS") == "1"


@pytest.fixture
def page(page: Page) -> Page:
    """The page with its details open."""
    page.get_by_text("Details: every table and level").click()
    return page


def field(page: Page, tabulation: str, level: str):
    return page.locator(f'[data-tab="{tabulation}"][data-level="{level}"]')


def settled(page: Page) -> int:
    return int(page.evaluate("document.documentElement.dataset.settled || 0"))


def after(page: Page, action) -> None:
    """Perform an action and wait until the page has new numbers."""
    page.wait_for_function("() => document.documentElement.dataset.busy === 'no'")
    before = settled(page)
    action()
    page.wait_for_function(
        "n => document.documentElement.dataset.busy === 'no' && Number(document.documentElement.dataset.settled) > n",
        arg=before,
    )


def fill(page: Page, tabulation: str, level: str, value: str) -> None:
    field(page, tabulation, level).focus()
    after(page, lambda: field(page, tabulation, level).fill(value))


def choose(page: Page, name: str, value: str) -> None:
    after(page, lambda: page.locator(f'input[name="{name}"][value="{value}"]').check(force=True))


def total(page: Page) -> str:
    return page.locator("#total-unbounded").inner_text()


def moe(page: Page, tabulation: str, level: str) -> str:
    return page.locator(f'[data-moe="{tabulation} {level}"]').inner_text()


def exported(page: Page, form: str, folder: Path) -> Path:
    page.locator("#export summary").click()
    with page.expect_download() as download:
        page.locator(f'[data-export="{form}"]').click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_the_start_page_equals_phsafe_budget_to_the_last_digit(page: Page):
    known = budget(US)
    assert total(page) == text(known.loss.unbounded) == "1.257281"
    assert page.locator("#total-bounded").inner_text() == text(known.loss.bounded) == "2.514562"
    assert len(page.locator("[data-moe]").all()) == 46
    for row in known.rows:
        name, level = row.event.tabulation, row.event.level
        cell = page.locator(f'[data-moe="{name} {level}"]')
        assert float(cell.get_attribute("data-value")) == row.moe
        assert cell.inner_text() == f"{row.moe:,.2f}"
        assert Decimal(field(page, name, level).input_value()) == US.budgets[name][level]


def test_switching_to_targets_shows_the_papers_targets(page: Page):
    for name, level, target in (
        ("PH1_num", "usa_*", "500"),
        ("PH3", "state_A-G", "20"),
        ("PH7", "state_A-G", "68"),
    ):
        choose(page, f"unit-{name}", "moe")
        assert field(page, name, level).input_value() == target
    assert total(page) == "1.257281"


def test_changing_a_budget_changes_its_margin_and_the_total(page: Page):
    fill(page, "PH3", "state_A-G", "0.3")
    assert total(page) == "0.894305"
    assert moe(page, "PH3", "state_A-G") == "29.73"


def solve(page: Page) -> None:
    page.locator("#preview").click()
    page.locator("#apply").wait_for()
    assert total(page) == "1.257281", "a preview changes nothing"
    after(page, lambda: page.locator("#apply").click())


def test_lock_solve_undo_and_redo(page: Page):
    field(page, "PH3", "state_A-G").focus()
    after(page, lambda: page.keyboard.press("Alt+l"))
    expect(page.locator("td.locked")).to_have_count(1)
    page.get_by_label("What matters").select_option("equal")
    page.locator("#total").fill("1.257281")
    solve(page)
    assert total(page) == "1.257281"
    assert field(page, "PH3", "state_A-G").input_value() == "0.662976"
    assert field(page, "PH1_num", "usa_*").input_value() != "0.002619"
    after(page, lambda: page.keyboard.press("Control+z"))
    assert field(page, "PH1_num", "usa_*").input_value() == "0.002619"
    after(page, lambda: page.keyboard.press("Control+Shift+z"))
    assert field(page, "PH1_num", "usa_*").input_value() != "0.002619"
    page.locator("#total").fill("0.1")
    page.locator("#preview").click()
    expect(page.locator("#total-problem")).to_contain_text("expected at least 0.663021")


def test_tight_exact_and_joint_margins_and_pure_dp(page: Page):
    choose(page, "sensitivity", "tight")
    assert float(moe(page, "PH1_num", "state_A-G")) == pytest.approx(68 * 10 / 11 / 2**0.5, abs=0.01)
    assert page.locator("#total-bounded").inner_text() == "4.8789864"
    choose(page, "sensitivity", "structured")
    assert float(moe(page, "PH1_num", "state_*")) == pytest.approx(200 / 22, abs=0.01)
    for mode in ("tight", "tight-bounded", "structured"):
        note = page.locator(f'label:has(input[name="sensitivity"][value="{mode}"])')
        expect(note).to_contain_text("whole household can be protected less")
    choose(page, "sensitivity", "published")
    page.locator('input[name="moe-kind"][value="exact"]').check(force=True)
    assert moe(page, "PH1_denom", "usa_*") == "496"
    page.locator('input[name="moe-kind"][value="joint"]').check(force=True)
    known = joint_moe(US)["PH3", "state_*"]
    expect(page.locator('[data-moe="PH3 state_*"]')).to_have_text(f"{known:,.2f}", timeout=20_000)


def test_compare_export_and_open_scenarios(page: Page, tmp_path: Path):
    after(page, lambda: page.locator("#keep").click())
    page.get_by_label("Name of this scenario").fill("=Half <b>PH3</b>")
    fill(page, "PH3", "state_A-G", "0.331488")
    page.locator("#compare").click()
    table = page.locator("#comparison")
    if SCREENSHOTS:
        table.wait_for()
        page.screenshot(path=IMAGES / "explore-compare.png")
    expect(table).to_contain_text("1.257281")
    expect(table).to_contain_text("0.925793")
    expect(table).to_contain_text("=Half <b>PH3</b>")
    assert page.locator("#comparison b").count() == 0
    page.keyboard.press("Escape")
    config = exported(page, "config", tmp_path)
    assert text(budget(config).loss.unbounded) == "0.925793"
    assert exported(page, "workbook", tmp_path).read_bytes()[:2] == b"PK"
    saved = exported(page, "scenarios", tmp_path)
    assert len(json.loads(saved.read_text())["scenarios"]) == 2
    page.locator("#open").click()
    after(page, lambda: page.locator("#file").set_input_files(saved))
    assert page.locator(".tab").count() == 4
    page.locator("#open").click()
    after(page, lambda: page.locator("#file").set_input_files(config))
    assert total(page) == "0.925793"
    after(page, lambda: page.locator("#standard").click())
    assert total(page) == "1.257281"


def test_a_link_that_unpacks_to_too_much_is_refused(page: Page):
    """A link of half a megabyte that holds half a gigabyte: the page stops reading, and goes on working."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = packer.compress(b"[" * 500_000_000) + packer.flush()
    page.locator("#open").click()
    page.get_by_placeholder("paste a shared link here").fill(f"#s={base64.urlsafe_b64encode(packed).decode()}")
    page.locator("#take").click()
    expect(page.locator("#open-problem")).to_contain_text("broken or too large")
    page.keyboard.press("Escape")
    fill(page, "PH3", "state_A-G", "0.3")
    expect(page.locator("#total-unbounded")).to_have_text("0.894305")


def test_a_link_carries_a_scenario(page: Page, browser: Browser, service: Service):
    fill(page, "PH3", "state_A-G", "0.3")
    page.locator("#share").click()
    link = page.locator("#link").input_value()
    assert service.token not in link
    page.keyboard.press("Escape")
    second = page.context.new_page()
    second.goto(link)
    expect(second.locator("#total-unbounded")).to_have_text("0.894305")
    second.close()
    other_browser = browser.new_context().new_page()
    other_browser.goto(link)
    expect(other_browser.locator("#notice")).to_contain_text("needs the whole link")
    expect(other_browser.get_by_label("Link", exact=True)).to_have_value(link)
    assert other_browser.locator("main").is_hidden()
    other_browser.context.close()
    page.locator("#open").click()
    page.locator("#paste").fill(link[:-40])
    page.locator("#take").click()
    expect(page.locator("#open-problem")).to_contain_text("broken")
    for bad in ("nonsense", '{"scenarios": [1]}', '{"privacy_budget": 3}', "[]"):
        page.locator("#paste").fill(bad)
        page.locator("#open-problem").evaluate("node => { node.textContent = '' }")
        page.locator("#take").click()
        expect(page.locator("#open-problem")).not_to_be_empty()
    page.keyboard.press("Escape")
    assert total(page) == "0.894305"


def test_an_invalid_number_gets_a_message_and_keeps_the_last_results(page: Page):
    cell = field(page, "PH4", "state_*")
    for typed in ("-1", "0", "many", "", "1e99", "0x10", "١", "NaN", "9" * 40):
        fill(page, "PH4", "state_*", typed)
        expect(cell).to_have_attribute("aria-invalid", "true")
        message = page.locator(f'[id="{cell.get_attribute("aria-describedby")}"]')
        expect(message).to_be_visible()
        assert "0" in message.inner_text() or "number" in message.inner_text()
        assert cell.input_value() == typed
        assert total(page) == "1.257281"
    fill(page, "PH4", "state_*", "0.016371")
    expect(cell).to_have_attribute("aria-invalid", "false")
    expect(page.locator("#notice")).to_be_hidden()


def test_invalid_thresholds_and_delta_are_marked(page: Page):
    tau = page.locator('[data-tau="PH3"]')
    after(page, lambda: tau.fill("0"))
    expect(tau).to_have_attribute("aria-invalid", "true")
    after(page, lambda: tau.fill("5"))
    expect(tau).to_have_attribute("aria-invalid", "false")
    delta = page.locator("#delta")
    after(page, lambda: delta.fill("2"))
    expect(delta).to_have_attribute("aria-invalid", "true")
    after(page, lambda: delta.fill("1e-9"))
    expect(page.locator("#kpis")).to_contain_text("δ 1e-9")
    card = page.locator(".pin").first
    card.get_by_text("Size and weight").click()
    after(page, lambda: card.get_by_label("people counted").fill("some"))
    expect(card.locator(".problem")).to_contain_text("expected a number of people")


def test_levels_can_be_switched_and_puerto_rico_has_no_nation(page: Page):
    after(page, lambda: page.locator('[data-column="usa_*"]').uncheck())
    assert total(page) == "1.244617"
    after(page, lambda: page.locator('[data-column="usa_*"]').check())
    assert total(page) == "1.257281", "what truncation drops stays off"
    after(page, lambda: page.get_by_label("Area").select_option("pr"))
    assert total(page) == "1.226649"
    assert field(page, "PH1_num", "usa_*").is_disabled()


def test_what_truncation_drops_can_be_switched_on(page: Page):
    column = page.locator('[data-column="state_*"]')
    assert not column.evaluate("box => box.indeterminate"), "optional tabulations don't count while they are off"
    page.get_by_role("button", name="Measure what truncation drops").click()
    after(page, lambda: page.get_by_label("Publish PH1_dropped").check())
    assert total(page) == "1.259281"
    fill(page, "PH1_dropped", "usa_*", "0.0001")
    fill(page, "PH1_dropped", "state_*", "0.0008")
    assert total(page) == "1.258181"
    assert moe(page, "PH1_dropped", "state_*") == "41.13"
    expect(page.locator("th", has_text="PH1_dropped").first).to_contain_text("Dropped persons (PH1)")
    after(page, column.uncheck)
    after(page, column.check)
    assert total(page) == "1.258181"
    after(page, lambda: page.get_by_label("Publish PH1_dropped").uncheck())
    assert total(page) == "1.257281"


def test_fields_can_be_reached_and_switched_by_keyboard(page: Page):
    field(page, "PH1_num", "usa_*").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.tab") == "PH1_denom"
    after(page, lambda: page.keyboard.press("Alt+o"))
    assert total(page) == "1.257259"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement !== document.body")


def test_reloading_keeps_the_scenarios(page: Page):
    fill(page, "PH3", "state_A-G", "0.3")
    page.reload()
    expect(page.locator("#total-unbounded")).to_have_text("0.894305")


def test_groups_are_found_by_everyday_words_added_and_removed(page: Page):
    cards = page.locator(".pin")
    before = cards.count()
    page.get_by_role("button", name="Add a group").click()
    page.get_by_label("Words").fill("renters vermont")
    expect(page.locator("#found li").first).to_contain_text("Vermont")
    page.get_by_label("Words").fill("zzzz")
    expect(page.locator("#found-hint")).not_to_be_empty()
    page.get_by_label("Words").fill("renters vermont")
    after(page, page.locator("#found button:enabled").first.click)
    expect(cards).to_have_count(before + 1)
    expect(cards.last).to_contain_text("Vermont")
    after(page, lambda: cards.last.get_by_label("Remove").click())
    expect(cards).to_have_count(before)
    after(page, lambda: page.get_by_role("button", name="↶ Undo").click())
    expect(cards).to_have_count(before + 1)
    page.reload()
    expect(cards).to_have_count(before + 1)


def test_rows_and_columns_can_be_locked(page: Page):
    after(page, lambda: page.get_by_label("Lock State × everyone", exact=True).click())
    expect(page.locator("td.locked")).to_have_count(9)
    after(page, lambda: page.locator('[data-lock="row PH2"]').click())
    expect(page.locator("td.locked")).to_have_count(10)
    expect(page.locator("#locked")).to_contain_text("10 locked budgets will be kept")
    after(page, lambda: page.locator('[data-lock="row PH2"]').click())
    expect(page.locator("td.locked")).to_have_count(8)


def test_every_term_is_explained_and_in_the_glossary(page: Page):
    glossary = Path("docs/reference/glossary.md").read_text("utf-8").replace("\\*", "*").splitlines()
    words = page.evaluate("import('/static/words.js').then(m => m.WORDS)")
    assert {word["glossary"] for word in words.values()} <= set(glossary)
    buttons = [button for button in page.locator("main .why, main .word").all() if button.is_visible()]
    assert len(buttons) > 30
    for button in buttons:
        button.click()
        expect(page.locator("#word")).to_be_visible()
        assert len(page.locator("#word p").inner_text()) > 40
        page.keyboard.press("Escape")
        expect(page.locator("#word")).to_be_hidden()


def test_the_tour_leads_through_the_page_and_back(page: Page):
    page.get_by_role("button", name="Tour", exact=True).click()
    for _ in range(6):
        page.keyboard.press("Enter")
    expect(page.locator("#tour")).to_contain_text("7 of 7")
    page.keyboard.press("Escape")
    expect(page.locator("#tour")).to_be_hidden()
    assert page.locator(".pointed").count() == 0
    assert page.evaluate("document.activeElement.id") == "start-tour"


def test_a_full_bar_is_the_whole_loss(page: Page):
    bar = page.locator(".bar", has=page.locator("i")).nth(3)
    drawn = bar.evaluate(
        "n => [...n.children].reduce((w, i) => w + i.getBoundingClientRect().width, 0) / n.clientWidth"
    )
    assert bar.get_attribute("aria-label").endswith("PH3: 54.0 % of the total")
    assert drawn == pytest.approx(0.54, abs=0.01)


def test_typing_goes_on_while_the_joint_fit_is_under_way(page: Page):
    page.route("**/api/finished", lambda route: route.fulfill(json={"problems": {}, "state": "under way"}))
    page.route("**/api/evaluate", lambda route: route.fulfill(json=route.fetch().json() | {"finished": "under way"}))
    fill(page, "PH3", "state_A-G", "0.298765")
    expect(page.locator("#under-way")).to_contain_text("being computed")
    fill(page, "PH3", "state_A-G", "0.312345")
    assert total(page) == "0.90665"
    page.unroute("**/api/finished")
    page.unroute("**/api/evaluate")
    expect(page.locator("#under-way")).to_have_count(0, timeout=20_000)


def test_a_stopped_server_is_reported_and_input_is_kept(browser: Browser):
    import threading

    with Service(port=0) as service:
        thread = threading.Thread(target=service.run, daemon=True)
        thread.start()
        page = browser.new_context().new_page()
        page.goto(service.link)
        page.get_by_text("Details: every table and level").click()
        service.server.should_exit = True
        thread.join(5)
        field(page, "PH3", "state_A-G").fill("0.3")
        expect(page.locator("#notice")).to_contain_text("isn’t responding", timeout=10_000)
        assert field(page, "PH3", "state_A-G").input_value() == "0.3"
        page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 800), (1440, 900), (1920, 1080)])
def test_everything_fits_and_is_accessible(
    browser: Browser, service: Service, tmp_path: Path, assert_accessible, scheme, width, height
):
    """Nothing overflows, and axe has no complaint; `PHSAFE_SCREENSHOTS=1` saves the screenshots for the docs."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(service.link)
    page.wait_for_selector("#total-unbounded")
    expect(page.locator("#under-way")).to_have_count(0, timeout=20_000)
    folder = IMAGES if SCREENSHOTS else tmp_path
    page.screenshot(path=folder / f"explore-{scheme}-{width}.png")
    assert_fits(page, width)
    assert_accessible(page)
    page.get_by_text("Details: every table and level").click()
    page.get_by_role("button", name="Measure what truncation drops").click()
    assert_fits(page, width)
    clipped = page.evaluate(
        """[...document.querySelectorAll('.grid td input, .grid td output, .kpi span, .pin p')]
        .filter(n => n.scrollWidth > n.clientWidth + 1).map(n => n.textContent)"""
    )
    assert clipped == []
    assert_accessible(page)
    # Dialogs have the same layout on all wide windows.
    for button in () if width > 1280 else ("Compare", "Open", "Share", "+ Add a group", "Export ▾"):
        page.get_by_role("button", name=button, exact=True).click()
        if button == "Export ▾":
            page.get_by_role("button", name="Summary for the minutes").click()
        page.locator("dialog[open]").wait_for()
        assert page.locator("dialog").evaluate("node => node.scrollWidth <= node.clientWidth")
        assert_accessible(page)
        page.keyboard.press("Escape")
    context.close()


def assert_fits(page: Page, width: int) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= width
