// Enlarges a frame that is clicked, and marks frames by name. Each graph is by itself.
"use strict";
for (const graph of document.querySelectorAll(".graph")) {
  const boxes = [...graph.children];
  const place = (from, width) => {
    for (const box of boxes) {
      const x = Number(box.dataset.x), w = Number(box.dataset.w);
      // What encloses the frame stays, as wide as the graph.
      const around = x <= from && x + w >= from + width;
      const shown = around || (x >= from && x + w <= from + width);
      box.hidden = !shown;
      box.style.left = (around ? 0 : (100 * (x - from)) / width) + "%";
      box.style.width = (around ? 100 : (100 * w) / width) + "%";
      box.classList.toggle("around", around && (x < from || x + w > from + width));
    }
  };
  graph.addEventListener("click", (event) => {
    const box = event.target;
    if (box !== graph) place(Number(box.dataset.x), Number(box.dataset.w));
  });
}
const find = document.getElementById("find"), found = document.getElementById("found");
find.addEventListener("input", () => {
  const text = find.value.toLowerCase();
  let count = 0;
  for (const box of document.querySelectorAll(".graph > div")) {
    const is = text !== "" && box.textContent.toLowerCase().includes(text);
    box.classList.toggle("found", is);
    count += is ? 1 : 0;
  }
  found.textContent = text === "" ? "" : count + " frames";
});
