"""The page in a real browser."""

import os
import shutil
import sys
from itertools import product
from pathlib import Path

import pytest
from tests.show.budgets import page_budgets
from tests.support.fitted import HOSTILE, SCRIPT, hostile_model, large_model, mean_model, small_model, table

from dpforest import Budget
from dpforest.budget import Loss
from dpforest.evaluation import evaluate_privately
from dpforest.show.report import write_budget_page, write_evaluation, write_report
from dpforest.show.report.attached import FIELDS

pytestmark = pytest.mark.site

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(sys.prefix, "axe", "node_modules", "axe-core", "axe.min.js")
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


def _need(problem):
    """Skip a test that lacks something, and fail where everything has to be there."""
    if problem:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(problem)


def _until(page, expression):
    """Wait until an expression is true. Asked from outside: the page's own policy refuses code that is polled inside."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"still not true: {expression}")


@pytest.fixture(scope="module")
def browser():
    index = next(filter(None, map(shutil.which, BROWSERS)), None)
    problem = None if index else f"NO BROWSER: none of {', '.join(BROWSERS)} is installed; the report's page is NOT TESTED"
    api = None
    try:
        from playwright import sync_api as api
    except ImportError:
        problem = "NO PLAYWRIGHT: pip install 'dpforest[test]'; the report's page is NOT TESTED"
    _need(problem)
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
        "hostile": hostile_model(random_state=3), "large": large_model(), "seeded": small_model(random_state=1),
    }  # fmt: skip
    for name, model in models.items():
        write_report(model, folder / f"{name}.html")
    budget = Budget.open(folder / "b.db", "ward-7", epsilon=3.0)
    budget.reserve("fit li-2020", outcomes=[Loss.pure(0.25)])
    names = [name for name in FIELDS if name != "release_date"]
    said = {name: f"{SCRIPT} {text}"[:5000] for name, text in zip(names, HOSTILE, strict=True)}
    X, y = table(1000, seed=5)
    scored = evaluate_privately(models["auto"], X, y, 1.0, by="x0", compare=models["auto"])
    write_report(models["auto"], folder / "said.html", about=said, budget=budget, evaluation=scored)
    write_evaluation(scored, folder / "scored.html")
    write_budget_page(page_budgets(folder / "page.db"), folder / "budget.html")
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


@pytest.mark.parametrize(
    "name",
    ["hostile", "large", "said", "budget", *(pytest.param(n, marks=pytest.mark.night) for n in ("auto", "forest", "mean"))],
)
def test_a_page_opens_without_errors_draws_all_its_parts_and_fits_a_phone(opened, name):
    page = opened(name)
    if name != "budget":
        assert page.locator("#icicle-picture rect").count() >= 2
        assert page.locator("#tree [role=treeitem]").count() >= 1
        assert page.locator("#rules tbody tr").count() >= 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.set_viewport_size({"width": 400, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_tables_that_are_wider_than_a_phone_say_so_and_scroll_by_keyboard(opened):
    page = opened("said", width=400)
    wide = page.locator(".scroll.wider")
    wide.first.wait_for()
    boxes = "[...document.querySelectorAll('.scroll')].filter(e => e.checkVisibility())"
    marked = f"{boxes}.every(e => e.classList.contains('wider') === e.scrollWidth > e.clientWidth + 1)"
    _until(page, marked)
    n_seen = page.evaluate(f"{boxes}.length")
    page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert page.evaluate(f"{boxes}.length") > n_seen
    _until(page, marked)
    hint = "getComputedStyle(document.querySelector('.scroll.wider'), '::before').content"
    assert "scroll →" in page.evaluate(hint)
    table = page.locator("#ledger .scroll")
    assert table.get_attribute("aria-label") == "What the loss was spent on, scrolls sideways"
    table.focus()
    page.keyboard.press("ArrowRight")
    _until(page, "document.querySelector('#ledger .scroll').scrollLeft > 0")
    page.set_viewport_size({"width": 1400, "height": 900})
    page.locator("#ledger .scroll:not(.wider)").wait_for()
    assert table.get_attribute("tabindex") is None


def test_a_printed_page_has_lines_to_sign_on_one_sheet(opened):
    page = opened("said", width=794)
    page.emulate_media(media="print")
    assert page.locator("#release .lines li").all_inner_texts() == ["Name", "Role", "Date", "Signature"]
    for line in page.locator("#release .lines li").all():
        assert line.evaluate("e => parseFloat(getComputedStyle(e).borderTopWidth)") >= 1
        assert line.bounding_box()["width"] > 200
    assert page.locator(".signature").evaluate("e => getComputedStyle(e).breakInside") == "avoid"
    assert page.evaluate("getComputedStyle(document.querySelector('.scroll'), '::before').content") == "none"


def test_a_page_of_budgets_draws_steps_up_to_what_is_spent_and_prints_lines_to_sign(opened):
    page = opened("budget")
    box = "document.querySelector('.curve svg').getBoundingClientRect()"
    for line, share in (("settled", 0.5), ("spent", 0.75)):
        shape = f"document.querySelector('.curve path.{line}').getBoundingClientRect()"
        assert page.evaluate(f"{shape}.height / {box}.height") == pytest.approx(share, abs=0.03)
        assert page.evaluate(f"{shape}.width / {box}.width") == pytest.approx(1, abs=0.03)
        colour = f"getComputedStyle(document.querySelector('.curve path.{line}')).stroke"
        light = page.evaluate(colour)
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(colour) != light
        page.emulate_media(color_scheme="light")
    page.emulate_media(media="print")
    assert page.locator(".lines li").all_inner_texts() == ["Name", "Role", "Date", "Signature"]
    assert page.locator(".signature").evaluate("e => getComputedStyle(e).breakInside") == "avoid"
    assert page.locator(".curve").first.evaluate("e => getComputedStyle(e).breakInside") == "avoid"


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
    titles = page.locator("#rules thead th").all_inner_texts()
    index = next(place for place, title in enumerate(titles) if title.startswith("Signal"))

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


def test_more_rules_come_on_demand_inner_nodes_by_a_tick_and_another_tree_by_choice(opened):
    page = opened("forest")
    rows, count = page.locator("#rules tbody tr"), page.locator("#rule-count")
    few, leaves, first = rows.count(), count.inner_text(), page.locator("#tree").inner_text()
    page.locator("#rule-more").press("Enter")
    assert rows.count() > few
    page.locator("#rule-leaves").press("Space")
    assert count.inner_text() != leaves
    page.locator("#tree-choice").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#tree-choice").input_value() == "1"
    assert page.locator("#tree").inner_text() != first


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


def test_a_column_is_chosen_and_read_by_keyboard(opened):
    page = opened("forest")
    choice, stage, detail = page.locator("#effect-choice"), page.locator("#effect-stage"), page.locator("#effect-detail")
    assert choice.locator("option").count() == page.locator("#effect-pictures figure").count() == 3
    first = stage.locator("figcaption strong").inner_text()
    choice.focus()
    page.keyboard.press("ArrowDown")
    assert stage.locator("figcaption strong").inner_text() != first
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    rows = stage.locator("tbody tr")
    said = rows.nth(0).locator("td").text_content()
    assert detail.inner_text() == f"{rows.nth(0).locator('th bdi').text_content()}: {said}"
    page.keyboard.press("End")
    assert detail.inner_text().startswith("missing: ")
    assert stage.locator(".hit.chosen").count() == 1
    stage.locator(".hit").nth(1).hover()
    assert rows.nth(1).locator("td").text_content() in detail.inner_text()


def test_pictures_are_seen_without_scripts_and_in_print(opened):
    page = opened("forest", java_script_enabled=False)
    assert page.locator("#effect-pictures svg:visible").count() == 3
    assert not page.locator("#effect-choice").is_visible()
    page.locator("#effect-pictures details summary").first.click()
    assert page.locator("#effect-pictures table:visible").count() == 1
    page = opened("forest")
    page.emulate_media(media="print")
    assert page.locator("#effect-pictures svg:visible").count() == 3
    assert not page.locator("#effect-stage").is_visible()


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
    page = opened("said")
    assert SCRIPT in page.locator("#release").inner_text()
    assert page.evaluate("window.broken") is None
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
    injected = "const s = document.createElement('script'); s.textContent = 'window.broken = 3'; document.body.append(s);"
    page.evaluate(f"() => {{ {injected} }}")
    assert page.evaluate("window.broken") is None
    page.close()


@pytest.mark.parametrize("name", ["said", "scored"])
def test_curves_are_drawn_and_fit_a_narrow_screen(opened, name):
    page = opened(name, width=400)
    pictures = page.locator('svg[viewBox="0 0 340 300"]')
    assert pictures.count() == 2
    assert page.locator('svg[viewBox="0 0 340 300"] path.line.s0').count() == 1
    assert pictures.first.bounding_box()["width"] <= 400
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["seeded", "said", "scored"])
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
    controls = page.locator("button:visible, input:visible, select:visible, nav:visible")
    assert controls.count() == page.locator("thead button").count()
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    assert page.pdf().startswith(b"%PDF")


def test_page_is_readable_without_scripts(opened):
    page = opened("auto", java_script_enabled=False)
    text = page.locator("body").inner_text()
    assert "Scripts are off" in text
    for words in ("epsilon = 1", "What the loss was spent on", "Columns and their possible values", "What is not covered"):
        assert words in text
    assert not page.locator("#rules").is_visible()


@pytest.fixture(scope="module")
def axe():
    """The script of axe-core, which finds what keeps people from using a page."""
    _need(None if AXE.exists() else f"NO AXE: 'make {sys.prefix}/axe.ready' installs axe-core; access is NOT TESTED")
    return AXE.read_text("utf-8")


def grave(page, axe):
    """What axe-core finds on a page that is serious or critical: the rule, and the elements."""
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    assert len(found["passes"]) > 20
    return [
        (rule["id"], [node["html"] for node in rule["nodes"]])
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        *(("auto", "light"), ("hostile", "dark"), ("budget", "dark"), ("scored", "light")),
        *(pytest.param(*case, marks=pytest.mark.night) for case in product(("forest", "mean", "seeded"), ("light", "dark"))),
    ],
)
def test_nobody_is_kept_from_using_the_page(opened, axe, name, scheme):
    assert grave(opened(name, color_scheme=scheme), axe) == []


def test_what_keeps_people_from_using_a_page_is_found(opened, axe):
    page = opened("auto")
    page.evaluate("document.querySelector('select').removeAttribute('id'); document.documentElement.lang = ''")
    assert {rule for rule, _ in grave(page, axe)} >= {"html-has-lang", "select-name"}
