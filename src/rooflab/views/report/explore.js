// The verdict, the totals and the what-if sliders of a report.
"use strict";
(() => {
  const LIMITS = {
    host: "The host limits it: it dispatches operations slower than the device runs them",
    launch: "Starting kernels limits it",
    instructions: "Issuing instructions limits it",
  };
  const BOUNDS = {
    "memory-bound": (name) => `Memory traffic limits it: ${name}`,
    "compute-bound": (name) => `Arithmetic limits it: ${name}`,
    "overhead-bound": (name) => `Overhead limits it: ${name}`,
    balanced: (name, total) => `Balanced: ${name} and ${beside(total)} limit it alike`,
  };
  // The largest term of another sort than that of what binds.
  function beside({ binds, compute_s, memory_s, overhead_s }) {
    const terms = Object.entries(memory_s).map(([name, seconds]) => [name, "memory", seconds]);
    terms.push(["arithmetic", "compute", compute_s], ["overhead", "overhead", overhead_s]);
    const sort = ["host", "launch"].includes(binds) ? "overhead" : binds in memory_s ? "memory" : "compute";
    const others = terms.filter(([, kind]) => kind !== sort);
    return others.reduce((most, each) => (each[2] > most[2] ? each : most))[0];
  }
  const FLOOR = "arithmetic at full peak or the bytes that no cache keeps at full bandwidth, whichever is longer; nothing reaches it";
  const byId = (id) => document.getElementById(id);

  function headline(shown) {
    const { total, missing } = shown;
    if (missing) return `What limits it is not known: ${missing}`;
    return total.bound !== "balanced" && LIMITS[total.binds] ? LIMITS[total.binds] : BOUNDS[total.bound](total.binds, total);
  }

  function distance(shown) {
    const { total, missing, machine } = shown;
    if (missing) return `More than ${duration(total.time_s)} on ${machine}: the rest alone takes that.`;
    const takes = `${duration(total.time_s)} (${duration(total.low_s)} to ${duration(total.high_s)}) on ${machine}`;
    if (!total.floor_s) return `${takes}.`;
    return `${takes}: ${ratio(total.time_s / total.floor_s)} its floor, ${duration(total.floor_s)}: ${FLOOR}.${!Page.changed() && shown.reach ? ` With the changes below ${duration(shown.reach)} is predicted.` : ""}`;
  }

  // The largest share of a roof that work reaches in that time; the roofs follow the sliders. Seconds are by roof.
  function nearest(roofs, time) {
    if (!roofs || !time) return null;
    const at = ([name, seconds, knob]) => ({ name, share: seconds / (Page.state.knobs[knob] || 1) / time });
    return roofs.map(at).sort((a, b) => b.share - a.share)[0] || null;
  }
  Page.nearest = nearest;

  function facts(shown) {
    const { total, missing, program } = shown;
    const least = missing ? "> " : "";
    const few = program.whole ? "" : "> ";
    const found = [];
    if (total) {
      found.push(["time", least + duration(total.time_s), missing ? "" : `${duration(total.low_s)} to ${duration(total.high_s)}`]);
      const rest = missing || !total.floor_s ? "" : `${percent(total.floor_s / total.time_s)} of the time`;
      found.push(["floor", total.floor_s || missing ? least + duration(total.floor_s) : "0 s", rest]);
      const roof = missing || !program.whole ? null : nearest(shown.roof, total.time_s);
      if (roof) found.push(["nearest roof", percent(roof.share), `of ${roof.name}${roof.share > 1 ? ": a cache serves it" : ""}`]);
      const speed = program.flop && total.time_s && program.whole && !missing ? si(program.flop / total.time_s, "FLOP/s") : UNKNOWN;
      found.push(["attained", speed, "FLOP over predicted time"]);
    }
    found.push(["arithmetic", program.flop === null ? UNKNOWN : few + si(program.flop, "FLOP"), "a multiply-add is two"]);
    found.push(["bytes", program.bytes === null ? UNKNOWN : few + si(program.bytes, "B"), "compulsory, both ways"]);
    const each = program.whole && program.bytes ? intensity(program.flop / program.bytes) : UNKNOWN;
    found.push(["intensity", each, "FLOP/byte"]);
    found.push(["peak memory", si(shown.held, "B"), ""]);
    return found;
  }

  function drawFacts(shown) {
    const place = byId("facts");
    place.replaceChildren(...facts(shown).map(([name, value, note]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value, element("small", {}, note)))));
    byId("warnings").replaceChildren(...shown.warnings.map((line) => element("li", {}, ...coded(line))));
    if (!shown.total) {
      byId("how").textContent = byId("distance").textContent = "";
      byId("headline").textContent = `${shown.headline}.`;
      return;
    }
    // On paper the sliders are not seen: what they change is said beside the time.
    const turned = Object.entries(Page.state.knobs).filter(([, factor]) => factor !== 1).map(([name, factor]) => `${name} × ${Number(factor.toPrecision(3))}`);
    const what = shown.tape && turned.length ? `; what if: ${turned.join(", ")}` : "";
    byId("how").textContent = shown.how ? `Predicted: ${shown.how}${what}.` : "";
    byId("headline").textContent = `${headline(shown)}.`;
    byId("distance").textContent = unbroken(distance(shown));
  }

  // Sliders go by factors of two, an eighth of a power a step.
  const factorOf = (slider) => 2 ** Number(slider.value);
  const written = (factor) => `${Number(factor.toPrecision(3))} ×`;

  function drawWhatIf(shown, state) {
    const panel = byId("whatif");
    if (!panel) return;
    for (const slider of panel.querySelectorAll("input[type=range]")) {
      const factor = state.knobs[slider.name] || 1;
      slider.value = Math.log2(factor);
      const worse = SLOWER.has(slider.name) ? factor > 1 : factor < 1;
      slider.setAttribute("aria-valuetext", `${written(factor)} as now${factor === 1 ? "" : worse ? ", slower" : ", faster"}`);
      byId(`${slider.id}-value`).textContent = written(factor);
      slider.disabled = !(slider.name in Recompute.knobs(Page.at()));
    }
    const base = Page.at().total;
    const now = shown.total;
    let words = "As it is: move a slider to see what would change.";
    if (!shown.tape) words = `The sliders work on ${Page.data.predictions.find((one) => one.tape).label}.`;
    else if (Page.changed() && base && now) {
      const least = shown.missing ? "> " : "";
      const times = base.time_s / now.time_s;
      const faster = Math.abs(times - 1) < 0.0005 ? "no change" : times >= 1 ? `${ratio(times)} as fast` : `${ratio(1 / times)} as slow`;
      words = `${least}${duration(base.time_s)} becomes ${least}${duration(now.time_s)}: ${faster}. ${headline(shown)}.`;
    }
    byId("whatif-result").textContent = words;
    byId("reset").disabled = !Page.changed();
  }

  // The seconds that the headline was found from: by what binds each operation, balanced ones with what binds by a little.
  const KINDS = { overhead: "overhead", compute: "arithmetic", memory: "memory" };
  function drawSplit(shown) {
    const place = byId("split");
    const sums = shown.columns.binding || shown.binding;
    const whole = Object.keys(KINDS).reduce((sum, kind) => sum + sums[kind], 0);
    const parts = Object.entries(KINDS).map(([kind, word]) => [word, sums[kind] / whole]).filter(([, share]) => share >= 0.005).sort((a, b) => b[1] - a[1]);
    const alike = sums.balanced / whole;
    place.hidden = !shown.total || !whole;
    place.textContent = `By what binds each operation: ${parts.map(([kind, share]) => `${kind} ${percent(share)}`).join(", ")} of the time${alike >= 0.005 ? `; of it ${percent(alike)} balanced, where the next term takes nearly as long` : ""}.`;
  }

  // What each knob turned to twice as fast would bring, alone: seen on paper too. Worked out when nothing else waits.
  const SLOWER = new Set(["overhead", "dispatch"]); // times, not rates: half is twice as fast
  const later = window.requestIdleCallback || ((work) => setTimeout(work, 0));
  const twice = new Map();
  function drawTwice(shown, state, change, from) {
    const place = byId("twice");
    if (!place || (from !== "start" && !("prediction" in change))) return;
    const one = Page.at();
    const base = shown.total && one.total;
    place.hidden = !base || !base.time_s;
    if (place.hidden) return;
    if (!one.tape) {
      place.textContent = `Twice as good, one at a time: not in this file for ${one.label}, only for ${Page.data.predictions.filter((each) => each.tape).map((each) => each.label).join(", ")}.`;
      return;
    }
    const names = [...byId("whatif").querySelectorAll("input[type=range]")].filter((slider) => slider.name in Recompute.knobs(one));
    if (!twice.has(one)) twice.set(one, new Map());
    const found = twice.get(one);
    const step = () => {
      if (Page.at() !== one) return;
      const next = names.find((slider) => !found.has(slider.name));
      if (next) {
        found.set(next.name, base.time_s / Recompute.time(one, { [next.name]: SLOWER.has(next.name) ? 0.5 : 2 }));
        later(step);
        return;
      }
      const best = names.map((slider) => [SLOWER.has(slider.name) ? `${slider.dataset.title} (half)` : slider.dataset.title, found.get(slider.name)]).sort((a, b) => b[1] - a[1]);
      const said = best.map(([title, times], i) => `${title} ${times < 1.005 ? "no change" : ratio(times)}${i ? "" : " as fast"}`);
      place.replaceChildren(element("strong", {}, "Twice as good, one at a time, no slider moved: "), unbroken(`${said.join(", ")}.`));
    };
    step();
  }

  // Advice was found for the first prediction as it is: of anything else the cards say nothing.
  function drawAdviceOf(shown, state) {
    const place = byId("advice-of");
    if (!place) return;
    const first = Page.data.predictions[0];
    place.hidden = !Page.changed() && state.prediction === 0;
    place.textContent = `These savings are of ${first.label} without the choices above${first.how ? ` (${first.how})` : ""}: they do not follow the machine or the sliders.`;
  }

  Page.watch(drawFacts);
  Page.watch(drawAdviceOf);
  Page.watch(drawSplit);
  Page.watch(drawTwice);
  Page.watch(drawWhatIf);

  const panel = byId("whatif");
  if (panel) {
    let waiting = null;
    panel.addEventListener("input", (event) => {
      if (event.target.type !== "range") return;
      const knobs = { ...(waiting || Page.state.knobs) };
      const factor = factorOf(event.target);
      knobs[event.target.name] = Math.abs(factor - 1) < 1e-9 ? 1 : factor;
      byId(`${event.target.id}-value`).textContent = written(factor);
      // Of several moves within one frame only the last is drawn.
      if (waiting === null) requestAnimationFrame(() => { const last = waiting; waiting = null; Page.set({ knobs: last }, "slider"); });
      waiting = knobs;
    });
    byId("reset").addEventListener("click", () => Page.set({ knobs: {} }, "slider"));
  }
})();
