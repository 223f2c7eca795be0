"use strict";
(function () {
  // A table that is wider than the page scrolls by itself. It then says so, and can be reached and moved by keyboard.
  function mark(box) {
    const wide = box.scrollWidth > box.clientWidth + 1;
    if (wide === box.classList.contains("wider")) return;
    box.classList.toggle("wider", wide);
    const caption = box.querySelector("caption");
    const label = (caption ? caption.textContent : "Table") + ", scrolls sideways";
    for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", label]]) {
      if (wide) box.setAttribute(name, value);
      else box.removeAttribute(name);
    }
  }

  const seen = new ResizeObserver((changes) => changes.forEach((change) => mark(change.target.closest(".scroll"))));
  for (const box of document.querySelectorAll(".scroll")) {
    seen.observe(box);
    seen.observe(box.querySelector("table"));
  }
})();
