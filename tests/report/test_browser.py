"""The page in a real Chromium: both widths and themes, no request, no complaint, rules of accessibility, keyboard."""

from __future__ import annotations

from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from reprobuild.report.html.page import render_html
from tests.browser import Browser
from tests.report.samples import HOSTILE, IMAGE, LONG, full_page, large_page
from tests.verify.samples import make_lock, make_smoke, make_verdict

PHONE, DESKTOP = 390, 1280
THEMES = ("light", "dark")
# Without an icon the browser would ask for one, and perhaps only when the next page is open.
PLANTED = """<!doctype html><html><title>x</title><link rel="icon" href="data:,"><img src="http://planted.example/x.png">
<p style="width: 9999px; color: #eee; background: #fff">pale</p><script>console.error("planted")</script>"""
ACTIVE = " ".join((HOSTILE[0], HOSTILE[1], HOSTILE[4], "\u202e"))


@pytest.fixture(scope="module")
def ordinary() -> str:
    """The page of a check in which all is well, with some of its probes."""
    smoke = make_smoke()
    return render_html(make_lock(), IMAGE, make_verdict(smoke=(make_smoke(probes=smoke.probes[:9]),)))


def scheme(theme: str) -> dict[str, str]:
    return {"prefers-color-scheme": theme}


# Hostile values bring every word with a colour: each theme once is enough for them.
@pytest.mark.parametrize(
    ("kind", "theme", "width"),
    [
        *(("ordinary", theme, width) for theme in THEMES for width in (PHONE, DESKTOP)),
        ("hostile", "light", PHONE),
        ("hostile", "dark", DESKTOP),
    ],
)
def test_at_both_widths_and_themes(
    browser: Browser, kind: str, theme: str, width: int, ordinary: str
) -> None:
    browser.open(ordinary if kind == "ordinary" else full_page(ACTIVE), width=width, features=scheme(theme))
    assert browser.overflow() == 0
    browser.open_all()
    assert browser.overflow() == 0
    assert browser.violations() == []
    assert browser.complaints() == []
    assert browser.requests() == set()
    ground = browser.script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(", "))) > 600) == (theme == "light")


def test_each_check_can_fail(browser: Browser) -> None:
    browser.open(PLANTED, width=PHONE)
    assert browser.overflow() > 0
    found = {violation.partition(":")[0] for violation in browser.violations()}
    assert {"image-alt", "html-has-lang", "color-contrast"} <= found
    assert any("planted" in complaint for complaint in browser.complaints())
    assert "http://planted.example/x.png" in browser.requests()
    assert ("GET", "http://planted.example/x.png") in browser.proxy.asked


def test_500_packages_on_a_phone(browser: Browser) -> None:
    """Whole, without overflow, and found by letter: a link into what is closed opens it."""
    browser.open(large_page(), width=PHONE)
    assert browser.script("return document.querySelectorAll('table.packages tbody tr').length") == 900
    assert browser.overflow() == 0
    closed = "return document.getElementById('packages-python').open"
    assert browser.script(closed) is False
    browser.script("document.querySelector('a[href=\"#packages-python-c\"]').click()")
    top = browser.driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => "
        "done(document.getElementById('packages-python-c').checkVisibility())));"
    )
    assert (browser.script(closed), top) == (True, True)
    browser.open_all()
    assert browser.overflow() == 0
    assert browser.requests() == set()


def test_what_is_too_long_for_a_phone(browser: Browser) -> None:
    browser.open(full_page(LONG), width=PHONE)
    browser.open_all()
    assert browser.overflow() == 0


def test_the_search_narrows_the_packages(browser: Browser) -> None:
    browser.open(large_page(60, 40, 1))
    field = browser.driver.find_element("id", "find")
    field.send_keys("distribution-00")
    shown = "return [...document.querySelectorAll('table.packages tbody tr')].filter((r) => r.checkVisibility()).length"
    assert browser.script(shown) == 10
    assert browser.driver.find_element("id", "found").text == "10 of 100"
    field.clear()
    field.send_keys("x", Keys.BACKSPACE)
    assert browser.script(shown) == 0  # closed again, as they were
    assert browser.driver.find_element("id", "found").text == ""
    assert browser.complaints() == []


def test_the_page_is_whole_without_its_script(browser: Browser) -> None:
    browser.cdp("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(large_page(60, 40, 1), features={"prefers-reduced-motion": "reduce"})
        assert not browser.driver.find_element("id", "search").is_displayed()
        browser.driver.find_element("css selector", "#packages-python > summary").click()
        row = browser.driver.find_element("css selector", "#packages-python tbody tr")
        assert row.is_displayed()
    finally:
        browser.cdp("Emulation.setScriptExecutionDisabled", value=False)


def test_the_keyboard_reaches_everything(browser: Browser, ordinary: str) -> None:
    browser.open(ordinary)
    reachable = (
        "return [...document.querySelectorAll("
        "'a[href], summary, input:not([type=radio]), input:checked, button, [tabindex=\"0\"]')]"
        ".filter((one) => one.checkVisibility({visibilityProperty: true})).length"
    )
    wanted = browser.script(reachable)
    browser.script(
        "window.reached = new Set(); document.addEventListener('focusin', (e) => reached.add(e.target));"
    )
    press(browser, Keys.TAB)
    assert browser.script("return document.activeElement.className") == "skip"
    assert browser.script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for _ in range(wanted):
        press(browser, Keys.TAB)
    assert browser.script("return reached.size") == wanted
    first = browser.driver.find_element("css selector", "summary")
    first.send_keys(Keys.ENTER)
    assert browser.script("return document.querySelector('details').open") is True
    browser.driver.refresh()
    press(browser, Keys.TAB)
    press(browser, Keys.ENTER)
    assert browser.script("return [location.hash, document.activeElement.id]") == ["#report", "report"]


def press(browser: Browser, key: str) -> None:
    active: Any = browser.driver.switch_to.active_element
    active.send_keys(key)


def test_paper_gets_what_is_folded(browser: Browser, ordinary: str) -> None:
    browser.open(ordinary, media="print", features=scheme("dark"))
    seen = (
        "return [document.querySelector('details:not([open]) tbody tr').getBoundingClientRect().height > 0,"
        " document.querySelector('.contents').checkVisibility(), getComputedStyle(document.body).backgroundColor]"
    )
    assert browser.script(seen) == [True, False, "rgb(255, 255, 255)"]


@pytest.mark.parametrize(("wish", "behaviour"), [("reduce", "auto"), ("no-preference", "smooth")])
def test_nothing_moves_for_those_who_do_not_want_it(
    browser: Browser, wish: str, behaviour: str, ordinary: str
) -> None:
    browser.open(ordinary, features={"prefers-reduced-motion": wish})
    assert browser.script("return getComputedStyle(document.documentElement).scrollBehavior") == behaviour
