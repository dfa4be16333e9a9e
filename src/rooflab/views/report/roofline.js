// The roofline: roofs, operations under them with area by time, data movers on a strip of bytes a second below.
"use strict";
(() => {
  const svg = document.getElementById("roofline");
  if (!svg) return;
  const tip = document.getElementById("tip");
  const peaksPlace = document.getElementById("peaks");
  const axis = document.getElementById("axis");
  const errors = document.getElementById("errors");
  const legend = document.getElementById("legend");
  const STRIP = 64;
  const LARGEST = 17;
  const SMALLEST = 2.6;
  const ALL_ERRORS = 40; // so many lines have error bars without being asked for
  let peaksOn = null; // names of the peaks that are drawn; null: those that the program meets
  let errorsOn = null;
  let zoom = null; // the domain that is looked at; null: all of it
  let space = null;
  let marks = [];
  let paper = false;

  const log = Math.log10;
  const main = (shown) => shown.levels.find((level) => level.main) || shown.levels[shown.levels.length - 1];
  const factor = (shown, name) => (Page.state.knobs[name] || 1);
  // The roofs follow the sliders as the machine's own numbers do.
  const bandwidth = (shown, level) => level.value * (level.main ? factor(shown, "bandwidth") : factor(shown, "cache_bandwidth"));
  const peak = (shown, each) => each.value * factor(shown, "compute");
  const drawnPeaks = (shown) => shown.peaks.filter((each) => (peaksOn ? peaksOn.has(each.name) : each.used));

  // What is drawn of each line: one mark, or on the hierarchical roofline one for each level.
  function found(shown) {
    const { lines, columns } = shown;
    const kind = axis.value;
    const points = [];
    const movers = [];
    for (let i = 0; i < shown.count; i += 1) {
      const time = columns.time_s[i];
      const flop = lines.flop[i];
      if (!time || !lines.takesTime[i]) continue;
      const size = shown.summed ? time / shown.summed : 0;
      const bound = columns.bound[i] || "unknown";
      if (!flop) {
        if (lines.bytes[i]) movers.push({ line: i, x: lines.bytes[i] / time, size, bound });
        continue;
      }
      const y = flop / time;
      const bar = [flop / columns.high_s[i], flop / columns.low_s[i]];
      if (kind === "levels") {
        shown.levels.forEach((level, number) => {
          const seconds = (columns.memory_s[level.name] || [])[i];
          // Bytes of a level: what its bandwidth carries in the seconds that the model has it busy.
          if (seconds) points.push({ line: i, x: flop / (seconds * bandwidth(shown, level)), y, bar, size, bound: `level-${number}`, level });
        });
        continue;
      }
      const bytes = kind === "accessed" ? lines.accessed[i] : lines.bytes[i];
      if (bytes) points.push({ line: i, x: flop / bytes, y, bar, size, bound });
    }
    const order = (a, b) => b.size - a.size;
    return { points: points.sort(order), movers: movers.sort(order) };
  }

  function levelsOf(shown) {
    return axis.value === "memory" ? [main(shown)].filter(Boolean) : shown.levels;
  }

  function domain(shown, points, movers, width) {
    const levels = levelsOf(shown).map((each) => bandwidth(shown, each));
    const peaks = drawnPeaks(shown).map((each) => peak(shown, each));
    const slow = Math.min(...levels);
    const top = Math.max(...peaks, ...points.map((each) => each.y), slow);
    const xs = points.map((each) => each.x);
    const x0 = Math.min(...xs, (Math.min(...peaks, top) / Math.max(...levels)) * 0.5, 1) / 2;
    let x1 = Math.max(...xs, (top / slow) * 2);
    // Room for the peaks' names to the right of all marks.
    const names = drawnPeaks(shown).map((each) => Labels.width(say(each.name, peak(shown, each), each.unit)));
    const room = Math.min(Math.max(60, ...names) + LARGEST + 12, width * 0.45);
    x1 = x0 * (x1 / x0) ** (width / (width - room));
    const y0 = Math.min(slow * x0 * 2, ...points.map((each) => each.bar[0] / 1.5), ...peaks.map((each) => each / 3));
    const rates = [...movers.map((each) => each.x), ...levelsOf(shown).map((each) => bandwidth(shown, each))];
    return { x: [x0, x1], y: [y0, top * 2.2], rate: [Math.min(...rates) / 2, Math.max(...rates) * 2.5] };
  }

  function measure(shown, all) {
    const width = paper ? 700 : Math.max(280, svg.parentElement.clientWidth);
    const narrow = width < 560;
    const height = all.points.length ? (narrow ? 360 : 480) : 0;
    const strip = all.movers.length ? STRIP : 0;
    const plot = { left: narrow ? 66 : 102, top: 12, right: width - 12, bottom: Math.max(12, height - 46) };
    const full = domain(shown, all.points, all.movers, plot.right - plot.left);
    const look = zoom || full;
    const scale = (range, low, high) => (value) => low + ((log(value) - log(range[0])) / (log(range[1]) - log(range[0]))) * (high - low);
    return {
      width, height: height + (strip ? strip + 62 : 0), narrow, plot, full, look,
      x: scale(look.x, plot.left, plot.right),
      y: scale(look.y, plot.bottom, plot.top),
      strip: strip ? { top: height + 26, bottom: height + 26 + strip } : null, // below the plane, with its title between
      rate: scale(full.rate, plot.left, plot.right),
      lines: [],
    };
  }

  // Powers of ten, or 1-2-5 steps where there are few of them; no more than fit.
  function decades(range, most) {
    const span = log(range[1] / range[0]);
    const steps = span < 1.6 ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil(span / most));
    const ticks = [];
    for (let n = Math.floor(log(range[0])); n <= Math.ceil(log(range[1])); n += 1) {
      if (steps.length === 1 && n % every) continue;
      for (const step of steps) {
        const value = step * 10 ** n;
        if (value >= range[0] && value <= range[1]) ticks.push(value);
      }
    }
    return ticks;
  }

  function powersOfTwo(range, most) {
    const span = Math.log2(range[1] / range[0]);
    const every = Math.max(1, Math.ceil(span / most));
    const ticks = [];
    for (let n = Math.ceil(Math.log2(range[0])); n <= Math.floor(Math.log2(range[1])); n += 1) if (n % every === 0) ticks.push(2 ** n);
    return ticks;
  }

  const fraction = (value) => (value < 0.9 ? `1/${Math.round(1 / value).toLocaleString("en-US")}` : Math.round(value).toLocaleString("en-US"));
  const tickText = (value, unit) => si(value, unit).replace(/(\.\d*?)0+(?= )/, "$1").replace(/\.(?= )/, "");

  // Shapes as well as colours tell the bounds apart.
  function shape(bound, x, y, r) {
    if (bound === "compute-bound") return `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`;
    if (bound === "overhead-bound") return `M${x} ${y - r * 1.15}L${x + r * 1.1} ${y + r * 0.85}H${x - r * 1.1}z`;
    if (bound === "balanced") return `M${x} ${y - r * 1.25}L${x + r * 1.25} ${y}L${x} ${y + r * 1.25}L${x - r * 1.25} ${y}z`;
    return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
  }

  // All marks together cover a 25th of the plane at the most: a thousand alike are a thousand small ones.
  function scaleOf(most) {
    const { plot, strip } = space;
    const area = (plot.right - plot.left) * Math.max(plot.bottom - plot.top, strip ? STRIP : 0);
    return Math.min(LARGEST / Math.sqrt(most || 1), Math.sqrt((0.04 * area) / Math.PI));
  }
  const radius = (size) => Math.max(SMALLEST, space.scale * Math.sqrt(size));
  const fixed = (value) => Math.round(value * 100) / 100;

  function axes(layer, shown) {
    const { plot, look, narrow } = space;
    const grid = drawn("g", { class: "grid" });
    for (const value of powersOfTwo(look.x, narrow ? 5 : 10)) {
      const x = space.x(value);
      grid.append(drawn("line", { x1: x, x2: x, y1: plot.top, y2: plot.bottom }));
      grid.append(drawn("text", { x, y: plot.bottom + 16, "text-anchor": "middle" }, fraction(value)));
    }
    for (const value of decades(look.y, 8)) {
      const y = space.y(value);
      grid.append(drawn("line", { x1: plot.left, x2: plot.right, y1: y, y2: y }));
      grid.append(drawn("text", { x: plot.left - 6, y: y + 4, "text-anchor": "end" }, tickText(value, narrow ? "" : "FLOP/s")));
    }
    const bytes = { memory: "compulsory byte of main memory", accessed: "byte that instructions load and store", levels: "byte of each level, as predicted" }[axis.value];
    const title = narrow ? `FLOP per ${bytes}` : `Arithmetic intensity: FLOP per ${bytes}`;
    grid.append(drawn("text", { class: "title", x: (plot.left + plot.right) / 2, y: plot.bottom + 36, "text-anchor": "middle" }, title));
    const [tx, ty] = [narrow ? 12 : 14, (plot.top + plot.bottom) / 2];
    grid.append(drawn("text", { class: "title", x: tx, y: ty, transform: `rotate(-90 ${tx} ${ty})`, "text-anchor": "middle" }, "Predicted speed (FLOP/s)"));
    grid.append(drawn("path", { class: "frame", d: `M${plot.left} ${plot.top}V${plot.bottom}H${plot.right}` }));
    layer.append(grid);
  }

  const say = (name, roof, unit) => `${name} ${si(roof, unit)}`;

  function roofs(layer, shown, labels) {
    const { plot, look } = space;
    const levels = levelsOf(shown);
    const peaks = drawnPeaks(shown);
    const fastest = Math.max(...levels.map((level) => bandwidth(shown, level)));
    const top = Math.max(...peaks.map((each) => peak(shown, each)), 0);
    const bundle = new Map();
    for (const each of peaks) {
      const value = peak(shown, each);
      const line = drawn("path", { class: `roof peak${each.used ? "" : " unused"}`, d: `M${space.x(value / fastest)} ${space.y(value)}H${space.x(look.x[1])}` });
      line.append(drawn("title", {}, `${say(each.name, value, each.unit)}, ${each.basis}${each.used ? "" : "; the program does not use it"}`));
      layer.append(line);
      space.lines.push([space.x(value / fastest), space.y(value), plot.right, space.y(value)]);
      const key = value.toPrecision(3);
      if (bundle.has(key)) bundle.get(key).names.push(each.name);
      else bundle.set(key, { names: [each.name], value, unit: each.unit });
    }
    for (const { names, value, unit } of [...bundle.values()].reverse()) {
      const y = space.y(value);
      const spots = [];
      const start = space.x(value / bandwidth(shown, main(shown)));
      for (const dy of [-9, 9, -21, 21]) for (let dx = 0; dx < (plot.right - start) / 2; dx += 24) spots.push({ dx, y: y + dy });
      const text = say(names.join(", "), value, unit);
      const half = Labels.width(text) / 2 + 4;
      labels.push({ text, must: true, class: "roof-label", spots: spots.map(({ dx, y: at }) => ({ x: plot.right - half - dx, y: at })) });
    }
    levels.forEach((level) => {
      const number = shown.levels.indexOf(level);
      const rate = bandwidth(shown, level);
      const end = top ? top / rate : look.x[1];
      const line = (value, extra, basis) => {
        const path = drawn("path", { class: `roof level-${number}${level.main ? " main" : ""}${extra}`, d: `M${space.x(look.x[0])} ${space.y(look.x[0] * value)}L${space.x(top ? top / value : look.x[1])} ${space.y(top || look.x[1] * value)}` });
        path.append(drawn("title", {}, `${say(level.name, value, "B/s")}, ${basis}`));
        layer.append(path);
      };
      line(rate, "", level.basis);
      space.lines.push([space.x(look.x[0]), space.y(look.x[0] * rate), space.x(top ? top / rate : look.x[1]), space.y(top || look.x[1] * rate)]);
      if (level.attained) line(level.attained * (rate / level.value), " attained", "attained");
      // Beside the line, from its lower end on.
      const from = Math.max(look.x[0], look.y[0] / rate);
      const to = Math.min(look.x[1], end, look.y[1] / rate);
      if (to <= from) return;
      const [ax, ay, bx, by] = [space.x(from), space.y(from * rate), space.x(to), space.y(to * rate)];
      const length = Math.hypot(bx - ax, by - ay);
      const angle = Math.atan2(by - ay, bx - ax);
      const text = say(level.name, rate, "B/s");
      const half = Labels.width(text) / 2 + 6;
      const spots = [];
      for (let at = half; at < length - half; at += 14) {
        for (const side of [-10, 10]) spots.push({ x: ax + (at * (bx - ax)) / length - side * Math.sin(angle), y: ay + (at * (by - ay)) / length + side * Math.cos(angle), angle });
      }
      labels.push({ text, must: true, class: `roof-label level-${number}${level.main ? " main" : ""}`, spots });
    });
    const memory = main(shown);
    for (const each of memory ? peaks.filter((one) => one.used) : []) {
      const [value, rate] = [peak(shown, each), bandwidth(shown, memory)];
      const [x, y] = [space.x(value / rate), space.y(value)];
      const mark = drawn("path", { class: "ridge", d: shape("balanced", x, y, 4) });
      mark.append(drawn("title", {}, `ridge: ${intensity(value / rate)} FLOP/byte of ${memory.name} feed ${each.name}`));
      layer.append(mark);
      const text = `ridge ${intensity(value / rate)}`;
      const half = Labels.width(text) / 2 + 6;
      labels.push({ text, must: false, class: "ridge-label", spots: [{ x: x + half, y: y + 12 }, { x: x - half, y: y - 11 }, { x: x + half, y: y - 11 }, { x, y: y + 22 }] });
    }
  }

  // Thousands of marks are written as one text of numbers and our own words: a third of the time of elements.
  function put(layer, points, group, soft) {
    const written = points.map(({ each, x, y }) => {
      const r = radius(each.size);
      if (soft.length < 150) soft.push([x - r, y - r, x + r, y + r]);
      marks.push({ line: each.line, dot: null, x, y, r });
      return `<path class="dot ${each.bound}${each.level && each.level.main ? " main" : ""}" d="${shape(each.bound, fixed(x), fixed(y), fixed(r))}" data-line="${each.line}"/>`;
    });
    group.innerHTML = written.join("");
    const from = marks.length - points.length;
    [...group.children].forEach((dot, number) => { marks[from + number].dot = dot; });
    layer.append(group);
  }

  function dots(layer, shown, all, labels, soft) {
    const most = Math.max(...all.points.map((each) => each.size), ...all.movers.map((each) => each.size), 0);
    space.most = most;
    space.scale = scaleOf(most);
    const bars = errorsOn ?? shown.count <= ALL_ERRORS;
    marks = [];
    const points = all.points.map((each) => ({ each, x: space.x(each.x), y: space.y(each.y) }));
    const under = drawn("g", { class: "bars" });
    if (bars) under.innerHTML = points.map(({ each, x }) => `<path d="M${fixed(x)} ${fixed(space.y(each.bar[0]))}V${fixed(space.y(each.bar[1]))}"/>`).join("");
    layer.append(under);
    put(layer, points, drawn("g", { class: "dots" }), soft);
    // The names of the operations that take the most time.
    const seen = [];
    for (const each of all.points) {
      const at = { line: each.line, x: space.x(each.x), y: space.y(each.y), r: radius(each.size), others: new Set() };
      const over = seen.find((one) => Math.hypot(one.x - at.x, one.y - at.y) < one.r);
      if (over) { if (over.line !== at.line) over.others.add(at.line); } else if (seen.length < 200) seen.push(at);
    }
    const named = new Set();
    for (const { line, x, y, r, others } of seen) {
      if (named.size >= (space.narrow ? 3 : 7)) break;
      if (named.has(line)) continue;
      named.add(line);
      const text = shown.lines.name[line] + (others.size ? ` and ${others.size} more` : "");
      const half = Labels.width(text) / 2 + r + 5;
      const spots = [{ x: x + half, y }, { x: x - half, y }, { x, y: y - r - 9 }, { x, y: y + r + 10 }];
      labels.push({ text, must: false, class: "dot-label", spots });
    }
  }

  function strip(layer, shown, all) {
    if (!space.strip) return;
    const { top, bottom } = space.strip;
    const { plot, full, narrow } = space;
    const group = drawn("g", { class: "grid" });
    group.append(drawn("text", { class: "title", x: plot.left, y: top - 8 }, narrow ? "Data movers: no FLOP" : "Data movers: operations without FLOP, by the bytes that they move in a second"));
    for (const value of decades(full.rate, narrow ? 4 : 8)) {
      const x = space.rate(value);
      group.append(drawn("line", { x1: x, x2: x, y1: top, y2: bottom }));
      group.append(drawn("text", { x, y: bottom + 16, "text-anchor": "middle" }, tickText(value, narrow ? "" : "B/s")));
    }
    group.append(drawn("path", { class: "frame", d: `M${plot.left} ${bottom}H${plot.right}` }));
    if (narrow) group.append(drawn("text", { class: "title", x: plot.right, y: bottom + 32, "text-anchor": "end" }, "bytes a second"));
    layer.append(group);
    const taken = [];
    for (const level of levelsOf(shown)) {
      const x = space.rate(bandwidth(shown, level));
      const line = drawn("path", { class: `roof level-${shown.levels.indexOf(level)}${level.main ? " main" : ""}`, d: `M${x} ${top}V${bottom}` });
      line.append(drawn("title", {}, say(level.name, bandwidth(shown, level), "B/s")));
      layer.append(line);
      taken.push({ text: level.name, must: false, class: `roof-label level-${shown.levels.indexOf(level)}${level.main ? " main" : ""}`, spots: [{ x: x + Labels.width(level.name) / 2 + 5, y: top + 8 }, { x: x - Labels.width(level.name) / 2 - 5, y: top + 8 }] });
    }
    put(layer, all.movers.map((each) => ({ each, x: space.rate(each.x), y: (top + bottom) / 2 })), drawn("g", { class: "dots" }), []);
    write(layer, Labels.place(taken, [], [], [plot.left, top, plot.right, bottom]));
  }

  function write(layer, placed) {
    for (const label of placed) {
      const turned = label.angle ? { transform: `rotate(${(label.angle * 180) / Math.PI} ${label.x} ${label.y})` } : {};
      layer.append(drawn("text", { class: `label ${label.class}`, x: label.x, y: label.y, "text-anchor": "middle", "dominant-baseline": "central", ...turned }, label.text));
    }
  }

  function drawLegend(shown, all) {
    const present = new Set([...all.points, ...all.movers].map((each) => each.bound));
    const items = [];
    const item = (cls, text) => {
      const box = drawn("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" });
      box.append(drawn("path", { class: `dot ${cls}`, d: shape(cls.split(" ")[0], 8, 8, 5.5) }));
      items.push(element("li", {}, box, text));
    };
    for (const bound of ["memory-bound", "compute-bound", "balanced", "overhead-bound", "unknown"]) if (present.has(bound)) item(bound, bound.replace("unknown", "bound unknown"));
    shown.levels.forEach((level, number) => { if (present.has(`level-${number}`)) item(`level-${number}${level.main ? " main" : ""}`, `at ${level.name}`); });
    const sizes = [0.5, 0.1, 0.01].filter((share) => share <= space.most * 1.001).slice(0, 2);
    for (const share of sizes) {
      const r = radius(share);
      const side = 2 * r + 2;
      const box = drawn("svg", { width: side, height: side, viewBox: `0 0 ${side} ${side}`, "aria-hidden": "true" });
      box.append(drawn("circle", { class: "size", cx: side / 2, cy: side / 2, r }));
      items.push(element("li", {}, box, `${share * 100} % of the time`));
    }
    if ([...svg.querySelectorAll(".roof.attained")].length) items.push(element("li", {}, element("span", { class: "dash" }), "attained by a benchmark"));
    legend.replaceChildren(...items);
  }

  function drawPeaks(shown) {
    const on = new Set(drawnPeaks(shown).map((each) => each.name));
    peaksPlace.replaceChildren(...shown.peaks.map((each, number) => {
      const box = element("input", { type: "checkbox", id: `peak-${number}`, value: each.name });
      box.checked = on.has(each.name);
      return element("label", { for: `peak-${number}` }, box, ` ${each.name}`);
    }));
  }

  function draw() {
    const shown = Page.shown();
    const all = found(shown);
    const drawable = shown.levels.length > 0 && shown.total;
    svg.closest("section").hidden = !drawable || !(all.points.length + all.movers.length);
    if (svg.closest("section").hidden) return;
    space = measure(shown, all);
    svg.setAttribute("viewBox", `0 0 ${space.width} ${space.height}`);
    svg.setAttribute("height", space.height);
    const { plot } = space;
    const layers = [drawn("defs"), drawn("g"), drawn("g", { "clip-path": "url(#plane)" }), drawn("g"), drawn("g")];
    const clip = drawn("clipPath", { id: "plane" });
    clip.append(drawn("rect", { x: plot.left, y: plot.top, width: plot.right - plot.left, height: plot.bottom - plot.top }));
    layers[0].append(clip);
    layers[1].append(drawn("rect", { class: "plane", x: plot.left, y: plot.top, width: plot.right - plot.left, height: plot.bottom - plot.top }));
    const labels = [];
    const soft = [];
    if (all.points.length) {
      axes(layers[1], shown);
      roofs(layers[2], shown, labels);
    }
    dots(layers[2], shown, all, labels, soft);
    strip(layers[3], shown, all);
    write(layers[4], Labels.place(labels, soft, space.lines, [plot.left + 1, plot.top, plot.right, plot.bottom - 1]));
    svg.replaceChildren(...layers);
    drawLegend(shown, all);
    describe(shown, all);
    mark();
  }

  function describe(shown, all) {
    const lines = all.points.length + all.movers.length;
    svg.setAttribute("aria-label", `Roofline of ${shown.machine}: ${lines.toLocaleString("en-US")} marks; the table of operations has their numbers. Arrow keys move it, + and - zoom, 0 shows all.`);
    for (const each of svg.closest("section").querySelectorAll(".plane-only")) each.hidden = !all.points.length;
    document.getElementById("roofline-note").textContent = !all.points.length ? "No operation computes anything: none has a place under a roof." : {
      memory: `The classic roofline: compulsory bytes through ${main(shown).name}. A mark above its roof is served by a cache.`,
      accessed: "The cache-aware roofline: every load and store counts, one intensity for all levels; the roof just above a mark hints at the level that serves it.",
      levels: "The hierarchical roofline: a mark for each level; a mark's distance to the roof of its level is the share of the time that the level is idle.",
    }[axis.value];
  }

  function mark() {
    const chosen = Page.state.selected;
    svg.classList.toggle("chosen", chosen !== null);
    for (const each of marks) each.dot.classList.toggle("selected", each.line === chosen);
  }

  function nearest(event) {
    const box = svg.getBoundingClientRect();
    const scale = space.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let best = null;
    for (const each of marks) {
      // The smaller of two marks over each other is the one on top.
      const off = Math.hypot(each.x - x, each.y - y) - each.r;
      if (off < 6 && (best === null || off < best.off || each.r < best.r)) best = { ...each, off };
    }
    return best;
  }

  function hover(event) {
    const best = nearest(event);
    tip.hidden = best === null;
    svg.style.cursor = best ? "pointer" : "";
    if (best === null) return;
    const shown = Page.shown();
    tip.replaceChildren(element("strong", {}, shown.lines.name[best.line]), element("dl", {}, ...Page.list(Page.details(shown, best.line))));
    const [w, h] = [tip.offsetWidth, tip.offsetHeight];
    tip.style.left = `${Math.max(4, event.clientX + 16 + w > innerWidth ? event.clientX - w - 16 : event.clientX + 16)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - h - 8))}px`;
  }

  // Zooming and moving in logarithms.
  function change(by, dx, dy, at) {
    const look = space.look;
    const next = { ...look };
    for (const [name, move, share] of [["x", dx, at ? at[0] : 0.5], ["y", dy, at ? at[1] : 0.5]]) {
      const [a, b] = look[name].map(log);
      const span = (b - a) * by;
      const centre = a + (b - a) * share;
      const low = centre - span * share + move * (b - a);
      next[name] = [10 ** low, 10 ** (low + span)];
    }
    zoom = next;
    document.getElementById("zoom-reset").disabled = false;
    draw();
  }

  function reset() {
    zoom = null;
    document.getElementById("zoom-reset").disabled = true;
    draw();
  }

  let drag = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch") return; // a finger scrolls the page
    drag = { x: event.clientX, y: event.clientY, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    const box = svg.getBoundingClientRect();
    Object.assign(drag, { x: event.clientX, y: event.clientY, moved: true });
    tip.hidden = true;
    change(1, -dx / box.width, dy / box.height);
  });
  addEventListener("pointerup", () => { const last = drag; drag = null; if (last && last.moved) svg.dataset.moved = "yes"; });
  svg.addEventListener("pointermove", (event) => { if (!drag) hover(event); });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  svg.addEventListener("click", (event) => {
    if (svg.dataset.moved) { delete svg.dataset.moved; return; }
    const best = nearest(event);
    Page.set({ selected: best && best.line !== Page.state.selected ? best.line : null }, "chart");
  });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the wheel alone scrolls the page
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    const scale = space.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    const { plot } = space;
    change(event.deltaY > 0 ? 1.15 : 1 / 1.15, 0, 0, [(x - plot.left) / (plot.right - plot.left), (plot.bottom - y) / (plot.bottom - plot.top)]);
  }, { passive: false });
  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
    if (moves[event.key]) change(1, ...moves[event.key]);
    else if (event.key === "+" || event.key === "=") change(1 / 1.4, 0, 0);
    else if (event.key === "-") change(1.4, 0, 0);
    else if (event.key === "0") reset();
    else return;
    event.preventDefault();
  });
  document.getElementById("zoom-in").addEventListener("click", () => change(1 / 1.4, 0, 0));
  document.getElementById("zoom-out").addEventListener("click", () => change(1.4, 0, 0));
  document.getElementById("zoom-reset").addEventListener("click", reset);
  axis.addEventListener("change", () => { zoom = null; draw(); });
  errors.addEventListener("change", () => { errorsOn = errors.checked; draw(); });
  peaksPlace.addEventListener("change", () => {
    peaksOn = new Set([...peaksPlace.querySelectorAll("input:checked")].map((box) => box.value));
    draw();
  });
  addEventListener("beforeprint", () => { paper = true; draw(); });
  addEventListener("afterprint", () => { paper = false; draw(); });
  let width = 0;
  new ResizeObserver(() => {
    const now = svg.parentElement.clientWidth;
    if (now && now !== width && Page.shown()) { width = now; draw(); }
  }).observe(svg.parentElement);

  Page.watch((shown, state, change, from) => {
    if (from === "start" || "prediction" in change) {
      peaksOn = null;
      zoom = null;
      errors.checked = errorsOn ?? shown.count <= ALL_ERRORS;
      drawPeaks(shown);
      for (const option of axis.options) {
        option.disabled = (option.value === "accessed" && !shown.lines.accessed.some(Boolean)) || (option.value !== "memory" && shown.levels.length < 2);
      }
      if (axis.selectedOptions[0].disabled) axis.value = "memory";
    }
    if (from === "start" || "prediction" in change || "knobs" in change) draw();
    else if ("selected" in change) mark();
  });
})();
