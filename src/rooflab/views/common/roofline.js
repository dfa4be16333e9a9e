// The roofline: operations under the roofs of a machine, by the bytes that are asked for; its controls and legend.
"use strict";
(() => {
  const svg = document.getElementById("roofline");
  if (!svg) return;
  const peaksPlace = document.getElementById("peaks");
  const axis = document.getElementById("axis");
  const errors = document.getElementById("errors");
  const legend = document.getElementById("legend");
  const ALL_ERRORS = 40; // so many lines have error bars without being asked for
  const { words } = Page.data;
  let peaksOn = null; // names of the peaks that are drawn; null: those that the program meets
  let errorsOn = null;

  const factor = (name) => (Page.state.knobs[name] || 1);
  const styleOf = (shown, level) => `level-${shown.levels.indexOf(level)}${level.main ? " main" : ""}`;
  // The roofs follow the sliders as the machine's own numbers do.
  function turned(shown, level) {
    const by = level.main ? factor("bandwidth") : factor("cache_bandwidth");
    return { ...level, value: level.value * by, attained: level.attained && level.attained * by, unit: "B/s", style: styleOf(shown, level) };
  }
  const levelsOf = (shown) => shown.levels.map((level) => turned(shown, level));
  const mainOf = (levels) => levels.find((level) => level.main) || levels[levels.length - 1] || null;
  const peaksOf = (shown) => shown.peaks.filter((each) => (peaksOn ? peaksOn.has(each.name) : each.used)).map((each) => ({ ...each, value: each.value * factor("compute") }));

  // Bytes of a level: as they were counted, else what its bandwidth carries in the seconds that the model has it busy.
  function levelBytes(columns, level, i) {
    const counted = columns.level_bytes && columns.level_bytes[level.name] ? columns.level_bytes[level.name][i] : null;
    if (counted !== null) return counted;
    return ((columns.memory_s[level.name] || [])[i] || 0) * level.value;
  }

  // What is drawn of each line: one mark, or on the hierarchical roofline one for each level.
  function found(shown, levels, kind = axis.value) {
    const { lines, columns } = shown;
    const points = [];
    const movers = [];
    for (let i = 0; i < shown.count; i += 1) {
      const time = columns.time_s[i];
      const flop = lines.flop[i];
      if (!time || !lines.takesTime[i]) continue;
      const size = shown.summed ? time / shown.summed : 0;
      const bound = columns.bound[i] || "unknown";
      const bytes = kind === "accessed" ? lines.accessed[i] : lines.bytes[i] ?? (lines.other ? lines.other[i] : null);
      if (!flop) {
        // Of an operation whose FLOP are not known nothing says that it has none.
        if (flop === 0 && bytes) movers.push({ line: i, x: bytes / time, size, bound });
        continue;
      }
      const y = flop / time;
      const bar = [flop / columns.high_s[i], flop / columns.low_s[i]];
      if (kind === "levels") {
        levels.forEach((level, number) => {
          const moved = levelBytes(columns, level, i);
          if (moved) points.push({ line: i, x: flop / moved, y, bar, size, bound: `level-${number}`, style: level.main ? " main" : "", level });
        });
      } else if (bytes) {
        const far = kind === "memory" && lines.bytes[i] === null;
        points.push({ line: i, x: flop / bytes, y, bar, size, bound, style: far ? " far" : "", far });
      }
    }
    const order = (a, b) => b.size - a.size;
    return { points: points.sort(order), movers: movers.sort(order) };
  }

  // The kinds of bytes by which any operation has a mark; a kind without one cannot be chosen.
  function placed(shown) {
    const levels = levelsOf(shown);
    const has = (kind) => (kind === "memory" || shown.levels.length > 1) && found(shown, levels, kind).points.length > 0;
    return new Set([...axis.options].map((option) => option.value).filter(has));
  }

  // Levels that the prediction has seconds of and the machine no bandwidth under that name: no mark can be there.
  function rateless(shown) {
    const known = new Set(shown.levels.map((level) => level.name));
    const { memory_s: seconds, level_bytes: counted } = shown.columns;
    const names = Object.keys(seconds).filter((name) => !known.has(name) && !(counted && counted[name]) && seconds[name].some(Boolean));
    return names.length ? `No mark at ${names.join(", ")}: ${shown.machine} states no bandwidth of ${names.length > 1 ? "these levels" : "that level"}.` : "";
  }

  function whyNot(shown, kind) {
    if (shown.levels.length < 2) return `${shown.machine || "the machine"} states the bandwidth of one level only`;
    if (kind === "accessed") return "the loads and stores of no operation with FLOP are known";
    if (kind === "levels") {
      const missing = rateless(shown).replace(/^No mark at [^:]*: /, "").replace(/\.$/, "");
      return missing ? `${missing}, and only ${Object.keys(shown.columns.memory_s).filter((name) => shown.columns.memory_s[name].some(Boolean)).join(", ")} take time` : "no level is known to take time";
    }
    return "no operation with FLOP is known to move any";
  }

  function domain(points, movers, levels, peaks, width) {
    const rates = levels.map((each) => each.value);
    const heights = peaks.map((each) => each.value);
    const slow = Math.min(...rates, Infinity);
    const fast = Math.max(...rates, 0);
    const top = Math.max(...heights, ...points.map((each) => each.y), rates.length ? slow : 0);
    const xs = points.map((each) => each.x);
    const x0 = Math.min(...xs, fast ? (Math.min(...heights, top) / fast) * 0.5 : 1, 1) / 2;
    let x1 = Math.max(...xs, fast ? (top / slow) * 2 : 1) * (fast ? 1 : 2);
    // Room for the peaks' names to the right of all marks.
    const names = peaks.map((each) => Labels.width(Roofs.say(each.name, each.value, width < 482 ? "" : each.unit)));
    const room = Math.min(Math.max(60, ...names) + Plane.LARGEST + 12, width * 0.45);
    x1 = x0 * (x1 / x0) ** (width / (width - room));
    const y0 = Math.min(...(fast ? [slow * x0 * 2] : []), ...points.map((each) => each.bar[0] / 1.5), ...heights.map((each) => each / 3), top / 3);
    const carried = [...movers.map((each) => each.x), ...rates];
    return { x: [x0, x1], y: [y0, top * 2.2], rate: [Math.min(...carried) / 2, Math.max(...carried) * 2.5] };
  }

  function scene(shown) {
    const all = levelsOf(shown);
    const { points, movers } = found(shown, all);
    if (!shown.total || !(points.length + movers.length) || !(all.length || words.roofless)) return null;
    const main = mainOf(all);
    const levels = axis.value === "memory" ? [main].filter(Boolean) : all;
    const peaks = peaksOf(shown);
    const bytes = words.axes[axis.value];
    return {
      points, movers,
      domain: (width) => domain(points, movers, levels, peaks, width),
      bars: errorsOn ?? shown.count <= ALL_ERRORS,
      x: { title: `Arithmetic intensity: FLOP per ${bytes}`, short: `FLOP per ${bytes}` },
      y: { title: `${words.Time} speed (FLOP/s)`, unit: "FLOP/s" },
      rules: levels.map((level) => ({ ...level, tip: Roofs.say(level.name, level.value, "B/s") })),
      under: (layer, space, labels) => Roofs.draw(layer, space, labels, levels, peaks, main),
      says: `Roofline of ${shown.machine || document.body.dataset.name}: ${(points.length + movers.length).toLocaleString("en-US")} marks; the table of operations has their numbers.`,
      after: (space) => after(shown, points, movers, main, space),
    };
  }

  function after(shown, points, movers, main, space) {
    const { items, present, sizes } = Plane.keys([...points, ...movers], space);
    shown.levels.forEach((level, number) => { if (present.has(`level-${number}`)) items.push(Plane.key(`level-${number}${level.main ? " main" : ""}`, `at ${level.name}`)); });
    const far = points.some((each) => each.far);
    if (far) items.push(Plane.key("unknown far", `by the bytes of ${[...new Set(points.filter((each) => each.far).map((each) => shown.lines.otherLevel[each.line]))].join(", ")}: only those were counted`));
    items.push(...sizes);
    if (svg.querySelector(".roof.attained")) items.push(element("li", {}, element("span", { class: "dash" }), "attained by a benchmark"));
    legend.replaceChildren(...items);
    // The choice of bytes stays where another of them has marks.
    for (const each of svg.closest("section").querySelectorAll(".plane-only")) each.hidden = !points.length && !placed(shown).size;
    const left = shown.count - new Set([...points, ...movers].map((each) => each.line)).size;
    document.getElementById("roofline-note").textContent = [
      !points.length ? "No operation computes anything: none has a place under a roof." : words.notes[axis.value].replace("{main}", main ? main.name : "main memory"),
      axis.value === "levels" ? rateless(shown) : "",
      ...[...axis.options].filter((option) => option.dataset.why).map((option) => `${option.textContent.replace(/^of /, "Bytes of ")}: ${option.dataset.why}.`),
      words.left && left ? `${left.toLocaleString("en-US")} of ${shown.count.toLocaleString("en-US")} lines have no place here: ${words.left}.` : "",
    ].filter(Boolean).join(" ");
  }

  function drawPeaks(shown) {
    const on = new Set(peaksOf(shown).map((each) => each.name));
    peaksPlace.replaceChildren(...shown.peaks.map((each, number) => {
      const box = element("input", { type: "checkbox", id: `peak-${number}`, value: each.name });
      box.checked = on.has(each.name);
      return element("label", { for: `peak-${number}` }, box, ` ${each.name}`);
    }));
  }

  Page.watch((shown, state, change, from) => {
    if (from !== "start" && !("prediction" in change)) return;
    peaksOn = null;
    errors.checked = errorsOn ?? shown.count <= ALL_ERRORS;
    drawPeaks(shown);
    const has = placed(shown);
    for (const option of axis.options) {
      option.dataset.why = has.has(option.value) || !has.size ? "" : whyNot(shown, option.value);
      option.disabled = !has.has(option.value) && (has.size > 0 || option.value !== "memory");
    }
    if (axis.selectedOptions[0].disabled) axis.value = [...axis.options].find((option) => !option.disabled).value;
  });
  const plane = Plane.create("roofline", scene);
  axis.addEventListener("change", plane.reset);
  errors.addEventListener("change", () => { errorsOn = errors.checked; plane.draw(); });
  peaksPlace.addEventListener("change", () => {
    peaksOn = new Set([...peaksPlace.querySelectorAll("input:checked")].map((box) => box.value));
    plane.draw();
  });
})();
