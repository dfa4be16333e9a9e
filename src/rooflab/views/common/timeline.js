// What each device did over time, and why it did nothing: equal parts of its time, shares of each stacked.
"use strict";
(() => {
  const place = document.getElementById("timeline");
  if (!place) return;
  const section = place.closest("section");
  const HEIGHT = 84;
  const MOST = 16; // devices in one picture
  const tip = document.getElementById("tip");

  const styleOf = (name) => `did-${name.replace("idle: ", "").replace(/ /g, "-")}`;

  function axis(svg, span, left, right, bottom) {
    const rough = span / Math.max(3, Math.floor((right - left) / 110));
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * unit).find((each) => each >= rough);
    for (let n = 0; n * step <= span * 1.0001; n += 1) {
      const x = left + ((right - left) * n * step) / span;
      svg.append(drawn("line", { class: "tick", x1: x, x2: x, y1: bottom, y2: bottom + 5 }));
      svg.append(drawn("text", { x, y: bottom + 18, "text-anchor": n ? "middle" : "start" }, n ? duration(n * step).replace(/(\.\d*?)0+(?= )/, "$1").replace(/\.(?= )/, "") : "0"));
    }
  }

  function draw(device, width, several) {
    const [left, right, top] = [several ? 4 : 4, width - 4, several ? 20 : 4];
    const bottom = top + HEIGHT;
    const svg = drawn("svg", { class: "parts", viewBox: `0 0 ${width} ${bottom + 24}`, height: bottom + 24, role: "img" });
    const names = Object.keys(device.parts);
    const count = device.parts[names[0]].length;
    const step = (right - left) / count;
    svg.setAttribute("aria-label", `${device.name}: ${device.says}`);
    if (several) svg.append(drawn("text", { x: left, y: 14 }, device.name));
    const ground = new Array(count).fill(0);
    for (const name of names) {
      const shares = device.parts[name];
      let path = "";
      for (let i = 0; i < count; i += 1) {
        if (!shares[i]) continue;
        const low = bottom - ground[i] * HEIGHT;
        const high = bottom - Math.min(1, ground[i] + shares[i]) * HEIGHT;
        path += `M${(left + i * step).toFixed(2)} ${low.toFixed(2)}V${high.toFixed(2)}h${(step + 0.2).toFixed(2)}V${low.toFixed(2)}z`;
        ground[i] += shares[i];
      }
      svg.append(drawn("path", { class: `did ${styleOf(name)}`, d: path }));
    }
    axis(svg, device.span_s, left, right, bottom);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const at = Math.floor((((event.clientX - box.left) * width) / box.width - left) / step);
      if (at < 0 || at >= count) { tip.hidden = true; return; }
      const each = device.span_s / count;
      const facts = names.filter((name) => device.parts[name][at] > 0.0005).map((name) => [name, percent(device.parts[name][at])]);
      Plane.showTip(event, element("strong", {}, `${duration(at * each)} to ${duration((at + 1) * each)}`), element("dl", {}, ...Page.list(facts)));
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    return svg;
  }

  let paper = false;

  function drawAll() {
    const devices = Page.shown().timeline || [];
    section.hidden = !devices.length;
    if (!devices.length) return;
    const width = paper ? 700 : Math.max(280, place.clientWidth);
    const drawnOnes = devices.slice(0, MOST);
    place.replaceChildren(...drawnOnes.map((device) => draw(device, width, devices.length > 1)));
    const names = [...new Set(drawnOnes.flatMap((device) => Object.keys(device.parts).filter((name) => device.parts[name].some(Boolean))))];
    document.getElementById("timeline-legend").replaceChildren(...names.map((name) => {
      const box = drawn("svg", { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" });
      box.append(drawn("rect", { class: `did ${styleOf(name)}`, width: 14, height: 14 }));
      return element("li", {}, box, name);
    }));
    const left = devices.length - drawnOnes.length;
    document.getElementById("timeline-note").textContent = `Equal parts of the time since the first activity: what ran in each, and why nothing did.${left ? ` ${left} more devices are left out.` : ""}`;
  }

  addEventListener("beforeprint", () => { paper = true; drawAll(); });
  addEventListener("afterprint", () => { paper = false; drawAll(); });
  let width = 0;
  new ResizeObserver(() => {
    const now = place.clientWidth;
    if (now && now !== width && Page.shown()) { width = now; drawAll(); }
  }).observe(place);
  Page.watch((shown, state, change, from) => {
    if (from === "start" || "prediction" in change) drawAll();
  });
})();
