"""The accuracy report in Chromium: on a phone, in dark mode, in print, and without network requests."""

import pytest

import phsafe

from ..accuracy_study.conftest import NEVER, SMALL, make_small_config  # noqa: TID252

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("accuracy") / "out"
    phsafe.accuracy(
        make_small_config(), SMALL, out, trials=2, estimate_trials=1, tau=[1, 5], public=True, skip_validation=True,
        false_alarm=NEVER, jobs=1,
    )  # fmt: skip
    return out


@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (1280, "dark")])
def test_the_report_is_accessible_and_fits_the_window(report, open_page, assert_accessible, width, scheme):
    page = open_page(report / "accuracy.html", viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # All text and points lie within their panel.
    outside = """() => [...document.querySelectorAll(".panels svg")].flatMap(svg => {
        const frame = svg.getBoundingClientRect();
        return [...svg.querySelectorAll("text, circle")].filter(node => {
            const box = node.getBoundingClientRect();
            return box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1;
        }).map(node => node.textContent || node.getAttribute("class"));
    })"""
    assert page.evaluate(outside) == []


def test_it_prints_in_light_colours(report, open_page):
    page = open_page(report / "accuracy.html")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('.d0')).fill") == "rgb(23, 87, 173)"


def test_the_plot_is_a_file_of_its_own(report, open_page):
    page = open_page(report / "tau.svg")
    assert page.evaluate("document.querySelectorAll('.best').length") == 6 + 1
