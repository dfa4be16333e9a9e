// The columns of a prediction with knobs of the machine turned: run from its tape, added up by line of the page.
"use strict";
const Recompute = (() => {
  const tapes = new Map();

  function tapeOf(prediction) {
    if (!tapes.has(prediction)) tapes.set(prediction, new Tape(prediction.tape));
    return tapes.get(prediction);
  }

  // The knobs of a prediction's tape by name, with the factors that the prediction was made under.
  const knobs = (prediction) => (prediction.tape ? tapeOf(prediction).start : {});

  // Of `places` the key with the most of `seconds`; of equal ones that of the first.
  function most(places, seconds, keyOf) {
    const sums = new Map();
    for (const place of places) sums.set(keyOf(place), (sums.get(keyOf(place)) || 0) + seconds[place]);
    return [...sums].reduce((best, each) => (each[1] > best[1] ? each : best))[0];
  }

  // As `embed.binding` has it: seconds of the rows by what binds them, from which the program's verdict is.
  function binding(found) {
    const sums = { memory: 0, compute: 0, overhead: 0, balanced: 0 };
    found.rows.binds.forEach((binds, place) => {
      const kind = binds in found.levels ? "memory" : binds === "host" || binds === "launch" ? "overhead" : "compute";
      sums[kind] += found.rows.time_s[place];
      if (found.rows.bound[place] === "balanced") sums.balanced += found.rows.time_s[place];
    });
    return sums;
  }

  // `turned` are factors on the machine as predicted; `groups` the report's rows of each line.
  function columns(prediction, groups, turned) {
    const tape = tapeOf(prediction);
    const start = tape.start;
    const factors = {};
    for (const [name, factor] of Object.entries(turned)) if (name in start) factors[name] = start[name] * factor;
    const found = tape.run(factors);
    const at = new Map(prediction.tape.index.map((row, place) => [row, place]));
    const places = groups.map((rows) => rows.map((row) => at.get(row)));
    // Of a line with a row that has no prediction nothing is known.
    const whole = places.map((each) => each.every((place) => place !== undefined));
    const summed = (column) => places.map((each, line) => {
      if (!whole[line]) return null;
      let sum = 0;
      for (const place of each) sum += column[place];
      return sum;
    });
    // Of equal rows that are bound differently the verdict of those that take most of the line's time.
    const { time_s: times, bound, binds } = found.rows;
    const verdicts = places.map((each, line) => (whole[line] ? most(each, times, (place) => `${bound[place]}\n${binds[place]}`).split("\n") : [null, null]));
    const made = {};
    for (const name of ["time_s", "low_s", "high_s", "floor_s", "compute_s", "overhead_s", "host_s", "kernels"]) made[name] = summed(found.rows[name]);
    made.memory_s = {};
    for (const [name, column] of Object.entries(found.levels)) made.memory_s[name] = summed(column);
    made.bound = verdicts.map((each) => each[0]);
    made.binds = verdicts.map((each) => each[1]);
    made.binding = binding(found);
    made.roof = prediction.columns.roof;
    made.unbound = prediction.columns.unbound;
    made.measured_s = prediction.columns.measured_s;
    const lines = Page.data.programs[prediction.program].lines;
    // As `model.program.forecast` has it: the intensity times what moving takes over what computing takes.
    made.ridge = prediction.columns.ridge.map((ridge, line) => {
      const moving = Math.max(0, ...Object.values(made.memory_s).map((column) => column[line] || 0));
      const [flop, bytes] = [lines.flop[line], lines.bytes[line]];
      return flop && bytes && moving && made.compute_s[line] ? ((flop / bytes) * moving) / made.compute_s[line] : ridge;
    });
    made.total = { ...found.program, memory_s: found.program_levels };
    return made;
  }

  // Seconds of the whole program with knobs turned by `turned`, relative to the prediction.
  function time(prediction, turned) {
    const start = tapeOf(prediction).start;
    const factors = Object.fromEntries(Object.entries(turned).map(([name, factor]) => [name, start[name] * factor]));
    return tapeOf(prediction).run(factors).program.time_s;
  }

  return { columns, knobs, time };
})();
