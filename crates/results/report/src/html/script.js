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

// One coflow up close, chosen from the list or by its bar in a timeline.
const data = document.getElementById("coflows");
if (data) {
  const { policies, coflows } = JSON.parse(data.textContent);
  const chosen = document.getElementById("chosen");
  const cell = (row, name, text, heading) => {
    const cell = document.createElement(name);
    cell.textContent = text;
    if (name === "th") cell.scope = heading ? "row" : "col";
    if (heading) cell.dataset.label = heading;
    row.append(cell);
    return cell;
  };
  // A table of headings and of rows, each with its classes; the first cell of a row is its name.
  const fill = (id, headings, rows) => {
    const table = document.getElementById(id);
    table.replaceChildren();
    const head = table.createTHead().insertRow();
    headings.forEach(({ text, run }, column) => {
      const heading = cell(head, "th", text);
      if (column === 0) heading.classList.add("name");
      if (run !== undefined) heading.classList.add("run" + run);
    });
    const body = table.createTBody();
    for (const { cells, run } of rows) {
      const row = body.insertRow();
      if (run !== undefined) row.classList.add("run" + run);
      cells.forEach((text, column) => {
        const { text: heading, run } = headings[column];
        const made = cell(row, column === 0 ? "th" : "td", text, heading);
        if (column === 0) made.classList.add("name");
        if (run !== undefined) made.classList.add("run" + run);
      });
    }
  };
  const show = () => {
    const { facts, shown, runs, flows } = coflows[Number(chosen.value)];
    document.getElementById("chosen-facts").textContent = facts;
    document.getElementById("chosen-flows-shown").textContent = shown;
    const times = ["policy", "CCT", "slowdown", "held at", "link time: own", "others", "unused", "waited for"];
    fill("chosen-waits", times.map((text) => ({ text })),
      runs.map((row, index) => ({ cells: [policies[index].label, ...row], run: policies[index].run })));
    fill("chosen-flows",
      [{ text: "ports" }, { text: "size" }, ...policies.map(({ label, run }) => ({ text: label, run }))],
      flows.map(([ports, size, sent]) => ({ cells: [ports, size, ...sent] })));
  };
  chosen.addEventListener("change", show);
  document.addEventListener("click", (event) => {
    const bar = event.target.closest("[data-coflow]");
    const place = bar ? coflows.findIndex(({ coflow }) => String(coflow) === bar.dataset.coflow) : -1;
    if (place < 0) return;
    chosen.value = String(place);
    show();
    document.getElementById("coflow").scrollIntoView({ block: "nearest" });
  });
  document.getElementById("coflow").hidden = false;
  show();
}
