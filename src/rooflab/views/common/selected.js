// What is known of one operation: beside the pointer, and in the panel of the one that is selected; cards' buttons.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const { words } = Page.data;

  function measuredBeside(add, columns, line) {
    const measured = columns.measured_s ? columns.measured_s[line] : null;
    if (!measured) return;
    add("measured", `${duration(measured)}${columns.time_s[line] ? `: ${ratio(measured / columns.time_s[line])} the prediction` : ""}`);
  }

  function predictedBeside(add, columns, line) {
    const expected = columns.expected_s ? columns.expected_s[line] : null;
    if (expected === null) return;
    add("predicted", `${duration(expected)} (${duration(columns.expected_low_s[line])} to ${duration(columns.expected_high_s[line])})`);
    if (expected) add("measured / predicted", ratio(columns.time_s[line] / expected));
  }

  function details(shown, line) {
    const { lines, columns } = shown;
    const found = [];
    const time = columns.time_s[line];
    const add = (name, value) => value && value !== UNKNOWN && found.push([name, value]);
    for (const name of ["module", "label", "shapes", "dtype"]) if (lines[name]) add(name === "label" ? "range" : name, lines[name][line]);
    add("source", lines.where[line]);
    add("kind", `${lines.kind[line]}${lines.phase[line] && lines.phase[line] !== "forward" ? `, ${lines.phase[line]}` : ""}`);
    add("runs", `${lines.times[line].toLocaleString("en-US")} ×`);
    if (time !== null) {
      add(words.time === "predicted" ? "time" : words.time, `${duration(time)} (${duration(columns.low_s[line])} to ${duration(columns.high_s[line])})`);
      add("share", percent(shown.share[line]));
      measuredBeside(add, columns, line);
      predictedBeside(add, columns, line);
      if (columns.floor_s[line] !== null) add("floor", columns.floor_s[line] ? `${duration(columns.floor_s[line])}: it takes ${ratio(time / columns.floor_s[line])} that` : "0 s");
      const roof = Page.nearest && columns.roof ? Page.nearest(columns.roof[line], time) : null;
      if (roof) add("nearest roof", `${percent(roof.share)} of ${roof.name}${roof.share > 1 ? ": a cache serves it" : ""}`);
    } else if (shown.machine) add("time", "no prediction");
    add("bound", boundText(columns.bound[line], columns.binds[line]));
    add("no bound", columns.bound[line] ? "" : columns.unbound[line]);
    if (lines.why) add("not counted", lines.why[line]);
    if (lines.unmatched) add("not matched", lines.unmatched[line]);
    add("arithmetic", lines.flop[line] === null ? "" : si(lines.flop[line], "FLOP") + (lines.engine[line] ? `, ${lines.engine[line]}` : ""));
    add("bytes", si(lines.bytes[line], "B"));
    add("accessed", si(lines.accessed[line], "B"));
    if (lines.flop[line] && lines.bytes[line]) {
      add("intensity", `${intensity(lines.flop[line] / lines.bytes[line])} FLOP/byte`);
      add("ridge", columns.ridge[line] ? `${intensity(columns.ridge[line])} FLOP/byte` : "");
    }
    if (time) {
      add("attained", lines.flop[line] ? si(lines.flop[line] / time, "FLOP/s") : lines.bytes[line] ? si(lines.bytes[line] / time, "B/s") : "");
      for (const [name, share] of (columns.of_roof && columns.of_roof[line]) || []) add(`of ${name}`, percent(share));
      add("arithmetic alone", columns.compute_s[line] ? duration(columns.compute_s[line]) : "");
      for (const [name, seconds] of Object.entries(columns.memory_s)) add(`${name} alone`, seconds[line] ? duration(seconds[line]) : "");
      add("overhead", columns.overhead_s[line] ? duration(columns.overhead_s[line]) : "");
      add("host", columns.host_s[line] ? duration(columns.host_s[line]) : "");
    }
    return found;
  }

  function list(found) {
    return found.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  }

  Page.details = details;
  Page.list = list;
  Page.watch((shown, state) => {
    const panel = byId("selected");
    const line = state.selected;
    panel.hidden = line === null;
    if (line === null) return;
    byId("selected-name").textContent = shown.lines.name[line];
    byId("selected-facts").replaceChildren(...list(details(shown, line)));
  });
  byId("selected-close").addEventListener("click", () => Page.set({ selected: null }, "panel"));
  byId("selected-row").addEventListener("click", () => Page.set({ selected: Page.state.selected, scroll: true }, "panel"));
  const choice = byId("prediction");
  if (choice) choice.addEventListener("change", () => Page.set({ prediction: Number(choice.value) }, "choice"));
  for (const button of document.querySelectorAll("[data-rows]")) {
    button.addEventListener("click", () => {
      Page.set({ rows: new Set(JSON.parse(button.dataset.rows)), words: "", only: null }, "card");
      byId("operations").scrollIntoView({ behavior: "smooth" });
    });
  }
  // On paper nothing can be opened: advice and conventions are; the tree of modules stays as it was left.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.more-cards:not([open]), details.reading:not([open])")];
    opened.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((each) => { each.open = false; }));
  addEventListener("DOMContentLoaded", () => Page.set({}, "start"));
})();
