"use strict";
// Nothing here is needed to read the report: it sorts, highlights, and changes what is shown.

// Sort a table by the column whose heading was clicked; a second click turns the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  headings.forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => {
      const descending = heading.getAttribute("aria-sort") === "ascending";
      const body = table.tBodies[0];
      const value = (row) => row.cells[column].dataset.value;
      const compare = (a, b) => {
        const [x, y] = [value(a), value(b)];
        return column === 0 ? x.localeCompare(y) : Number(x) - Number(y);
      };
      const rows = [...body.rows].sort((a, b) => (descending ? compare(b, a) : compare(a, b)));
      body.append(...rows);
      headings.forEach((other) => other.setAttribute("aria-sort", "none"));
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    });
  });
}

// Pointing at a policy anywhere, or moving to it by keyboard, fades the others everywhere.
let hot = null;
const focus = (run) => {
  if (run === hot) return;
  hot = run;
  for (const mark of document.querySelectorAll("[data-run]")) {
    mark.classList.toggle("hot", mark.dataset.run === run);
  }
  document.body.classList.toggle("focus", run !== null);
};
const pointed = (event) => {
  const mark = event.target.closest("[data-run]");
  focus(mark ? mark.dataset.run : null);
};
document.addEventListener("pointerover", pointed);
document.addEventListener("focusin", pointed);
document.addEventListener("focusout", () => focus(null));
document.documentElement.addEventListener("pointerleave", () => focus(null));

// All boxes of the legend at once.
for (const button of document.querySelectorAll("button[data-show]")) {
  button.addEventListener("click", () => {
    for (const box of document.querySelectorAll(".choice input")) {
      box.checked = button.dataset.show === "all" || box.hasAttribute("data-few");
    }
  });
}

// Which coflows the timelines show.
for (const button of document.querySelectorAll("button[data-order]")) {
  button.addEventListener("click", () => {
    document.getElementById("timelines").dataset.order = button.dataset.order;
    for (const other of document.querySelectorAll("button[data-order]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
  });
}
