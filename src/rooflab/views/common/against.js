// Predicted against measured: a mark for each operation that has both, the diagonal where they agree.
"use strict";
(() => {
  const svg = document.getElementById("against");
  if (!svg) return;
  const errors = document.getElementById("against-errors");
  const ALL_ERRORS = 60;
  let errorsOn = null;

  // [value, low, high] of both; null without one of them. A report has measured columns beside its predicted ones, a
  // profile predicted ones beside those that it measured.
  function pair(shown, i) {
    const { columns } = shown;
    const own = [columns.time_s[i], columns.low_s[i], columns.high_s[i]];
    const [name, low, high] = columns.measured_s ? ["measured_s", "measured_low_s", "measured_high_s"] : ["expected_s", "expected_low_s", "expected_high_s"];
    if (!columns[name]) return null;
    const value = columns[name][i];
    const other = [value, (columns[low] || [])[i] ?? value, (columns[high] || [])[i] ?? value];
    const [predicted, measured] = columns.measured_s ? [own, other] : [other, own];
    return predicted[0] > 0 && measured[0] > 0 && shown.lines.takesTime[i] ? { predicted, measured } : null;
  }

  function points(shown) {
    const found = [];
    let sum = 0;
    for (let i = 0; i < shown.count; i += 1) {
      const both = pair(shown, i);
      if (!both) continue;
      const { predicted: [x, low, high], measured: [y, ylow, yhigh] } = both;
      found.push({ line: i, x, y, xbar: [low > 0 ? low : x, high], bar: [ylow > 0 ? ylow : y, yhigh], size: y, bound: shown.columns.bound[i] || "unknown", inside: y >= low && y <= high });
      sum += y;
    }
    for (const each of found) each.size /= sum;
    return found.sort((a, b) => b.size - a.size);
  }

  function under(layer, space, labels) {
    const { look, plot } = space;
    const low = Math.max(look.x[0], look.y[0]);
    const high = Math.min(look.x[1], look.y[1]);
    const along = (ratio, style, text) => {
      const path = drawn("path", { class: `roof ${style}`, d: `M${space.x(look.x[0])} ${space.y(look.x[0] * ratio)}L${space.x(look.x[1])} ${space.y(look.x[1] * ratio)}` });
      path.append(drawn("title", {}, text));
      layer.append(path);
      space.lines.push([space.x(look.x[0]), space.y(look.x[0] * ratio), space.x(look.x[1]), space.y(look.x[1] * ratio)]);
      if (high <= low) return;
      const angle = Math.atan2(space.y(high * ratio) - space.y(low * ratio), space.x(high) - space.x(low));
      const spots = [];
      for (const share of [0.92, 0.84, 0.76, 0.16, 0.08, 0.6, 0.4]) {
        const at = low * (high / low) ** share;
        for (const side of [-9, 9]) spots.push({ x: space.x(at) - side * Math.sin(angle), y: space.y(at * ratio) + side * Math.cos(angle), angle });
      }
      labels.push({ text, must: false, class: "ridge-label", spots });
    };
    along(1, "", "as predicted");
    along(2, "attained", "2 × as long");
    along(0.5, "attained", "half as long");
    if (plot.right - plot.left < 300) labels.length = Math.min(labels.length, 1);
  }

  const middle = (numbers) => { const all = [...numbers].sort((a, b) => a - b); return all.length % 2 ? all[(all.length - 1) / 2] : (all[all.length / 2 - 1] + all[all.length / 2]) / 2; };

  function after(shown, found, space) {
    const { items, sizes } = Plane.keys(found, space);
    document.getElementById("against-legend").replaceChildren(...items, ...sizes);
    const predicted = found.reduce((sum, each) => sum + each.x, 0);
    const measured = found.reduce((sum, each) => sum + each.y, 0);
    const inside = found.filter((each) => each.inside).length;
    const ratios = found.map((each) => each.y / each.x);
    const off = middle(ratios.map((each) => Math.max(each, 1 / each)));
    const one = found.length === 1;
    document.getElementById("against-note").textContent = `${found.length.toLocaleString("en-US")} line${one ? "" : "s"} with both: measured ${duration(measured)}, predicted ${duration(predicted)} together. ${inside.toLocaleString("en-US")} within the prediction's bar; the median is off by ${ratio(off)}. Above the line it took longer than predicted. Area: share of the time measured here.`;
  }

  function scene(shown) {
    const found = points(shown);
    if (!found.length) return null;
    const xs = found.flatMap((each) => [each.x, ...each.xbar]);
    const ys = found.flatMap((each) => [each.y, ...each.bar]);
    const range = [Math.min(...xs, ...ys) / 2, Math.max(...xs, ...ys) * 2];
    return {
      points: found, movers: [], rules: [],
      domain: () => ({ x: range, y: range }),
      bars: errorsOn ?? found.length <= ALL_ERRORS,
      x: { title: "Predicted time", short: "Predicted time", unit: "s" },
      y: { title: "Measured time", unit: "s" },
      under,
      says: `Predicted against measured: ${found.length.toLocaleString("en-US")} marks; the table of operations has their numbers.`,
      after: (space) => after(shown, found, space),
    };
  }

  Page.watch((shown, state, change, from) => {
    if (from === "start" || "prediction" in change) errors.checked = errorsOn ?? points(shown).length <= ALL_ERRORS;
  });
  const plane = Plane.create("against", scene);
  errors.addEventListener("change", () => { errorsOn = errors.checked; plane.draw(); });
})();
