// Where the time goes: bars by operation, kind, phase or bound, and the tree of modules.
"use strict";
(() => {
  const TOP = 12;
  const bars = document.getElementById("bars");
  const by = document.getElementById("bars-by");
  const tree = document.getElementById("tree");
  const BOUNDS = ["memory-bound", "compute-bound", "balanced", "overhead-bound", "unknown"];

  const KEYS = {
    operation: (s, i) => s.lines.name[i],
    kind: (s, i) => s.lines.kind[i],
    phase: (s, i) => s.lines.phase[i],
    range: (s, i) => s.lines.label[i] || "none",
    bound: (s, i) => boundText(s.columns.bound[i], s.columns.binds[i]),
  };

  // Without a machine the bars are of bytes.
  const amount = (shown, i) => (shown.total ? shown.columns.time_s[i] : shown.lines.bytes[i]);
  const say = (shown, value) => (shown.total ? duration(value) : si(value, "B"));

  function grouped(shown, key) {
    const groups = new Map();
    let whole = 0;
    for (let i = 0; i < shown.count; i += 1) {
      if (!shown.lines.takesTime[i]) continue;
      const name = KEYS[key](shown, i);
      if (!groups.has(name)) groups.set(name, { name, sum: 0, missing: 0, parts: {} });
      const group = groups.get(name);
      const value = amount(shown, i);
      if (value === null) { group.missing += shown.lines.times[i]; continue; }
      const bound = shown.columns.bound[i] || "unknown";
      group.sum += value;
      group.parts[bound] = (group.parts[bound] || 0) + value;
      whole += value;
    }
    const sorted = [...groups.values()].sort((a, b) => b.sum - a.sum);
    const missing = sorted.some((group) => group.missing);
    return { sorted, whole, missing };
  }

  function drawBars(shown) {
    const { sorted, whole, missing } = grouped(shown, by.value);
    const shownRows = sorted.length === TOP + 1 ? TOP + 1 : TOP;
    const rest = sorted.slice(shownRows);
    const kept = sorted.slice(0, shownRows);
    if (rest.length) {
      const other = { name: `${rest.length.toLocaleString("en-US")} others`, sum: 0, missing: 0, parts: {}, other: true };
      for (const each of rest) {
        other.sum += each.sum;
        other.missing += each.missing;
        for (const [bound, value] of Object.entries(each.parts)) other.parts[bound] = (other.parts[bound] || 0) + value;
      }
      kept.push(other);
    }
    const most = Math.max(...kept.map((group) => group.sum), 0);
    bars.replaceChildren(...kept.map((group) => {
      const track = element("span", { class: "track", "aria-hidden": "true" });
      for (const bound of BOUNDS) {
        if (!group.parts[bound]) continue;
        const part = element("span", { class: `part ${bound}` });
        part.style.width = `${(100 * group.parts[bound]) / most}%`;
        track.append(part);
      }
      const unknown = !group.sum && group.missing;
      const value = unknown ? UNKNOWN : `${group.missing ? "> " : ""}${say(shown, group.sum)}`;
      // Of a whole that leaves something out nothing is a known part.
      const share = missing || !whole || unknown ? "" : percent(group.sum / whole);
      const inside = [element("span", { class: "name" }, ...breakable(group.name)), track, element("span", { class: "number" }, value), element("span", { class: "number share" }, share)];
      const row = group.other || by.value === "bound"
        ? element("div", { class: "bar" }, ...inside)
        : element("button", { type: "button", class: "bar", title: "Show these in the table" }, ...inside);
      if (row.tagName === "BUTTON") row.addEventListener("click", () => Page.set({ words: group.name, only: null, rows: null }, "bars"));
      return element("li", {}, row);
    }));
    // What runs at once can take less than its parts together, and gaps can make it more.
    const note = document.getElementById("bars-note");
    note.textContent = shown.total && !missing && Math.abs(whole - shown.total.time_s) > 0.01 * shown.total.time_s
      ? `Operations alone add up to ${duration(whole)}; the program takes ${duration(shown.total.time_s)}: shares are of the sum.`
      : "";
  }

  function treeOf(shown) {
    const root = { name: "", path: "", children: new Map(), sum: 0, missing: 0, lines: 0 };
    for (let i = 0; i < shown.count; i += 1) {
      const value = amount(shown, i);
      const parts = shown.lines.module[i] ? shown.lines.module[i].split(".") : [];
      let node = root;
      for (let depth = 0; depth <= parts.length; depth += 1) {
        if (depth) {
          const name = parts[depth - 1];
          if (!node.children.has(name)) {
            node.children.set(name, { name, path: parts.slice(0, depth).join("."), children: new Map(), sum: 0, missing: 0, lines: 0 });
          }
          node = node.children.get(name);
        }
        if (value === null) node.missing += shown.lines.takesTime[i] ? 1 : 0;
        else node.sum += value;
        node.lines += 1;
      }
    }
    return root;
  }

  const open = new Set([""]);

  function branch(shown, node, root, name, depth) {
    const share = root.missing || !root.sum ? null : node.sum / root.sum;
    const value = node.sum || !node.missing ? `${node.missing ? "> " : ""}${say(shown, node.sum)}` : UNKNOWN;
    const track = element("span", { class: "track", "aria-hidden": "true" }, element("span", { class: "part whole" }));
    track.firstChild.style.width = `${root.sum ? (100 * node.sum) / root.sum : 0}%`;
    const inside = [element("span", { class: "name", style: `padding-left: ${depth}rem` }, name), track, element("span", { class: "number" }, value), element("span", { class: "number share" }, share === null ? "" : percent(share))];
    if (!node.children.size) {
      const leaf = element("button", { type: "button", class: "bar", title: "Show these in the table" }, ...inside);
      leaf.addEventListener("click", () => Page.set({ words: node.path, only: null, rows: null }, "tree"));
      return element("li", {}, leaf);
    }
    const details = element("details", {}, element("summary", { class: "bar" }, ...inside));
    const fill = () => {
      if (details.children.length > 1) return;
      details.append(element("ul", { class: "plain" }, ...[...node.children.values()].map((child) => branch(shown, child, root, child.name, depth + 1))));
    };
    details.open = open.has(node.path);
    if (details.open) fill();
    details.addEventListener("toggle", () => {
      if (details.open) { open.add(node.path); fill(); } else open.delete(node.path);
    });
    return element("li", {}, details);
  }

  function drawTree(shown) {
    const root = treeOf(shown);
    const section = tree.closest("section");
    section.hidden = !root.children.size;
    if (root.children.size) tree.replaceChildren(branch(shown, root, root, document.body.dataset.name, 0));
  }

  Page.watch((shown, state, change, from) => {
    if (from !== "start" && !("prediction" in change) && !("knobs" in change)) return;
    drawBars(shown);
    drawTree(shown);
  });
  by.addEventListener("change", () => drawBars(Page.shown()));
})();
