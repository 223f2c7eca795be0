"use strict";
(function () {
  // Texts of the report are chosen by others: they reach the page as text nodes and attributes only, never as markup.
  const SVG = "http://www.w3.org/2000/svg";
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const forest = data.forest;
  document.documentElement.classList.add("scripted");

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function drawn(name, attributes, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function isolated(text) {
    return element("bdi", {}, text);
  }

  function figure(value, digits) {
    if (value === null) return "–";
    return value.toLocaleString("en", { maximumSignificantDigits: digits || 4 }).replace("-", "−");
  }

  function percent(share) {
    if (share > 0 && share < 0.001) return "under 0.1 %";
    return (100 * share).toLocaleString("en", { maximumFractionDigits: 1 }) + " %";
  }

  function swatch(kind, text) {
    return element("span", {}, drawn("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" },
      drawn("rect", { class: kind, width: 10, height: 10 })), isolated(text));
  }

  /* ---- The ledger: blocks from the whole at the top to single charges at the bottom. ---- */

  const WAYS = {
    sequential: "Its parts use the same records, so their losses add up.",
    parallel: (data.declared ? "As declared, its" : "Its") + " parts use different records, so only the largest loss counts.",
    bootstrap: "It works on a random sample in which a record can come several times: a sum s inside costs exp(s) − 1.",
    book: "Books are kept in different units; as epsilon they add up.",
  };

  function purpose(block) {
    if (block.kind === "leak") return "leak";
    if (block.kind !== "charge") return "scope";
    return { splits: "questions", leaves: "leaves", counts: "counts" }[block.purpose] || "other";
  }

  const PAINT = { questions: "f0", leaves: "f2", counts: "f3", other: "f4", scope: "fscope", leak: "fleak" };
  const PAINT_WORDS = {
    scope: "groups of charges", questions: "which questions nodes ask", leaves: "what leaves hold",
    counts: "counts of inner nodes", other: "other charges", leak: "leaks",
  };

  function title(block) {
    const named = block.last ? block.label + " … " + block.last : block.label;
    const copies = block.copies > 1 ? ", " + block.copies + " times" : "";
    return named + copies;
  }

  function describe(block) {
    const each = block.count > 1 ? block.count + " parts alike, each " : "";
    const part = data.bounded ? "; " + percent(block.share) + " of the loss. " : ". ";
    let words = each + block.amount + part;
    if (block.kind === "leak") return "An exact value was opened without protection: " + block.reason;
    if (block.kind === "charge") return "Mechanism: " + block.mechanism + ". " + words;
    if (block.copies > 1) words += "Done " + block.copies + " times on the same records; the amount is for all of them. ";
    return words + (WAYS[block.kind] || "");
  }

  const HEIGHT = 36;

  function place(block, depth, left, above, boxes) {
    const box = { block, depth, left, above, below: [] };
    boxes.push(box);
    if (above) above.below.push(box);
    let start = left;
    for (const child of block.children) {
      place(child, depth + 1, start, box, boxes);
      start += child.share;
    }
    return box;
  }

  function drawLedger() {
    const holder = document.getElementById("icicle-picture");
    const width = Math.max(280, holder.clientWidth);
    const boxes = [];
    place(data.ledger, 0, 0, null, boxes);
    const depth = Math.max(...boxes.map((box) => box.depth)) + 1;
    const picture = drawn("svg", {
      viewBox: "0 0 " + width + " " + depth * HEIGHT, role: "tree", "aria-label": "The ledger; arrow keys move between its parts",
    });
    for (const box of boxes) picture.append(drawBox(box, width));
    const hadFocus = holder.contains(document.activeElement);
    holder.replaceChildren(picture);
    boxes[0].shape.setAttribute("tabindex", "0");
    if (hadFocus) boxes[0].shape.focus();
  }

  // The first words of a text for which there is room. No word is cut: who talks to the machine says what is to be seen.
  function fitting(text, room) {
    return text.length <= room ? text : text.slice(0, Math.max(room + 1, 0)).replace(/\s*\S*$/u, "");
  }

  function drawBox(box, width) {
    const kind = purpose(box.block);
    const wide = box.block.share * width;
    const group = drawn("g", {
      role: "treeitem", tabindex: "-1", "aria-level": box.depth + 1, "aria-label": title(box.block) + ". " + describe(box.block),
    });
    group.append(drawn("rect", { class: PAINT[kind], x: box.left * width, y: box.depth * HEIGHT, width: wide, height: HEIGHT }));
    const words = fitting(title(box.block), Math.floor((wide - 12) / 7));
    if (words) {
      group.append(drawn("text", {
        class: kind === "scope" ? "on-scope" : "on-charge", x: box.left * width + 7, y: box.depth * HEIGHT + HEIGHT / 2 + 4.5,
      }, words));
    }
    box.shape = group;
    group.addEventListener("focus", () => tell(box.block));
    group.addEventListener("mouseenter", () => tell(box.block));
    group.addEventListener("keydown", (event) => moveBox(event, box));
    return group;
  }

  function tell(block) {
    const detail = document.getElementById("icicle-detail");
    detail.replaceChildren(element("strong", {}, isolated(title(block))), describe(block));
  }

  function moveBox(event, box) {
    const beside = box.above ? box.above.below : [box];
    const own = beside.indexOf(box);
    const next = {
      ArrowLeft: beside[own - 1], ArrowRight: beside[own + 1], ArrowUp: box.above, ArrowDown: box.below[0],
    }[event.key];
    if (!(event.key.startsWith("Arrow"))) return;
    event.preventDefault();
    if (!next) return;
    box.shape.setAttribute("tabindex", "-1");
    next.shape.setAttribute("tabindex", "0");
    next.shape.focus();
  }

  function ledgerLegend() {
    const met = new Set();
    (function look(block) { met.add(purpose(block)); block.children.forEach(look); })(data.ledger);
    const legend = document.getElementById("icicle-legend");
    for (const kind of Object.keys(PAINT_WORDS)) if (met.has(kind)) legend.append(swatch(PAINT[kind], PAINT_WORDS[kind]));
  }

  /* ---- Nodes and rules: rows of numbers, see Drawing._row. ---- */

  const ROW = ["size", "sizeWords", "ratio", "lead", "leadWords", "label", "value", "valueWords", "shares"];

  function named(row, names) {
    return Object.fromEntries([...names, ...ROW].map((name, place) => [name, row[place]]));
  }

  function text(number) {
    return forest.texts[number];
  }

  function weighted(tree) {
    return forest.link === "softmax" && tree > 0 ? " by weight" : "";
  }

  function sizeWords(node, tree) {
    if (forest.release === "labels") return node.sizeWords + (node.size === 1 ? " leaf" : " leaves");
    return node.sizeWords + weighted(tree);
  }

  function saidWords(node, tree) {
    if (!forest.bounded) return text(node.label) + " (" + node.valueWords + ")";
    return (forest.link === "sum" && tree > 0 ? "" : "mean ") + node.valueWords;
  }

  /* ---- Trees ---- */

  function shareBar(node, tree) {
    const corrects = forest.link === "sum" && tree > 0;
    const words = forest.bounded ? (corrects ? "a correction" : "mean") : node.shares
      .map((share, place) => text(forest.coloured[place]) + " " + percent(share)).join(", ");
    const bar = drawn("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": words });
    bar.append(drawn("title", {}, words), drawn("rect", { class: forest.bounded ? "track" : "f5", width: 100, height: 10 }));
    if (forest.bounded) {
      if (!corrects) bar.append(drawn("rect", { class: "mark", x: Math.min(98.5, 100 * node.shares[0]), width: 1.5, height: 10 }));
      return bar;
    }
    let start = 0;
    node.shares.forEach((share, place) => {
      bar.append(drawn("rect", { class: "f" + place, x: start, width: 100 * share, height: 10 }));
      start += 100 * share;
    });
    return bar;
  }

  function drawTree(tree) {
    const nodes = forest.trees[tree].map((row) => named(row, ["parent", "left", "condition"]));
    nodes.forEach((node) => { node.children = []; });
    nodes.forEach((node) => { if (node.parent >= 0) nodes[node.parent].children.push(node); });
    const list = element("ul", { role: "tree", "aria-labelledby": "trees-title" }, drawNode(nodes[0], tree, 1));
    document.getElementById("tree").replaceChildren(list);
    const root = list.firstElementChild;
    root.setAttribute("tabindex", "0");
    for (const item of [root, ...root.querySelectorAll('[aria-level="2"]')]) setOpen(item, true);
  }

  function drawNode(node, tree, level) {
    const item = element("li", { role: "treeitem", tabindex: "-1", "aria-level": level });
    const middle = element("span", {}, isolated(text(node.condition)), " ");
    middle.append(element("span", { class: "says" }, isolated("→ " + saidWords(node, tree))));
    const size = element("span", { class: "size" }, sizeWords(node, tree));
    if (node.lead !== null) size.append(element("br"), "lead " + node.leadWords);
    item.append(element("div", { class: "node" }, element("span", { class: "twist", "aria-hidden": "true" }), middle, shareBar(node, tree), size));
    if (node.children.length || node.left) {
      item.setAttribute("aria-expanded", "false");
      const below = element("ul", { role: "group", hidden: "" }, ...node.children.map((child) => drawNode(child, tree, level + 1)));
      if (node.left) {
        below.append(element("li", { class: "left small", role: "none" }, figure(node.left, 9) + (node.left === 1 ? " branch is" : " branches are") + " not drawn here"));
      }
      item.append(below);
      setOpen(item, false);
    }
    return item;
  }

  function setOpen(item, open) {
    if (!item.hasAttribute("aria-expanded")) return;
    item.setAttribute("aria-expanded", open);
    item.querySelector(":scope > ul").hidden = !open;
    item.querySelector(":scope > .node > .twist").textContent = open ? "▾" : "▸";
  }

  function shownItems() {
    return [...document.querySelectorAll('#tree [role="treeitem"]')].filter((item) => item.offsetParent !== null);
  }

  function focusItem(item) {
    if (!item) return;
    for (const other of document.querySelectorAll('#tree [tabindex="0"]')) other.setAttribute("tabindex", "-1");
    item.setAttribute("tabindex", "0");
    item.focus();
  }

  function moveInTree(event) {
    const item = event.target.closest('[role="treeitem"]');
    if (!item || event.altKey || event.ctrlKey || event.metaKey) return;
    const shown = shownItems();
    const own = shown.indexOf(item);
    const expanded = item.getAttribute("aria-expanded");
    const parent = item.parentElement.closest('[role="treeitem"]');
    const acts = {
      ArrowDown: () => focusItem(shown[own + 1]),
      ArrowUp: () => focusItem(shown[own - 1]),
      Home: () => focusItem(shown[0]),
      End: () => focusItem(shown[shown.length - 1]),
      ArrowRight: () => (expanded === "false" ? setOpen(item, true) : focusItem(item.querySelector('[role="treeitem"]'))),
      ArrowLeft: () => (expanded === "true" ? setOpen(item, false) : focusItem(parent)),
      Enter: () => setOpen(item, expanded === "false"),
      " ": () => setOpen(item, expanded === "false"),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  function setUpTrees() {
    const choice = document.getElementById("tree-choice");
    forest.trees.forEach((_, tree) => choice.append(element("option", { value: tree }, "tree " + (tree + 1) + " of " + forest.n_trees)));
    choice.addEventListener("change", () => drawTree(Number(choice.value)));
    const holder = document.getElementById("tree");
    holder.addEventListener("keydown", moveInTree);
    holder.addEventListener("click", (event) => {
      const node = event.target.closest(".node");
      if (!node) return;
      focusItem(node.parentElement);
      setOpen(node.parentElement, node.parentElement.getAttribute("aria-expanded") === "false");
    });
    const all = (open) => document.querySelectorAll("#tree [aria-expanded]").forEach((item) => setOpen(item, open));
    document.getElementById("tree-open").addEventListener("click", () => all(true));
    document.getElementById("tree-close").addEventListener("click", () => all(false));
    const legend = document.getElementById("tree-legend");
    forest.coloured.forEach((label, place) => legend.append(swatch("f" + place, text(label))));
    if (forest.others > 0) legend.append(swatch("f5", figure(forest.others, 9) + " other classes"));
    drawTree(0);
  }

  /* ---- Rules ---- */

  const STEP = 25;
  const valueName = forest.bounded ? "Mean" : forest.link === "softmax" ? "Adds to log-odds" : "Share";
  const COLUMNS = [
    { name: "If", key: (rule) => rule.words, cell: ruleCell },
    { name: "Then", key: (rule) => (forest.bounded ? "" : text(rule.label)), cell: (rule) => isolated(text(rule.label)), skip: forest.bounded },
    { name: valueName, number: true, key: (rule) => rule.value, cell: (rule) => rule.valueWords },
    { name: forest.release === "labels" ? "Leaves" : "Records", number: true, key: (rule) => rule.size, cell: (rule) => rule.sizeWords },
    { name: "Lead", number: true, key: (rule) => rule.lead, cell: (rule) => rule.leadWords, skip: forest.release !== "lead" },
    { name: "Signal ÷ noise", number: true, key: (rule) => rule.ratio, cell: (rule) => figure(rule.ratio, 3), skip: !["counts", "lead"].includes(forest.release) },
    { name: "Tree", number: true, key: (rule) => rule.tree, cell: (rule) => String(rule.tree + 1) },
  ].filter((column) => !column.skip);

  const rules = forest.rules.map((row) => {
    const rule = named(row, ["tree", "node", "leaf", "conditions"]);
    rule.words = rule.conditions.map(text).join(" and ") || "all records";
    rule.found = (rule.words + " " + (rule.label === null ? "" : text(rule.label))).toLowerCase();
    return rule;
  });
  const state = { sorted: COLUMNS.findIndex((column) => column.number && column.name !== valueName), down: true, shown: STEP };

  function ruleCell(rule) {
    const cell = document.createDocumentFragment();
    if (!rule.conditions.length) cell.append("all records");
    rule.conditions.forEach((condition, place) => {
      if (place) cell.append(element("span", { class: "and" }, " and "));
      cell.append(isolated(text(condition)));
    });
    return cell;
  }

  function matching() {
    const wanted = document.getElementById("rule-search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const leaves = document.getElementById("rule-leaves").checked;
    const found = rules.filter((rule) => (rule.leaf || !leaves) && wanted.every((word) => rule.found.includes(word)));
    const key = COLUMNS[state.sorted].key;
    const sign = state.down ? -1 : 1;
    return found.sort((a, b) => {
      const [first, second] = [key(a), key(b)];
      return sign * (typeof first === "string" ? first.localeCompare(second) : first - second);
    });
  }

  function drawRules() {
    const found = matching();
    const body = document.querySelector("#rules tbody");
    body.replaceChildren(...found.slice(0, state.shown).map((rule) => element("tr", {}, ...COLUMNS.map((column) =>
      element("td", column.number ? { class: "number" } : {}, column.cell(rule))))));
    const shown = Math.min(state.shown, found.length);
    document.getElementById("rule-count").textContent = found.length + (found.length === 1 ? " rule matches" : " rules match") + "; " + shown + " shown";
    document.getElementById("rule-more").hidden = shown >= found.length;
    document.querySelectorAll("#rules thead th").forEach((head, place) => {
      head.setAttribute("aria-sort", place !== state.sorted ? "none" : state.down ? "descending" : "ascending");
    });
  }

  function setUpRules() {
    const heads = COLUMNS.map((column, place) => {
      const button = element("button", { type: "button" }, column.name);
      button.addEventListener("click", () => {
        state.down = state.sorted === place ? !state.down : Boolean(column.number);
        state.sorted = place;
        drawRules();
      });
      return element("th", { scope: "col", ...(column.number ? { class: "number" } : {}) }, button);
    });
    document.querySelector("#rules thead").append(element("tr", {}, ...heads));
    document.getElementById("rule-search").addEventListener("input", () => { state.shown = STEP; drawRules(); });
    document.getElementById("rule-leaves").addEventListener("change", drawRules);
    document.getElementById("rule-more").addEventListener("click", () => { state.shown += 4 * STEP; drawRules(); });
    drawRules();
  }

  ledgerLegend();
  drawLedger();
  let drawnWidth = document.getElementById("icicle-picture").clientWidth;
  window.addEventListener("resize", () => {
    const width = document.getElementById("icicle-picture").clientWidth;
    if (width !== drawnWidth) { drawnWidth = width; drawLedger(); }
  });
  setUpTrees();
  setUpRules();
})();
