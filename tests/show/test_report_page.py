"""The page in a real browser."""

import os
import shutil

import pytest
from report_models import HOSTILE, SCRIPT, hostile_model, large_model, mean_model, small_model

from dpforest.show.report import write_report

pytestmark = pytest.mark.site

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Text that is too faint: the ratio of WCAG 2.2 is under 4.5 (3 for large text). Walks all elements with text of their own.
FAINT = """() => {
  const parse = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    if (element.tagName === "text") return parse(getComputedStyle(element.parentElement.querySelector("rect")).fill);
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const faint = [];
  let looked = 0;
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const unseen = ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION", "title"].includes(element.tagName);
    if (!own || unseen || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ink = parse(element.tagName === "text" ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(element))].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
    looked += 1;
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (large ? 3 : 4.5)) faint.push([element.tagName, element.textContent.slice(0, 40), ratio]);
  }
  return { looked, faint };
}"""


@pytest.fixture(scope="module")
def browser():
    index = next(filter(None, map(shutil.which, BROWSERS)), None)
    problem = None if index else f"NO BROWSER: none of {', '.join(BROWSERS)} is installed; the report's page is NOT TESTED"
    api = None
    try:
        from playwright import sync_api as api
    except ImportError:
        problem = "NO PLAYWRIGHT: pip install 'dpforest[test]'; the report's page is NOT TESTED"
    if problem:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(problem)
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=index, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Places of reports by name."""
    folder = tmp_path_factory.mktemp("reports")
    models = {
        "auto": small_model(), "forest": small_model("consul-2020", random_state=3), "mean": mean_model(max_depth=3),
        "hostile": hostile_model(random_state=3),
        "large": large_model(), "seeded": small_model(random_state=1), "delta": small_model(delta=1e-5),
    }  # fmt: skip
    for name, model in models.items():
        write_report(model, folder / f"{name}.html")
    return folder


@pytest.fixture
def opened(browser, reports):
    """Opens a report; at the end there must have been no message, no error and no request but for the page itself."""
    contexts, trouble = [], []

    def open_report(name, width=1280, **settings):
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        address = (reports / f"{name}.html").as_uri()
        page.on("request", lambda request: request.url != address and trouble.append(request.url))
        page.goto(address)
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert trouble == []


@pytest.mark.parametrize("name", ["auto", "forest", "mean", "hostile", "large", "seeded", "delta"])
def test_page_opens_without_errors_and_draws_all_its_parts(opened, name):
    page = opened(name)
    assert page.locator("#icicle-picture rect").count() >= 2
    assert page.locator("#tree [role=treeitem]").count() >= 1
    assert page.locator("#rules tbody tr").count() >= 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("name", ["auto", "forest", "hostile", "large", "seeded"])
def test_nothing_runs_over_the_edge_of_a_phone(opened, name):
    page = opened(name, width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_search_narrows_the_rules_and_says_how_many_are_left(opened):
    page = opened("forest")
    page.locator("#rule-search").focus()
    before = page.locator("#rule-count").inner_text()
    page.keyboard.type("x1 x2")
    count = page.locator("#rule-count").inner_text()
    assert count != before
    rows = page.locator("#rules tbody tr td:first-child").all_inner_texts()
    assert rows
    assert all("x1" in row and "x2" in row for row in rows)
    page.keyboard.type(" nowhere")
    assert page.locator("#rule-count").inner_text().startswith("0 rules match")
    assert page.locator("#rules tbody tr").count() == 0


def test_headers_sort_by_keyboard_and_say_so(opened):
    page = opened("forest")
    head = page.locator("#rules thead th", has_text="Signal")
    head.locator("button").focus()
    index = page.evaluate(
        "[...document.querySelectorAll('#rules thead th')].findIndex(h => h.textContent.startsWith('Signal'))"
    )

    def column():
        texts = page.locator(f"#rules tbody tr td:nth-child({index + 1})").all_inner_texts()
        return [float(text.replace(",", "")) for text in texts]

    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert column() == sorted(column(), reverse=True)
    assert len(set(column())) > 1
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "ascending"
    assert column() == sorted(column())
    assert page.locator("#rules th[aria-sort=ascending], #rules th[aria-sort=descending]").count() == 1


def test_more_rules_come_on_demand_and_inner_nodes_by_a_tick(opened):
    page = opened("forest")
    few = page.locator("#rules tbody tr").count()
    page.locator("#rule-more").press("Enter")
    more = page.locator("#rules tbody tr").count()
    assert more > few
    leaves = page.locator("#rule-count").inner_text()
    page.locator("#rule-leaves").press("Space")
    assert page.locator("#rule-count").inner_text() != leaves


def test_trees_are_browsed_by_keyboard(opened):
    page = opened("forest")
    focused = "document.activeElement.querySelector('.node').textContent"
    level = "document.activeElement.getAttribute('aria-level')"
    open_now = "document.activeElement.getAttribute('aria-expanded')"
    page.locator("#tree [role=treeitem][tabindex='0']").focus()
    assert (page.evaluate(level), page.evaluate(open_now)) == ("1", "true")
    root = page.evaluate(focused)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(level) == "3"
    assert page.evaluate(open_now) == "false"
    shown = page.locator("#tree [role=treeitem]:visible").count()
    page.keyboard.press("Enter")
    assert page.evaluate(open_now) == "true"
    assert page.locator("#tree [role=treeitem]:visible").count() > shown
    page.keyboard.press("ArrowRight")
    assert page.evaluate(level) == "4"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    assert page.evaluate(open_now) == "false"
    page.keyboard.press("Home")
    assert page.evaluate(focused) == root
    page.keyboard.press("ArrowLeft")
    assert page.locator("#tree [role=treeitem]:visible").count() == 1
    assert page.locator("#tree [tabindex='0']").count() == 1


def test_another_tree_can_be_chosen(opened):
    page = opened("forest")
    first = page.locator("#tree").inner_text()
    page.locator("#tree-choice").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#tree-choice").input_value() == "1"
    assert page.locator("#tree").inner_text() != first


def test_ledger_tells_about_its_parts_by_keyboard_and_by_pointing(opened):
    page = opened("auto")
    page.locator("#icicle-picture g[tabindex='0']").focus()
    detail = page.locator("#icicle-detail")
    assert "The whole model" in detail.inner_text()
    page.keyboard.press("ArrowDown")
    assert "number of rows" in detail.inner_text()
    assert "geometric" in detail.inner_text()
    assert "2 % of the loss" in detail.inner_text()
    page.keyboard.press("ArrowRight")
    assert "add up" in detail.inner_text()
    page.locator("#icicle-picture g").first.hover()
    assert "100 % of the loss" in detail.inner_text()


def test_hostile_labels_run_nothing_and_are_seen_as_text(opened):
    page = opened("hostile")
    trees = ""
    for tree in range(page.locator("#tree-choice option").count()):
        page.locator("#tree-choice").select_option(str(tree))
        page.locator("#tree-open").click()
        trees += page.locator("#tree").inner_text()
    while page.locator("#rule-more").is_visible():
        page.locator("#rule-more").click()
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    for text in (page.locator("#inputs").inner_text(), page.locator("#rules").inner_text(), trees):
        assert SCRIPT in text
        assert HOSTILE[6] in text
    for mark in "\u202e\u202c\u2028\0":
        assert mark not in page.locator("body").inner_text()
    page.locator("#inputs details summary").first.click()
    assert page.evaluate("window.broken") is None


def test_injected_scripts_would_be_stopped_by_the_page_itself(browser, reports):
    page = browser.new_page()
    page.goto((reports / "auto.html").as_uri())
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.broken = 3'; document.body.append(s); }"
    )
    assert page.evaluate("window.broken") is None
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["delta", "seeded"])
def test_text_can_be_read_in_light_and_dark(opened, scheme, name):
    found = opened(name, color_scheme=scheme).evaluate(FAINT)
    assert found["looked"] > 100
    assert found["faint"] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_print_is_dark_on_white_without_controls(opened, scheme):
    page = opened("auto", width=794, color_scheme=scheme)
    page.emulate_media(media="print", color_scheme=scheme)
    found = page.evaluate(FAINT)
    assert found["faint"] == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert (
        page.locator("button:visible, input:visible, select:visible, nav:visible").count()
        == page.locator("thead button").count()
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    assert page.pdf().startswith(b"%PDF")


def test_page_is_readable_without_scripts(opened):
    page = opened("auto", java_script_enabled=False)
    text = page.locator("body").inner_text()
    assert "Scripts are off" in text
    for words in ("epsilon = 1", "What the loss was spent on", "Columns and their possible values", "What is not covered"):
        assert words in text
    assert not page.locator("#rules").is_visible()
