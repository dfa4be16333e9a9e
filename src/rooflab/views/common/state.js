// What the page shows at this moment: which prediction, which what-if, which operation; who draws is told of changes.
"use strict";
const Page = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const state = { prediction: 0, knobs: {}, selected: null, words: "", only: null, rows: null };
  const watchers = [];
  let shown = null;

  const at = () => data.predictions[state.prediction];
  const program = () => data.programs[at().program];
  const changed = () => Object.values(state.knobs).some((factor) => factor !== 1);

  // The columns of the prediction as stored, or computed again from its tape with the factors of the sliders.
  function columns() {
    const one = at();
    if (!changed() || !one.tape) return { ...one.columns, total: one.total };
    return Recompute.columns(one, program().lines.rows, state.knobs);
  }

  function show() {
    const lines = program().lines;
    const found = columns();
    const total = found.total;
    const count = lines.name.length;
    const time = found.time_s;
    let known = 0;
    for (const each of time) known += each || 0;
    // Of a time that leaves something out nothing is a known part.
    const share = time.map((each) => (each === null || at().missing || !known ? null : each / known));
    return { ...at(), lines, count, columns: found, total, share, summed: known, program: program() };
  }

  function set(change, from) {
    const before = { ...state };
    Object.assign(state, change);
    if (before.prediction !== state.prediction && data.predictions[before.prediction].program !== at().program) {
      state.selected = null;
      state.rows = null;
    }
    if ("prediction" in change || "knobs" in change || shown === null) shown = show();
    for (const watch of watchers) watch(shown, state, change, from);
  }

  return { data, state, watchers, set, changed, at, watch: (draw) => watchers.push(draw), shown: () => shown };
})();
