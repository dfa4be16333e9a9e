// Draws the charts of a page: for the width of the window, its colours, and anew for paper.
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const wide = matchMedia("(min-width: 930px)");
  const narrow = matchMedia("(max-width: 699px)");
  let paper = false;

  // A chart is stored in its light colours: those of the dark theme stand at the same places.
  const recoloured = (spec) =>
    JSON.parse(JSON.stringify(spec).replace(/#[0-9a-f]{6}/g, (colour) => DARK[colour] || colour));

  function draw() {
    const shade = dark.matches && !paper;
    const size = paper ? "medium" : wide.matches ? "wide" : narrow.matches ? "narrow" : "medium";
    return Promise.all(charts.map((chart, i) => {
      const place = document.getElementById("chart-" + i);
      const label = place.dataset.label;
      const spec = shade ? recoloured(chart.specs[size]) : chart.specs[size];
      const how = { renderer: "svg", actions: false, tooltip: { theme: shade ? "dark" : "light" } };
      return vegaEmbed(place, spec, how).then(() => {
        // Vega names every chart "Vega visualization": those who cannot see it are told what it is.
        place.setAttribute("role", "img");
        place.setAttribute("aria-label", label);
        place.removeAttribute("aria-roledescription");
      });
    }));
  }

  let opened = [];
  addEventListener("beforeprint", () => {
    paper = true;
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((each) => { each.open = true; });
    draw();
  });
  addEventListener("afterprint", () => {
    paper = false;
    opened.forEach((each) => { each.open = false; });
    draw();
  });
  [dark, wide, narrow].forEach((query) => query.addEventListener("change", draw));
  draw();
})();
