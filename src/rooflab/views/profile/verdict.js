// The verdict and the totals of the file that is chosen, as Python wrote them.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  Page.watch((shown, state, change, from) => {
    if (from !== "start" && !("prediction" in change)) return;
    byId("headline").textContent = `${shown.headline}.`;
    byId("distance").textContent = unbroken(shown.distance);
    byId("how").textContent = shown.how;
    byId("warnings").replaceChildren(...shown.warnings.map((line) => element("li", {}, ...coded(line))));
    byId("facts").replaceChildren(...shown.facts.map(([name, value, note]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value, element("small", {}, note)))));
  });
})();
