// Predicts a report again in the page: runs the instructions that model/program/tape.py recorded (its docstring
// has the format). new Tape(data).run({bandwidth: 2}) gives columns by row and the program's numbers.

const Tape = (() => {
  "use strict";

  // A value is {r: rows, c: columns, d: numbers row by row}; 1 row or column stands for as many as it meets.
  const single = value => ({r: 1, c: 1, d: [value]});

  function unpacked(form) {
    if (typeof form === "number") return single(form);
    const size = form.r * form.c;
    let numbers;
    if (form.s) numbers = Float64Array.from({length: size}, (_, place) => form.s[0] + form.s[1] * place);
    else if (form.u) numbers = Float64Array.from(form.i, place => form.u[place]);
    else if (form.b) {
      const view = new DataView(Uint8Array.from(atob(form.b), letter => letter.charCodeAt(0)).buffer);
      numbers = Float64Array.from({length: size}, (_, place) => view.getFloat64(8 * place, true));
    } else numbers = Float64Array.from(form.v);
    return {r: form.r, c: form.c, d: numbers};
  }

  // Element by element; each has its own loop, which the browser compiles.
  const ONE = {
    negative: (a, o) => { for (let i = 0; i < o.length; i++) o[i] = -a[i]; },
    absolute: (a, o) => { for (let i = 0; i < o.length; i++) o[i] = Math.abs(a[i]); },
    floor: (a, o) => { for (let i = 0; i < o.length; i++) o[i] = Math.floor(a[i]); },
    ceil: (a, o) => { for (let i = 0; i < o.length; i++) o[i] = Math.ceil(a[i]); },
    sqrt: (a, o) => { for (let i = 0; i < o.length; i++) o[i] = Math.sqrt(a[i]); },
    exp: (a, o) => { for (let i = 0; i < o.length; i++) o[i] = Math.exp(a[i]); },
    log: (a, o) => { for (let i = 0; i < o.length; i++) o[i] = Math.log(a[i]); },
    expm1: (a, o) => { for (let i = 0; i < o.length; i++) o[i] = Math.expm1(a[i]); },
    logical_not: (a, o) => { for (let i = 0; i < o.length; i++) o[i] = a[i] ? 0 : 1; },
  };
  const TWO = {
    add: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] + b[t * i]; },
    subtract: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] - b[t * i]; },
    multiply: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] * b[t * i]; },
    divide: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] / b[t * i]; },
    power: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] ** b[t * i]; },
    maximum: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = Math.max(a[s * i], b[t * i]); },
    minimum: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = Math.min(a[s * i], b[t * i]); },
    hypot: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = Math.hypot(a[s * i], b[t * i]); },
    less: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] < b[t * i] ? 1 : 0; },
    less_equal: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] <= b[t * i] ? 1 : 0; },
    greater: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] > b[t * i] ? 1 : 0; },
    greater_equal: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] >= b[t * i] ? 1 : 0; },
    equal: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] === b[t * i] ? 1 : 0; },
    not_equal: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] !== b[t * i] ? 1 : 0; },
    logical_and: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] && b[t * i] ? 1 : 0; },
    logical_or: (a, b, o, s, t) => { for (let i = 0; i < o.length; i++) o[i] = a[s * i] || b[t * i] ? 1 : 0; },
  };

  // Written out where it is a row or column that meets a table; a single number is stepped over instead.
  function spread(x, r, c) {
    if (x.r === r && x.c === c) return x;
    const numbers = new Float64Array(r * c), down = x.r > 1 ? x.c : 0, along = x.c > 1 ? 1 : 0;
    for (let i = 0, place = 0; i < r; i++)
      for (let j = 0; j < c; j++) numbers[place++] = x.d[down * i + along * j];
    return {r, c, d: numbers};
  }

  function elementwise(name, given) {
    const r = Math.max(...given.map(x => x.r)), c = Math.max(...given.map(x => x.c));
    const met = given.map(x => x.r * x.c === 1 ? x : spread(x, r, c));
    const steps = met.map(x => x.r * x.c === 1 ? 0 : 1), numbers = new Float64Array(r * c);
    if (given.length === 1) ONE[name](met[0].d, numbers);
    else if (given.length === 2) TWO[name](met[0].d, met[1].d, numbers, ...steps);
    else {
      const [test, yes, no] = met.map(x => x.d), [s, t, u] = steps;
      for (let i = 0; i < numbers.length; i++) numbers[i] = test[s * i] ? yes[t * i] : no[u * i];
    }
    return {r, c, d: numbers};
  }

  // Down the rows, each column by itself: next(what is there, what was made of the row before, the row before).
  function down(x, next) {
    const numbers = new Float64Array(x.d.length);
    for (let i = 0; i < numbers.length; i++)
      numbers[i] = i < x.c ? x.d[i] : next(x.d[i], numbers[i - x.c], x.d[i - x.c]);
    return {r: x.r, c: x.c, d: numbers};
  }

  const OTHER = {
    take: ([x, places], r, c) => ({r, c, d: Float64Array.from(places.d, place => x.d[place])}),
    put: ([x, places, given], r, c) => {
      const numbers = Float64Array.from(spread(x, r, c).d), step = given.r * given.c === 1 ? 0 : 1;
      for (let i = 0; i < places.d.length; i++) numbers[places.d[i]] = given.d[step * i];
      return {r, c, d: numbers};
    },
    spread: ([x], r, c) => spread(x, r, c),
    stack: (given, r, c) => {
      const numbers = new Float64Array(r * c), count = given.length;
      given.forEach((x, k) => {
        const step = x.r * x.c === 1 ? 0 : 1;
        for (let i = 0; i * count < numbers.length; i++) numbers[i * count + k] = x.d[step * i];
      });
      return {r, c, d: numbers};
    },
    sum: ([x]) => single(x.d.reduce((all, each) => all + each, 0)),
    sum_rows: ([x]) => {
      const numbers = new Float64Array(x.c);
      for (let i = 0; i < x.d.length; i++) numbers[i % x.c] += x.d[i];
      return {r: 1, c: x.c, d: numbers};
    },
    cumsum: ([x]) => down(x, (here, made) => made + here),
    cummax: ([x]) => down(x, (here, made) => Math.max(made, here)),
    diff: ([x]) => down(x, (here, _, before) => here - before),
  };
  const SIZED = new Set(["take", "put", "spread", "stack"]);

  return class Tape {
    constructor(data) {
      this.data = data;
      this.constants = data.constants.map(unpacked);
    }

    // {knob: its factor in the report}
    get start() { return Object.fromEntries(this.data.knobs); }

    // factors: {knob: factor on the machine's own number}; what is not given is as in the report.
    // Gives {rows: {time_s: numbers of the rows data.index, …, bound: [words], binds: [words]}, levels: {name:
    // numbers}, program: {time_s: …, bound: word, …}, program_levels: {name: seconds}}.
    run(factors = {}) {
      const {knobs, code, index, bounds, names} = this.data;
      const values = [...knobs.map(([name, start]) => single(factors[name] ?? start)), ...this.constants];
      for (const [name, ...rest] of code) {
        const sizes = SIZED.has(name) ? rest.splice(-2) : [];
        const given = rest.map(number => values[number]);
        values.push(name in OTHER ? OTHER[name](given, ...sizes) : elementwise(name, given));
      }
      const words = {bound: bounds, binds: names};
      const read = (numbers, count) => Object.fromEntries(Object.entries(numbers).map(([name, number]) => {
        const column = spread(values[number], count, 1).d;
        return [name, words[name] ? Array.from(column, place => words[name][place]) : column];
      }));
      const first = numbers => Object.fromEntries(Object.entries(read(numbers, 1)).map(([k, v]) => [k, v[0]]));
      return {
        rows: read(this.data.rows, index.length),
        levels: read(this.data.levels, index.length),
        program: first(this.data.program),
        program_levels: first(this.data.program_levels),
      };
    }
  };
})();
