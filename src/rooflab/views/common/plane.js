// A picture on two logarithmic axes, with a strip below where there is one: marks with area by their share of the
// time, labels, zoom, hover, click. `Plane.create(id, make)` draws what `make(shown)` describes.
"use strict";
const Plane = (() => {
  const STRIP = 64;
  const LARGEST = 17;
  const SMALLEST = 2.6;
  const tip = document.getElementById("tip");
  const log = Math.log10;
  const fixed = (value) => Math.round(value * 100) / 100;

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

  // A line of a legend: a mark of that class, and what it means.
  function key(cls, text) {
    const box = drawn("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" });
    box.append(drawn("path", { class: `dot ${cls}`, d: shape(cls.split(" ")[0], 8, 8, 5.5) }));
    return element("li", {}, box, text);
  }
  const BOUNDS = ["memory-bound", "compute-bound", "balanced", "overhead-bound", "unknown"];

  // Keys of the bounds that are drawn, and of sizes.
  function keys(marks, space) {
    const present = new Set(marks.map((each) => each.bound));
    const items = BOUNDS.filter((bound) => present.has(bound)).map((bound) => key(bound, bound.replace("unknown", "bound unknown")));
    return { items, present, sizes: sizes(space) };
  }

  function sizes(space) {
    return [0.5, 0.1, 0.01].filter((share) => share <= space.most * 1.001).slice(0, 2).map((share) => {
      const r = space.radius(share);
      const side = 2 * r + 2;
      const box = drawn("svg", { width: side, height: side, viewBox: `0 0 ${side} ${side}`, "aria-hidden": "true" });
      box.append(drawn("circle", { class: "size", cx: side / 2, cy: side / 2, r }));
      return element("li", {}, box, `${share * 100} % of the time`);
    });
  }

  function create(id, make) {
    const svg = document.getElementById(id);
    if (!svg) return null;
    const section = svg.closest("section");
    const button = (name) => document.getElementById(`${id === "roofline" ? "" : `${id}-`}zoom-${name}`);
    let zoom = null; // the domain that is looked at; null: all of it
    let space = null;
    let marks = [];
    let paper = false;

    function measure(scene) {
      const width = paper ? 700 : Math.max(280, svg.parentElement.clientWidth);
      const narrow = width < 560;
      const height = scene.points.length ? (narrow ? 360 : 480) : 0;
      const strip = scene.movers.length ? STRIP : 0;
      const plot = { left: narrow ? 66 : 102, top: 12, right: width - 12, bottom: Math.max(12, height - 46) };
      const full = scene.domain(plot.right - plot.left);
      const look = zoom || { x: full.x, y: full.y };
      const scale = (range, low, high) => (value) => low + ((log(value) - log(range[0])) / (log(range[1]) - log(range[0]))) * (high - low);
      const most = Math.max(...scene.points.map((each) => each.size), ...scene.movers.map((each) => each.size), 0);
      // All marks together cover a 25th of the plane at the most: a thousand alike are a thousand small ones.
      const area = (plot.right - plot.left) * Math.max(plot.bottom - plot.top, strip);
      const largest = Math.min(LARGEST / Math.sqrt(most || 1), Math.sqrt((0.04 * area) / Math.PI));
      return {
        width, height: height + (strip ? strip + 62 : 0), narrow, plot, full, look, most,
        x: scale(look.x, plot.left, plot.right),
        y: scale(look.y, plot.bottom, plot.top),
        strip: strip ? { top: height + 26, bottom: height + 26 + strip } : null, // below the plane, with its title between
        rate: full.rate ? scale(full.rate, plot.left, plot.right) : null,
        radius: (size) => Math.max(SMALLEST, largest * Math.sqrt(size)),
        lines: [],
      };
    }

    function axes(layer, scene) {
      const { plot, look, narrow } = space;
      const grid = drawn("g", { class: "grid" });
      const two = !scene.x.unit;
      for (const value of two ? powersOfTwo(look.x, narrow ? 5 : 10) : decades(look.x, narrow ? 4 : 8)) {
        const x = space.x(value);
        grid.append(drawn("line", { x1: x, x2: x, y1: plot.top, y2: plot.bottom }));
        grid.append(drawn("text", { x, y: plot.bottom + 16, "text-anchor": "middle" }, two ? fraction(value) : tickText(value, scene.x.unit)));
      }
      for (const value of decades(look.y, 8)) {
        const y = space.y(value);
        grid.append(drawn("line", { x1: plot.left, x2: plot.right, y1: y, y2: y }));
        // A time without its unit says nothing, a rate's stands in the title too.
        grid.append(drawn("text", { x: plot.left - 6, y: y + 4, "text-anchor": "end" }, tickText(value, narrow && scene.y.unit !== "s" ? "" : scene.y.unit)));
      }
      const title = narrow ? scene.x.short : scene.x.title;
      grid.append(drawn("text", { class: "title", x: (plot.left + plot.right) / 2, y: plot.bottom + 36, "text-anchor": "middle" }, title));
      const [tx, ty] = [narrow ? 12 : 14, (plot.top + plot.bottom) / 2];
      grid.append(drawn("text", { class: "title", x: tx, y: ty, transform: `rotate(-90 ${tx} ${ty})`, "text-anchor": "middle" }, scene.y.title));
      grid.append(drawn("path", { class: "frame", d: `M${plot.left} ${plot.top}V${plot.bottom}H${plot.right}` }));
      layer.append(grid);
    }

    // Thousands of marks are written as one text of numbers and our own words: a third of the time of elements.
    function put(layer, points, group, soft) {
      const written = points.map(({ each, x, y }) => {
        const r = space.radius(each.size);
        if (soft.length < 150) soft.push([x - r, y - r, x + r, y + r]);
        marks.push({ line: each.line, dot: null, x, y, r });
        return `<path class="dot ${each.bound}${each.style || ""}" d="${shape(each.bound, fixed(x), fixed(y), fixed(r))}" data-line="${each.line}"/>`;
      });
      group.innerHTML = written.join("");
      const from = marks.length - points.length;
      [...group.children].forEach((dot, number) => { marks[from + number].dot = dot; });
      layer.append(group);
    }

    function dots(layer, scene, names, labels, soft) {
      marks = [];
      const points = scene.points.map((each) => ({ each, x: space.x(each.x), y: space.y(each.y) }));
      const under = drawn("g", { class: "bars" });
      if (scene.bars) {
        under.innerHTML = points.map(({ each, x, y }) => `<path d="M${fixed(x)} ${fixed(space.y(each.bar[0]))}V${fixed(space.y(each.bar[1]))}${each.xbar ? `M${fixed(space.x(each.xbar[0]))} ${fixed(y)}H${fixed(space.x(each.xbar[1]))}` : ""}"/>`).join("");
      }
      layer.append(under);
      put(layer, points, drawn("g", { class: "dots" }), soft);
      // The names of the operations that take the most time.
      const seen = [];
      for (const { each, x, y } of points) {
        const at = { line: each.line, x, y, r: space.radius(each.size), others: new Set() };
        const over = seen.find((one) => Math.hypot(one.x - at.x, one.y - at.y) < one.r);
        if (over) { if (over.line !== at.line) over.others.add(at.line); } else if (seen.length < 200) seen.push(at);
      }
      const named = new Set();
      for (const { line, x, y, r, others } of seen) {
        if (named.size >= (space.narrow ? 3 : 7)) break;
        if (named.has(line)) continue;
        named.add(line);
        const whole = names[line];
        const name = whole.length > 42 ? `${whole.slice(0, 41)}…` : whole;
        const text = name + (others.size ? ` and ${others.size} more` : "");
        const half = Labels.width(text) / 2 + r + 5;
        const spots = [{ x: x + half, y }, { x: x - half, y }, { x, y: y - r - 9 }, { x, y: y + r + 10 }];
        labels.push({ text, must: false, class: "dot-label", spots });
      }
    }

    function strip(layer, scene) {
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
      const wanted = [];
      for (const { name, value, style, tip: says } of scene.rules) {
        const x = space.rate(value);
        const line = drawn("path", { class: `roof ${style}`, d: `M${x} ${top}V${bottom}` });
        line.append(drawn("title", {}, says));
        layer.append(line);
        const half = Labels.width(name) / 2 + 5;
        wanted.push({ text: name, must: false, class: `roof-label ${style}`, spots: [{ x: x + half, y: top + 8 }, { x: x - half, y: top + 8 }] });
      }
      put(layer, scene.movers.map((each) => ({ each, x: space.rate(each.x), y: (top + bottom) / 2 })), drawn("g", { class: "dots" }), []);
      write(layer, Labels.place(wanted, [], [], [plot.left, top, plot.right, bottom]));
    }

    function write(layer, placed) {
      for (const label of placed) {
        const turned = label.angle ? { transform: `rotate(${(label.angle * 180) / Math.PI} ${label.x} ${label.y})` } : {};
        layer.append(drawn("text", { class: `label ${label.class}`, x: label.x, y: label.y, "text-anchor": "middle", "dominant-baseline": "central", ...turned }, label.text));
      }
    }

    function draw() {
      const shown = Page.shown();
      const scene = make(shown);
      section.hidden = !scene;
      if (!scene) return;
      space = measure(scene);
      svg.setAttribute("viewBox", `0 0 ${space.width} ${space.height}`);
      svg.setAttribute("height", space.height);
      const { plot } = space;
      const area = { x: plot.left, y: plot.top, width: plot.right - plot.left, height: plot.bottom - plot.top };
      const layers = [drawn("defs"), drawn("g"), drawn("g", { "clip-path": `url(#${id}-plane)` }), drawn("g"), drawn("g")];
      const clip = drawn("clipPath", { id: `${id}-plane` });
      clip.append(drawn("rect", area));
      layers[0].append(clip);
      layers[1].append(drawn("rect", { class: "plane", ...area }));
      const labels = [];
      const soft = [];
      if (scene.points.length) {
        axes(layers[1], scene);
        scene.under(layers[2], space, labels);
      }
      dots(layers[2], scene, shown.lines.name, labels, soft);
      strip(layers[3], scene);
      write(layers[4], Labels.place(labels, soft, space.lines, [plot.left + 1, plot.top, plot.right, plot.bottom - 1]));
      svg.replaceChildren(...layers);
      svg.setAttribute("aria-label", `${scene.says} Arrow keys move it, + and - zoom, 0 shows all.`);
      scene.after(space, svg);
      mark();
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
      showTip(event, element("strong", {}, shown.lines.name[best.line]), element("dl", {}, ...Page.list(Page.details(shown, best.line))));
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
      button("reset").disabled = false;
      draw();
    }

    function forget() {
      zoom = null;
      button("reset").disabled = true;
    }

    function reset() {
      forget();
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
    button("in").addEventListener("click", () => change(1 / 1.4, 0, 0));
    button("out").addEventListener("click", () => change(1.4, 0, 0));
    button("reset").addEventListener("click", reset);
    addEventListener("beforeprint", () => { paper = true; draw(); });
    addEventListener("afterprint", () => { paper = false; draw(); });
    let width = 0;
    new ResizeObserver(() => {
      const now = svg.parentElement.clientWidth;
      if (now && now !== width && Page.shown()) { width = now; draw(); }
    }).observe(svg.parentElement);

    Page.watch((shown, state, changed, from) => {
      if (from === "start" || "prediction" in changed) forget();
      if (from === "start" || "prediction" in changed || "knobs" in changed) draw();
      else if ("selected" in changed) mark();
    });
    return { draw, reset };
  }

  function showTip(event, ...inside) {
    tip.hidden = false;
    tip.replaceChildren(...inside);
    const [w, h] = [tip.offsetWidth, tip.offsetHeight];
    tip.style.left = `${Math.max(4, event.clientX + 16 + w > innerWidth ? event.clientX - w - 16 : event.clientX + 16)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - h - 8))}px`;
  }

  return { create, key, keys, shape, showTip, LARGEST };
})();
