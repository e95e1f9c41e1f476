"""Nine tasks of a committee, done in Chromium by what is written on the page: labels, buttons and sentences."""

import json
import re
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from phsafe.configs.config import Config
from phsafe.explorer.launch import Service
from phsafe.explorer.plain_language import NOISE
from phsafe.model.exact_numbers import text
from phsafe.privacy.budgets import budget

pytestmark = pytest.mark.needs("chromium")

CHILDREN = "Native Hawaiian and Other Pacific Islander alone, Wyoming"
PH3 = "Household Type by Relationship for the Population Under 18 Years"


def press(within: Page | Locator, name: str) -> None:
    within.get_by_role("button", name=name).first.click()


def tile(page: Page, label: str) -> Locator:
    """The box that shows a figure under this label."""
    return page.get_by_text(label).first.locator("xpath=ancestor::div[1]")


def card(page: Page, group: str) -> Locator:
    return page.get_by_role("region", name=group).first


def choose(box: Locator, words: str) -> None:
    """Choose the first option that contains these words."""
    box.select_option(label=next(text for text in box.locator("option").all_inner_texts() if words in text))


def details(page: Page) -> None:
    page.get_by_text("Details: every table and level").click()


def says(page: Page, words: str) -> None:
    """Wait until the sentence in front contains these words."""
    expect(page.get_by_role("region", name="In short").get_by_text(words).first).to_be_visible()


def margin(words: str) -> float:
    """Read the margin that holds now from the words of a card."""
    return float(re.search(r"± ([\d.,]+)\s+people now", words)[1].replace(",", ""))


def finished(page: Page) -> None:
    expect(page.get_by_text("Finished margins are being computed")).to_have_count(0, timeout=20_000)


def test_what_2020_cost_and_how_accurate_a_small_group_was(page: Page):
    says(page, "This choice has a privacy loss of ρ = 1.257281, the same as 2020")
    says(page, "Someone who guesses whether you were counted is right at most 79 times in 100")
    children = card(page, CHILDREN)
    expect(children).to_contain_text(re.compile(r"about \d+, published as \d+ to \d+ in 9 of 10 releases"))
    expect(children).to_contain_text("rough")
    expect(page.get_by_text("In nine of ten releases, the published number is in the range shown.")).to_contain_text(
        f"Rough: at most {100 * NOISE:g} %"
    )
    expect(tile(page, "Privacy loss ρ, record changed")).to_contain_text("2.514562")


def test_one_margin_is_tightened(page: Page):
    finished(page)
    before = margin(card(page, CHILDREN).inner_text())
    press(card(page, CHILDREN), "Change this margin")
    page.get_by_label("Margin of error, at most").fill("40")
    press(page.get_by_role("dialog"), "Preview")
    expect(page.get_by_role("heading", name="Who wins, who loses")).to_be_visible(timeout=20_000)
    says(page, "This choice has a privacy loss of ρ = 1.257281")
    press(page, "Apply")
    says(page, "more than 2020")
    expect(page.get_by_label("Name of this scenario")).to_have_value("2020 parameters, changed")
    finished(page)
    after = margin(card(page, CHILDREN).inner_text())
    assert after <= 40 < before
    expect(page.get_by_text("Applied.")).to_be_visible()
    press(page, "↶ Undo")
    says(page, "ρ = 1.257281, the same as 2020")
    expect(page.get_by_label("Name of this scenario")).to_have_value("2020 parameters")
    expect(page.get_by_text("Applied.")).to_be_hidden()


def test_levels_are_dropped(page: Page):
    details(page)
    page.get_by_label("Publish Nation × everyone").uncheck()
    says(page, "ρ = 1.244617")
    says(page, "less than 2020")
    expect(page.get_by_text("not published", exact=True).first).to_be_visible()
    says(page, "Not published: 1 of the 8 groups that you care about.")
    expect(tile(page, "Groups you care about")).to_contain_text("1 not published")


def test_a_threshold_is_changed(page: Page):
    choose(page.get_by_label("Group or table of the chart"), CHILDREN)
    picture = page.get_by_role("img", name=re.compile("With τ = 6"))
    expect(picture).to_be_visible()
    details(page)
    page.get_by_label(f"Threshold τ of {PH3}").fill("8")
    expect(page.get_by_role("img", name=re.compile("With τ = 8"))).to_be_visible()
    expect(card(page, CHILDREN)).to_contain_text("▲")


def test_a_total_is_fixed_with_a_table_locked(page: Page):
    details(page)
    kept = page.get_by_label(f"{PH3} PH3, State × race (A–G)", exact=True).input_value()
    page.get_by_label(f"Lock {PH3} PH3", exact=True).click()
    expect(page.get_by_text("6 locked budgets will be kept")).to_be_visible()
    page.get_by_label("Total to split").fill("1.5")
    page.get_by_label("No margin larger than now").check()
    press(page, "Preview")
    expect(page.get_by_role("dialog")).to_contain_text("The privacy loss goes from 1.257281 to 1.5")
    press(page, "Apply")
    says(page, "ρ = 1.5, 19 % more than 2020")
    assert page.get_by_label(f"{PH3} PH3, State × race (A–G)", exact=True).input_value() == kept
    expect(page.get_by_text("less accurate")).to_have_count(0)


def test_the_tight_mode_says_what_it_gives_up(page: Page):
    tight = page.get_by_text("Tight", exact=True).locator("xpath=ancestor::label")
    expect(tight).to_contain_text("Gives up: The loss for a changed record doubles")
    tight.click()
    says(page, "3.0 % less than 2020; for a changed record it is 94 % more than 2020")
    expect(tile(page, "Privacy loss ρ, record changed")).to_contain_text("4.8789864")
    expect(tile(page, "Privacy loss ρ, record changed")).to_contain_text("▲ +94 %")
    expect(page.get_by_text("instead of 2.514562")).to_be_visible()
    expect(tile(page, "Groups you care about")).to_contain_text("more accurate")


def test_two_scenarios_are_compared(page: Page):
    press(page, "+ copy")
    page.get_by_label("Name of this scenario").fill("Without the nation")
    details(page)
    page.get_by_label("Publish Nation × everyone").uncheck()
    says(page, "less than 2020")
    press(page, "Compare")
    table = page.get_by_role("dialog")
    expect(table.get_by_role("columnheader", name="Without the nation")).to_be_visible()
    expect(table.get_by_role("row", name=re.compile("Privacy loss, person added or removed"))).to_contain_text(
        "1.244617 (▼ −1.0 %)"
    )
    expect(table).to_contain_text("not published")
    expect(table.get_by_role("row", name=re.compile("whether you were counted"))).to_contain_text(" points)")
    page.keyboard.press("Escape")
    page.get_by_label("Compared with", exact=True).select_option(label="Without the nation")
    says(page, "the same as “Without the nation”")


def saved(page: Page, name: str, folder: Path) -> Path:
    with page.expect_download() as download:
        press(page, name)
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_everything_can_be_taken_away(page: Page, browser: Browser, tmp_path: Path):
    details(page)
    page.get_by_label(f"{PH3} PH3, State × race (A–G)", exact=True).fill("0.3")
    says(page, "ρ = 0.894305")
    page.locator("#export summary").click()
    config = saved(page, "Config (JSON)", tmp_path)
    assert text(budget(Config.load(config)).loss.unbounded) == "0.894305"
    page.locator("#export summary").click()
    assert saved(page, "Workbook (Excel)", tmp_path).read_bytes()[:2] == b"PK"
    page.locator("#export summary").click()
    assert len(json.loads(saved(page, "Scenario file", tmp_path).read_text())["scenarios"]) == 1
    page.locator("#export summary").click()
    press(page, "Summary for the minutes")
    page.get_by_label("Decision").fill("Adopt <b>this</b>")
    page.get_by_label("Reason").fill("Good enough for small groups")
    page.get_by_label("Who decided").fill("The committee")
    sheet = page.get_by_role("region", name="Summary")
    for words in ("Adopt <b>this</b>", "Good enough for small groups", "The committee", "0.894305", CHILDREN):
        expect(sheet).to_contain_text(words)
    summary = saved(page, "Save as HTML", tmp_path).read_text("utf-8")
    assert "Adopt &lt;b&gt;this&lt;/b&gt;" in summary
    page.keyboard.press("Escape")
    press(page, "Share")
    link = page.get_by_role("textbox", name="Link").input_value()
    with Service(port=0) as copy:
        thread = threading.Thread(target=copy.run, daemon=True)
        thread.start()
        other = browser.new_context().new_page()
        other.goto(copy.link)
        says(other, "ρ = 1.257281")
        press(other, "Open")
        other.get_by_placeholder("paste a shared link here").fill(link)
        press(other.get_by_role("dialog"), "Open")
        says(other, "ρ = 0.894305")
        other.context.close()
        copy.server.should_exit = True
        thread.join(5)


def test_the_summary_prints_on_one_page(page: Page):
    page.locator("#export summary").click()
    press(page, "Summary for the minutes")
    page.get_by_label("Reason").fill("A long reason. " * 30)
    expect(page.get_by_role("region", name="Summary")).to_contain_text("A long reason.")
    page.emulate_media(media="print")
    expect(page.get_by_text("SHA-256 of the exported file").first).to_be_visible()
    expect(page.get_by_text("Print or save as PDF")).to_be_hidden()
    for size in ("A4", "Letter"):
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format=size))) == 1


def test_nonsense_gets_a_sentence_and_changes_nothing(page: Page):
    details(page)
    field = page.get_by_label(f"{PH3} PH3, State × everyone", exact=True)
    for nonsense in ("many", "-1", "", "1e99"):
        field.fill(nonsense)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_text("The numbers shown are the last valid ones")).to_be_visible()
        says(page, "ρ = 1.257281")
    field.fill("40")
    expect(page.get_by_text(re.compile("margin of error")).filter(has_text="40").first).to_be_visible()
    press(page, "Read 40 as a margin of error")
    expect(field.locator("..")).to_contain_text("± 40")
    says(page, "more than 2020")
    press(card(page, CHILDREN), "Change this margin")
    for nonsense in ("", "lots", "-3", "0"):
        page.get_by_label("Margin of error, at most").fill(nonsense)
        press(page.get_by_role("dialog"), "Preview")
        expect(page.get_by_role("alert").filter(has_text=re.compile("expected")).first).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_label("Total to split").fill("plenty")
    press(page, "Preview")
    expect(page.get_by_text("expected a number above 0")).to_be_visible()


def test_a_preview_needs_no_sideways_scrolling_on_a_phone(page: Page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_label("Total to split").fill("1.5")
    press(page, "Preview")
    preview = page.get_by_role("region", name="Preview")
    expect(preview).to_be_visible(timeout=20_000)
    assert preview.evaluate("node => node.scrollWidth <= node.clientWidth")


def test_a_loss_under_another_definition_is_not_compared(page: Page):
    press(page, "+ copy")
    page.get_by_text("Pure DP (ε)").click()
    says(page, "can't be compared with 2020")
    press(page, "Compare")
    row = page.get_by_role("dialog").get_by_role("row", name=re.compile("Privacy loss, person added or removed"))
    expect(row).to_contain_text("5.571604")
    expect(row).not_to_contain_text("%")


def test_labels_of_the_picture_do_not_cover_each_other(page: Page):
    labels = page.get_by_role("img", name=re.compile("With τ = 6")).locator("text.strong")
    expect(labels).to_have_count(2)
    first, second = (label.bounding_box() for label in labels.all())
    assert first["y"] >= second["y"] + second["height"] or second["y"] >= first["y"] + first["height"]
