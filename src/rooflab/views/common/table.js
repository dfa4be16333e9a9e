// The table of operations: sorted, filtered, a stretch of it at a time; a click selects, here and in the chart.
"use strict";
(() => {
  const STRETCH = 100;
  const table = document.getElementById("operations-table");
  const body = table.tBodies[0];
  const words = document.getElementById("filter");
  const only = document.getElementById("filter-bound");
  const count = document.getElementById("filter-count");
  const more = document.getElementById("more");
  let sort = null;
  let limit = STRETCH;
  let order = [];

  const divided = (a, b) => (a === null || a === undefined || !b ? null : a / b);
  // Measured over predicted, whichever of the two is the page's own time.
  const against = (s, i) => (s.columns.measured_s ? divided(s.columns.measured_s[i], s.columns.time_s[i]) : divided(s.columns.time_s[i], s.columns.expected_s[i]));
  // What each column sorts by and writes; a column without a value for any line is left out.
  const COLUMNS = {
    operation: { value: (s, i) => s.lines.name[i].toLowerCase() },
    time: { value: (s, i) => s.columns.time_s[i], text: (s, i) => duration(s.columns.time_s[i]) },
    measured: { value: (s, i) => s.columns.measured_s[i], text: (s, i) => duration(s.columns.measured_s[i]) },
    share: { value: (s, i) => s.share[i], text: (s, i) => percent(s.share[i]) },
    bound: { value: (s, i) => boundText(s.columns.bound[i], s.columns.binds[i]), text: (s, i) => boundText(s.columns.bound[i], s.columns.binds[i]) },
    expected: { value: (s, i) => s.columns.expected_s[i], text: (s, i) => duration(s.columns.expected_s[i]) },
    against: { value: against, text: (s, i) => ratio(against(s, i)) },
    rate: { value: (s, i) => divided(s.lines.flop[i], s.columns.time_s[i]), text: (s, i) => si(divided(s.lines.flop[i], s.columns.time_s[i]), "FLOP/s").replace("0 FLOP/s", "0") },
    moved: { value: (s, i) => divided(s.lines.bytes[i], s.columns.time_s[i]), text: (s, i) => si(divided(s.lines.bytes[i], s.columns.time_s[i]), "B/s").replace(/^0 B\/s$/, "0") },
    floor: { value: (s, i) => divided(s.columns.time_s[i], s.columns.floor_s[i]), text: (s, i) => ratio(divided(s.columns.time_s[i], s.columns.floor_s[i])) },
    flop: { value: (s, i) => s.lines.flop[i], text: (s, i) => si(s.lines.flop[i], "FLOP").replace("0 FLOP", "0") },
    bytes: { value: (s, i) => s.lines.bytes[i], text: (s, i) => si(s.lines.bytes[i], "B").replace(/^0 B$/, "0") },
    intensity: { value: (s, i) => divided(s.lines.flop[i], s.lines.bytes[i]), text: (s, i) => intensity(divided(s.lines.flop[i], s.lines.bytes[i])) },
    ridge: { value: (s, i) => s.columns.ridge[i], text: (s, i) => intensity(s.columns.ridge[i]) },
    times: { value: (s, i) => s.lines.times[i], text: (s, i) => s.lines.times[i].toLocaleString("en-US") },
  };
  const UNKNOWN_FIRST = new Set(["time", "flop", "bytes", "expected"]);
  const SOUGHT = ["name", "module", "kind", "where", "phase", "shapes", "dtype", "label", "why", "unmatched"];
  const heads = [...table.querySelectorAll("th[data-key]")];

  function matching(shown, state) {
    const asked = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (let i = 0; i < shown.count; i += 1) {
      if (state.rows && !shown.lines.rows[i].some((row) => state.rows.has(row))) continue;
      const bound = shown.columns.bound[i] || "unknown";
      if (state.only && bound !== state.only) continue;
      if (asked.length) {
        const text = SOUGHT.map((key) => (shown.lines[key] ? shown.lines[key][i] : "")).join(" ").toLowerCase();
        if (!asked.every((word) => text.includes(word))) continue;
      }
      found.push(i);
    }
    return found;
  }

  function sorted(found, shown) {
    const { key, down } = sort;
    const values = new Map(found.map((i) => [i, COLUMNS[key].value(shown, i)]));
    return found.sort((a, b) => {
      const [x, y] = [values.get(a), values.get(b)];
      // What is not known may be the largest: it comes first then, but last where it only does not apply.
      // What takes no time, such as a view, is not unknown.
      if (x === null || y === null) {
        const rank = (i, value) => (value !== null ? 0 : down && UNKNOWN_FIRST.has(key) && shown.lines.takesTime[i] ? -1 : 1);
        return rank(a, x) - rank(b, y) || a - b;
      }
      const larger = typeof x === "string" ? x.localeCompare(y) : x - y;
      return (down ? -larger : larger) || a - b;
    });
  }

  function row(shown, i, state) {
    const made = element("tr", { "data-line": i, class: state.selected === i ? "selected" : "" });
    const module = shown.lines.module[i];
    const name = element("button", { type: "button", class: "pick", "aria-pressed": state.selected === i }, ...breakable(shown.lines.name[i]));
    const head = element("th", { scope: "row" }, name);
    if (module) head.append(element("small", {}, module));
    if (shown.lines.shapes && shown.lines.shapes[i]) head.append(element("small", {}, shown.lines.shapes[i]));
    made.append(head);
    for (const each of heads.slice(1)) {
      const cell = element("td", { class: each.className }, COLUMNS[each.dataset.key].text(shown, i));
      if (each.dataset.key === "share" && shown.share[i] !== null) cell.style.setProperty("--share", `${100 * shown.share[i]}%`);
      made.append(cell);
    }
    return made;
  }

  function draw(shown, state) {
    const fresh = !sort;
    if (fresh) sort = shown.total ? { key: "time", down: true } : { key: "bytes", down: true };
    const found = matching(shown, state);
    order = sorted(found, shown);
    // A selected line further down stands below those that are shown.
    const far = state.selected !== null && order.indexOf(state.selected) >= limit ? [state.selected] : [];
    table.style.setProperty("--name", `${1.1 * Math.max(7, ...order.slice(0, limit).map((i) => longest(shown.lines.name[i])))}ch`);
    body.replaceChildren(...[...order.slice(0, limit), ...far].map((i) => row(shown, i, state)));
    for (const head of heads) {
      head.setAttribute("aria-sort", head.dataset.key === sort.key ? (sort.down ? "descending" : "ascending") : "none");
    }
    let share = 0;
    for (const i of found) share += shown.share[i] || 0;
    const part = shown.total && !shown.missing ? `, ${percent(share)} of their time` : "";
    count.textContent = found.length === shown.count
      ? `${shown.count.toLocaleString("en-US")} line${shown.count === 1 ? "" : "s"}`
      : `${found.length.toLocaleString("en-US")} of ${shown.count.toLocaleString("en-US")} lines${part}`;
    const left = order.length - Math.min(limit, order.length);
    more.hidden = left === 0;
    more.textContent = `Show ${Math.min(left, 5 * STRETCH).toLocaleString("en-US")} more of ${left.toLocaleString("en-US")}`;
    if (words.value !== state.words) words.value = state.words;
    only.value = state.only || "";
    document.getElementById("filter-clear").hidden = !(state.words || state.only || state.rows);
  }

  function mark(state) {
    for (const each of body.rows) {
      const on = Number(each.dataset.line) === state.selected;
      each.classList.toggle("selected", on);
      each.querySelector(".pick").setAttribute("aria-pressed", on);
    }
  }

  Page.watch((shown, state, change, from) => {
    const selected = "selected" in change && Object.keys(change).every((key) => key === "selected" || key === "scroll");
    if (selected && (state.selected === null || order.indexOf(state.selected) < limit) && order.includes(state.selected ?? order[0])) mark(state);
    else {
      if (selected && !order.includes(state.selected)) Object.assign(state, { words: "", only: null, rows: null });
      draw(shown, state);
    }
    if (change.scroll) {
      const found = body.querySelector("tr.selected");
      if (found) {
        found.scrollIntoView({ block: "center" });
        found.querySelector(".pick").focus({ preventScroll: true });
      }
    }
  });

  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th[data-key]");
    if (!head) return;
    const key = head.dataset.key;
    const word = key === "operation" || key === "bound";
    sort = sort.key === key ? { key, down: !sort.down } : { key, down: !word };
    draw(Page.shown(), Page.state);
  });
  body.addEventListener("click", (event) => {
    const found = event.target.closest("tr[data-line]");
    if (!found) return;
    const line = Number(found.dataset.line);
    Page.set({ selected: Page.state.selected === line ? null : line }, "table");
  });
  words.addEventListener("input", () => { limit = STRETCH; Page.set({ words: words.value }, "filter"); });
  only.addEventListener("change", () => { limit = STRETCH; Page.set({ only: only.value || null }, "filter"); });
  document.getElementById("filter-clear").addEventListener("click", () => Page.set({ words: "", only: null, rows: null }, "filter"));
  more.addEventListener("click", () => { limit += 5 * STRETCH; draw(Page.shown(), Page.state); });
})();
