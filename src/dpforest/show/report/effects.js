(function () {
  // The pictures of effects are on the page already: this shows the one that is chosen, and reads its values out.
  const stage = document.getElementById("effect-stage");
  if (!stage) return;
  const choice = document.getElementById("effect-choice");
  const detail = document.getElementById("effect-detail");
  const pictures = [...document.querySelectorAll("#effect-pictures figure.effect")];
  const HINT = "Point at the picture, or move along it with the arrow keys.";

  pictures.forEach((picture, number) => {
    const option = document.createElement("option");
    option.value = String(number);
    option.textContent = picture.querySelector("figcaption strong").textContent;
    choice.append(option);
  });
  function show(number) {
    const picture = pictures[number].cloneNode(true);
    picture.removeAttribute("id");
    stage.replaceChildren(picture);
    const drawing = picture.querySelector("svg");
    const hits = [...picture.querySelectorAll(".hit")];
    const rows = [...picture.querySelectorAll("tbody tr")];
    let at = -1;

    function read(index) {
      at = Math.max(0, Math.min(hits.length - 1, index));
      hits.forEach((hit, place) => hit.classList.toggle("chosen", place === at));
      const row = rows[at];
      detail.textContent = row ? row.cells[0].querySelector("bdi").textContent + ": " + row.cells[1].textContent : "This value is in the JSON file.";
    }

    drawing.setAttribute("tabindex", "0");
    drawing.setAttribute("aria-label", "Effect of the column; the arrow keys read its values");
    drawing.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Home") read(0);
      else if (event.key === "End") read(hits.length - 1);
      else if (step) read(at + step);
      else return;
      event.preventDefault();
    });
    hits.forEach((hit, index) => hit.addEventListener("pointermove", () => read(index)));
    detail.textContent = HINT;
  }

  choice.addEventListener("change", () => show(Number(choice.value)));
  if (pictures.length) show(0);
})();
