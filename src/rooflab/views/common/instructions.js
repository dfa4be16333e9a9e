// The instruction roofline of kernels whose instructions were counted (Ding and Williams, PMBS 2019): warp
// instructions a second against those per transaction of 32 bytes, with the walls of strided access.
"use strict";
(() => {
  const svg = document.getElementById("instructions");
  if (!svg) return;
  const legend = document.getElementById("instructions-legend");

  function under(layer, space, labels, held, levels) {
    Roofs.draw(layer, space, labels, levels, [{ name: "all schedulers", value: held.peak, unit: "inst/s", basis: "theoretical", used: true }], null);
    for (const wall of held.walls) {
      const x = space.x(wall.intensity);
      const line = drawn("path", { class: "roof attained", d: `M${x} ${space.plot.top}V${space.plot.bottom}` });
      line.append(drawn("title", {}, `global accesses of 4-byte words with ${wall.name} stand here at L1`));
      layer.append(line);
      const half = Labels.width(wall.name) / 2 + 4;
      const spots = [10, 26, 42].flatMap((rise) => [{ x: x + half, y: space.plot.bottom - rise }, { x: x - half, y: space.plot.bottom - rise }]);
      labels.push({ text: wall.name, must: false, class: "ridge-label", spots });
    }
  }

  function scene(shown) {
    const held = shown.instructions;
    if (!held || !held.marks.length) return null;
    const styles = Object.fromEntries(shown.levels.map((level, number) => [level.name, [`level-${number}`, level.main ? " main" : ""]]));
    const levels = held.levels.map(({ name, value }) => ({ name, value, unit: "TXN/s", basis: "theoretical", style: (styles[name] || ["level-3", ""]).join("") }));
    const points = held.marks.map(({ line, level, x, y }) => {
      const [bound, style] = styles[level] || ["level-3", ""];
      return { line, x, y, bar: [y, y], size: shown.share[line] || 0, bound, style, level };
    }).sort((a, b) => b.size - a.size);
    const ridges = levels.map((level) => held.peak / level.value);
    return {
      points, movers: [], rules: [], bars: false,
      domain: () => ({
        x: [Math.min(...points.map((each) => each.x), ...held.walls.map((each) => each.intensity)) / 2, Math.max(...points.map((each) => each.x), ...ridges, 2) * 8],
        y: [Math.min(...points.map((each) => each.y), held.peak / 100) / 3, held.peak * 2.5],
      }),
      x: { title: "Warp instructions per transaction of 32 bytes", short: "Warp instructions per transaction" },
      y: { title: "Warp instructions a second", unit: "inst/s" },
      under: (layer, space, labels) => under(layer, space, labels, held, levels),
      says: `Instruction roofline: ${points.length.toLocaleString("en-US")} marks; the table of kernels has their numbers.`,
      after: (space) => {
        const { present, sizes } = Plane.keys(points, space);
        const items = held.levels.filter(({ name }) => styles[name] && present.has(styles[name][0])).map(({ name }) => Plane.key(styles[name].join(""), `at ${name}`));
        legend.replaceChildren(...items, ...sizes);
      },
    };
  }

  Plane.create("instructions", scene);
})();
