// Places labels in a picture: the first free spot of each, in order of importance; pixels, y down.
"use strict";
const Labels = (() => {
  const canvas = document.createElement("canvas").getContext("2d");
  const SIZE = 11.5;

  function width(text) {
    canvas.font = `${SIZE}px system-ui, Helvetica, Arial, sans-serif`;
    return canvas.measureText(text).width * 1.02;
  }

  // A turned label is a row of small boxes along its line: boxes that stand upright are easily compared.
  function boxes(x, y, w, angle) {
    const h = SIZE * 1.2;
    if (!angle) return [[x - w / 2 - 2, y - h / 2, x + w / 2 + 2, y + h / 2]];
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    const count = Math.max(1, Math.ceil(w / h));
    const found = [];
    for (let i = 0; i <= count; i += 1) {
      const along = -w / 2 + (w * i) / count;
      const [cx, cy] = [x + along * cos, y + along * sin];
      found.push([cx - h / 2, cy - h / 2, cx + h / 2, cy + h / 2]);
    }
    return found;
  }

  const meets = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  const free = (mine, taken) => !mine.some((box) => taken.some((other) => meets(box, other)));
  const inside = (mine, frame) => mine.every((b) => b[0] >= frame[0] && b[1] >= frame[1] && b[2] <= frame[2] && b[3] <= frame[3]);

  // Whether a line from (a, b) to (c, d) enters an upright box: the box cuts off a stretch of it (Liang and Barsky).
  function crosses([x0, y0, x1, y1], [a, b, c, d]) {
    let [from, to] = [0, 1];
    for (const [p, q] of [[a - c, a - x0], [c - a, x1 - a], [b - d, b - y0], [d - b, y1 - b]]) {
      if (p === 0) { if (q < 0) return false; } else if (p < 0) from = Math.max(from, q / p);
      else to = Math.min(to, q / p);
    }
    return from < to;
  }

  // Each of `wanted`: { text, spots: [{x, y, angle}], must, … }. `soft` are boxes that a label which must be written
  // may cover when nothing else is left; `lines` are crossed only where every other spot is taken; two labels never
  // cover each other.
  function place(wanted, soft, lines, frame) {
    const taken = [];
    const placed = [];
    for (const label of wanted) {
      const w = width(label.text);
      const options = label.spots
        .map((spot) => ({ ...spot, boxes: boxes(spot.x, spot.y, w, spot.angle || 0) }))
        .filter((spot) => inside(spot.boxes, frame) && free(spot.boxes, taken));
      const clear = options.filter((spot) => free(spot.boxes, soft));
      const best = clear.find((spot) => !spot.boxes.some((box) => lines.some((line) => crosses(box, line))))
        || clear[0] || (label.must ? options[0] : null);
      if (!best) continue;
      taken.push(...best.boxes);
      placed.push({ ...label, x: best.x, y: best.y, angle: best.angle || 0 });
    }
    return placed;
  }

  return { place, width, SIZE };
})();
