/* What the pages gain by script: tables that sort, a language switch that keeps the reader's section, a name for
   the search dialog. Without it all content is there. */
(() => {
  const STATES = ["none", "ascending", "descending"];
  const LOCALE = document.documentElement.lang;

  /* The cell of `row` under each column: a cell that spans rows stands in the rows below it, too. */
  function grid(rows) {
    const lines = rows.map(() => []);
    rows.forEach((row, y) => {
      let x = 0;
      for (const cell of row.cells) {
        while (lines[y][x]) x += 1;
        for (let dy = 0; dy < cell.rowSpan && lines[y + dy]; dy += 1) {
          for (let dx = 0; dx < cell.colSpan; dx += 1) lines[y + dy][x + dx] = cell;
        }
        x += cell.colSpan;
      }
    });
    return lines;
  }

  /* What a cell sorts by: data-sort, else its number, else its text; null where it says no value. */
  function keyOf(cell) {
    if (!cell) return null;
    const text = cell.dataset.sort ?? cell.querySelector("data[value]")?.value ?? cell.textContent.trim();
    if (text === "" || /^[–—]/.test(text)) return null;
    return Number.isNaN(Number(text)) ? text : Number(text);
  }

  function compare(one, other, sign) {
    if (one === null || other === null) return (one === null) - (other === null);
    if (typeof one === "number" && typeof other === "number") return sign * (one - other);
    return sign * String(one).localeCompare(String(other), LOCALE, { numeric: true });
  }

  /* Groups (a tbody each) stay whole and are ordered by the row of theirs that comes first; the rows of a single
     group are ordered themselves. Array.sort is stable. */
  function sort(table, column, state) {
    const sign = state === "descending" ? -1 : 1;
    const ranked = table.groups.map((group) => {
      const lines = grid(group.rows);
      const rows = group.rows.map((row, y) => ({ node: row, key: keyOf(lines[y][column]) }));
      const first = rows.map((row) => row.key).sort((a, b) => compare(a, b, sign))[0] ?? null;
      return { node: group.body, rows, key: first };
    });
    const order = (list) => (state === "none" ? list : list.sort((a, b) => compare(a.key, b.key, sign)));
    if (ranked.length === 1) ranked[0].node.append(...order(ranked[0].rows).map((row) => row.node));
    else table.node.append(...order(ranked).map((group) => group.node));
  }

  function makeSortable(node) {
    const heads = [...node.tHead.rows].at(-1).cells;
    const groups = [...node.tBodies].map((body) => ({ body, rows: [...body.rows] }));
    [...heads].forEach((head) => {
      if (!node.matches("[data-sortable]") && !head.matches(".sort")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.ariaSort = "none";
      button.addEventListener("click", () => {
        const state = STATES[(STATES.indexOf(head.ariaSort) + 1) % STATES.length];
        for (const other of heads) if (other.ariaSort) other.ariaSort = "none";
        head.ariaSort = state;
        const column = grid([...node.tHead.rows]).at(-1).indexOf(head);
        sort({ node, groups }, column, state);
      });
    });
  }

  /* The place on the page that the other language should open at: the target if it is in sight, else the heading
     that the reader has passed last. */
  function place() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const box = target && target.getBoundingClientRect();
    if (box && box.bottom > 0 && box.top < innerHeight) return location.hash;
    const passed = [...document.querySelectorAll("article :is(h2, h3)[id]")].filter(
      (heading) => heading.getBoundingClientRect().top < innerHeight / 3,
    );
    return passed.length ? `#${passed.at(-1).id}` : "";
  }

  document.querySelectorAll("table[data-sortable], table.sheet:has(thead th.sort)").forEach(makeSortable);

  document.querySelectorAll(".md-select__link[hreflang]").forEach((link) => {
    link.addEventListener("click", () => {
      link.hash = place();
    });
  });

  const search = document.querySelector("[data-md-component=search][role=dialog]");
  if (search) search.ariaLabel = search.querySelector("input").ariaLabel;
})();
