/* Tables that sort by a click on a heading: first up, then down; cells without a value stay last. */

function sortTable(table, column, kind, direction) {
  const body = table.tBodies[0];
  const valueOf = row => {
    const raw = row.cells[column].dataset.value;
    return raw === "" || raw === undefined ? null : kind === "number" || !isNaN(raw) ? Number(raw) : raw;
  };
  const rows = Array.from(body.rows, row => [valueOf(row), row]);
  rows.sort(([left], [right]) => {
    if (left === null || right === null) return (left === null) - (right === null);
    return direction * (typeof left === "number" ? left - right : left.localeCompare(right));
  });
  body.append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = Array.from(table.tHead.rows[0].cells);
  headings.forEach((heading, column) => {
    const button = heading.querySelector("button.sort");
    button.addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      sortTable(table, column, button.dataset.kind, up ? 1 : -1);
    });
  });
}
