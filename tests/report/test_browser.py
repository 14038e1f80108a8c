"""The page in a real Chromium: both widths and themes, no request, no complaint, rules of accessibility, keyboard."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from selenium.webdriver.common.keys import Keys

from reprobuild.report.html.page import render_html
from tests.browser import Browser
from tests.report.commands import read_commands
from tests.report.samples import HOSTILE, IMAGE, LONG, full_build, full_page, large_page, mode
from tests.verify.samples import make_lock, make_smoke, make_verdict

PHONE, DESKTOP = 390, 1280
THEMES = ("light", "dark")
STILL = {"prefers-reduced-motion": "reduce"}
# Without an icon the browser would ask for one, and perhaps only when the next page is open.
PLANTED = """<!doctype html><html><title>x</title><link rel="icon" href="data:,"><img src="http://planted.example/x.png">
<p style="width: 9999px; color: #eee; background: #fff">pale</p><script>console.error("planted")</script>"""
ACTIVE = " ".join((HOSTILE[0], HOSTILE[1], HOSTILE[4], "\u202e"))


@pytest.fixture(scope="module")
def ordinary() -> str:
    """The page of a check in which all is well, with some of its probes."""
    smoke = make_smoke()
    verdict = make_verdict(smoke=(make_smoke(probes=smoke.probes[:9]),))
    return render_html(make_lock(), IMAGE, verdict, build=full_build("torch 2.13"))


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
        browser.open(large_page(60, 40, 1), features=STILL)
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


def test_paper_has_its_own_colours_and_no_navigation(browser: Browser, ordinary: str) -> None:
    browser.open(ordinary, media="print", features=scheme("dark"))
    seen = (
        "return [document.querySelector('details:not([open]) tbody tr').checkVisibility(),"
        " document.querySelector('.contents').checkVisibility(), getComputedStyle(document.body).backgroundColor]"
    )
    assert browser.script(seen) == [False, False, "rgb(255, 255, 255)"]


@pytest.mark.parametrize(("wish", "behaviour"), [("reduce", "auto"), ("no-preference", "smooth")])
def test_nothing_moves_for_those_who_do_not_want_it(
    browser: Browser, wish: str, behaviour: str, ordinary: str
) -> None:
    browser.open(ordinary, features={"prefers-reduced-motion": wish})
    assert browser.script("return getComputedStyle(document.documentElement).scrollBehavior") == behaviour


def test_the_box_has_tabs_without_script(browser: Browser, ordinary: str) -> None:
    browser.cdp("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(ordinary)
        panels = browser.driver.find_elements("css selector", ".panel")
        assert [panel.is_displayed() for panel in panels] == [True, False, False, False]
        for number, name in enumerate(("reprobuild", "docker", "podman", "apptainer")):
            browser.driver.find_element("css selector", f"label[for=tab-{name}]").click()
            assert [panel.is_displayed() for panel in panels] == [n == number for n in range(4)]
        copies = browser.driver.find_elements("css selector", "button.copy")
        assert len(copies) == 5
        assert not any(button.is_displayed() for button in copies)
    finally:
        browser.cdp("Emulation.setScriptExecutionDisabled", value=False)


def test_a_button_copies_the_commands(browser: Browser, ordinary: str) -> None:
    browser.open(ordinary)
    browser.driver.find_element("css selector", "label[for=tab-docker]").click()
    panel = browser.driver.find_elements("css selector", ".panel")[1]
    # The page's address is no secure one, so that the browser gives no clipboard: the commands are selected.
    panel.find_element("css selector", "button.copy").click()
    assert browser.script("return getSelection().toString()").startswith("tar -C image -cf - . | docker load")
    browser.script(
        "window.copied = []; Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => {"
        " copied.push(text); }}});"
    )
    panel.find_element("css selector", "button.copy").click()
    (copied,) = browser.script("return copied")
    assert copied == read_commands(ordinary, "Docker") + "\n"
    assert browser.complaints() == []


def test_the_filter_narrows_the_captured_lines(browser: Browser) -> None:
    browser.open(large_page(60, 40, 10), features=STILL)
    browser.driver.find_element("css selector", "#lines > summary").click()
    browser.driver.find_element("id", "find-line").send_keys("excluded")
    shown = "return [...document.querySelectorAll('table.lines tbody tr')].filter((r) => r.checkVisibility()).length"
    assert browser.script(shown) == 10
    assert browser.driver.find_element("css selector", "output[for=find-line]").text == "10 of 110"
    assert browser.script("return document.querySelectorAll('table.packages tbody tr[hidden]').length") == 0


def test_a_mark_of_drift_leads_to_its_row(browser: Browser) -> None:
    smoke = make_smoke()
    drifting = msgspec.structs.replace(
        smoke.probes[3], modes={**smoke.probes[3].modes, "default": mode("DRIFT")}
    )
    page = render_html(
        make_lock(), IMAGE, make_verdict(smoke=(make_smoke(probes=(drifting, smoke.probes[0])),))
    )
    browser.open(page, features=STILL)
    (link,) = browser.driver.find_elements("css selector", "figure svg a")
    link.click()
    row = browser.driver.find_element("css selector", ":target")
    assert row.is_displayed()
    assert row.text.startswith(drifting.name)


def test_it_prints_on_four_pages(browser: Browser) -> None:
    """A large environment: what passed stays folded, and an open fold is printed."""
    browser.open(large_page())
    assert browser.pages() <= 4
    browser.open_all()
    assert browser.pages() > 20
