// Roofs of a plane: bandwidths that rise, peaks that are flat, where they meet; each with its label.
"use strict";
const Roofs = (() => {
  const say = (name, rate, unit) => `${name} ${si(rate, unit)}`;

  // Peaks of the same height are one line with all their names.
  function flat(layer, space, labels, peaks, fastest, from) {
    const { plot, look } = space;
    const bundle = new Map();
    for (const each of peaks) {
      const { value } = each;
      const left = fastest ? space.x(value / fastest) : plot.left;
      const line = drawn("path", { class: `roof peak${each.used ? "" : " unused"}`, d: `M${left} ${space.y(value)}H${space.x(look.x[1])}` });
      line.append(drawn("title", {}, `${say(each.name, value, each.unit)}, ${each.basis}${each.used ? "" : "; the program does not use it"}`));
      layer.append(line);
      space.lines.push([left, space.y(value), plot.right, space.y(value)]);
      const key = value.toPrecision(3);
      if (bundle.has(key)) bundle.get(key).names.push(each.name);
      else bundle.set(key, { names: [each.name], value, unit: each.unit });
    }
    for (const { names, value, unit } of [...bundle.values()].reverse()) {
      const y = space.y(value);
      const spots = [];
      const start = from ? space.x(value / from) : plot.left;
      for (const dy of [-9, 9, -21, 21]) for (let dx = 0; dx < (plot.right - start) / 2; dx += 24) spots.push({ dx, y: y + dy });
      // On a narrow picture without the unit, which stands at the axis: else it lies on the marks.
      const text = say(names.join(", "), value, space.narrow ? "" : unit).trim();
      const half = Labels.width(text) / 2 + 4;
      labels.push({ text, must: true, class: "roof-label", spots: spots.map(({ dx, y: at }) => ({ x: plot.right - half - dx, y: at })) });
    }
  }

  function slanted(layer, space, labels, level, top) {
    const { look } = space;
    const { value: rate, style, unit } = level;
    const end = top ? top / rate : look.x[1];
    const line = (value, extra, basis) => {
      const path = drawn("path", { class: `roof ${style}${extra}`, d: `M${space.x(look.x[0])} ${space.y(look.x[0] * value)}L${space.x(top ? top / value : look.x[1])} ${space.y(top || look.x[1] * value)}` });
      path.append(drawn("title", {}, `${say(level.name, value, unit)}, ${basis}`));
      layer.append(path);
    };
    line(rate, "", level.basis);
    space.lines.push([space.x(look.x[0]), space.y(look.x[0] * rate), space.x(top ? top / rate : look.x[1]), space.y(top || look.x[1] * rate)]);
    if (level.attained) line(level.attained, " attained", "attained");
    // Beside the line, from its lower end on.
    const from = Math.max(look.x[0], look.y[0] / rate);
    const to = Math.min(look.x[1], end, look.y[1] / rate);
    if (to <= from) return;
    const [ax, ay, bx, by] = [space.x(from), space.y(from * rate), space.x(to), space.y(to * rate)];
    const length = Math.hypot(bx - ax, by - ay);
    const angle = Math.atan2(by - ay, bx - ax);
    const text = say(level.name, rate, unit);
    const half = Labels.width(text) / 2 + 6;
    const spots = [];
    for (let at = half; at < length - half; at += 14) {
      for (const side of [-10, 10]) spots.push({ x: ax + (at * (bx - ax)) / length - side * Math.sin(angle), y: ay + (at * (by - ay)) / length + side * Math.cos(angle), angle });
    }
    labels.push({ text, must: true, class: `roof-label ${style}`, spots });
  }

  function ridge(layer, space, labels, peak, memory) {
    const [x, y] = [space.x(peak.value / memory.value), space.y(peak.value)];
    const mark = drawn("path", { class: "ridge", d: Plane.shape("balanced", x, y, 4) });
    mark.append(drawn("title", {}, `ridge: ${intensity(peak.value / memory.value)} FLOP/byte of ${memory.name} feed ${peak.name}`));
    layer.append(mark);
    const text = `ridge ${intensity(peak.value / memory.value)}`;
    const half = Labels.width(text) / 2 + 6;
    labels.push({ text, must: false, class: "ridge-label", spots: [{ x: x + half, y: y + 12 }, { x: x - half, y: y - 11 }, { x: x + half, y: y - 11 }, { x, y: y + 22 }] });
  }

  // `levels` and `peaks`: { name, value, unit, basis, … }; `memory` is the level that ridges are of, where there is one.
  function draw(layer, space, labels, levels, peaks, memory) {
    const fastest = Math.max(...levels.map((level) => level.value), 0);
    const top = Math.max(...peaks.map((each) => each.value), 0);
    flat(layer, space, labels, peaks, fastest, memory ? memory.value : fastest);
    for (const level of levels) slanted(layer, space, labels, level, top);
    for (const each of memory ? peaks.filter((one) => one.used) : []) ridge(layer, space, labels, each, memory);
  }

  return { draw, say };
})();
