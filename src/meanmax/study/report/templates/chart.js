/* Curves over epochs: a line and its quartiles for each method, with values on pointing. */

function makeChart(place) {
  const { charts } = sectionData(place.dataset.section);
  const state = { chart: charts[0], hidden: new Set(), log: false, epoch: null };
  const tabs = element("div", { class: "tabs", role: "group", "aria-label": "What is shown" });
  const legend = element("div", { class: "legend", role: "group", "aria-label": "Methods" });
  const board = element("div", { class: "board", tabindex: 0, role: "img" });
  place.append(tabs, board, legend);
  const logButton = toggle("log scale", false, on => { state.log = on; draw(); });

  for (const chart of charts) {
    const button = element("button", { type: "button", class: "tab", "aria-pressed": chart === state.chart }, chart.title);
    button.addEventListener("click", () => {
      for (const other of tabs.querySelectorAll(".tab")) other.setAttribute("aria-pressed", other === button);
      state.chart = chart;
      state.epoch = null;
      makeLegend();
      draw();
    });
    tabs.append(button);
  }
  tabs.append(logButton);

  function makeLegend() {
    legend.replaceChildren(...state.chart.lines.map(line => {
      const button = toggle("", !state.hidden.has(line.label), on => {
        if (on) state.hidden.delete(line.label);
        else state.hidden.add(line.label);
        draw();
      });
      const runs = ` (${line.runs} run${line.runs === 1 ? "" : "s"})`;
      const sample = shape("svg", { class: "sample", width: 28, height: 10, "aria-hidden": "true" });
      sample.append(shape("line", { class: strokeOf(line), x1: 0, x2: 28, y1: 5, y2: 5 }));
      button.append(sample, line.label, element("span", { class: "soft" }, runs));
      return button;
    }));
  }

  /* A method has a colour and a dash; where one has several lines, dashes tell those apart. */
  const strokeOf = line => `curve c${line.colour} dash${line.dash ?? line.colour}`;
  const axisName = () => state.chart.axis ?? "epoch";
  const shown = () => state.chart.lines.filter(line => !state.hidden.has(line.label));
  const usable = value => value !== null && (!state.log || value > 0);

  function scales(width, height) {
    const lines = shown();
    const values = lines.flatMap(line => [...line.low, ...line.mid, ...line.high]).filter(usable);
    let low = Math.min(...values), high = Math.max(...values);
    if (!values.length) [low, high] = [0, 1];
    const bend = state.log ? Math.log10 : value => value;
    let [from, to] = [bend(low), bend(high)];
    if (from === to) [from, to] = [from - 0.5, to + 0.5];
    const first = lines.length ? Math.min(...lines.map(line => line.x[0])) : 1;
    const last = Math.max(first + 1, ...lines.map(line => line.x[line.x.length - 1]));
    const box = { left: 52, right: width - 10, top: 10, bottom: height - 34 };
    return {
      box, first, last, low: from, high: to,
      x: epoch => box.left + ((box.right - box.left) * (epoch - first)) / (last - first),
      y: value => box.bottom - ((box.bottom - box.top) * (bend(value) - from)) / (to - from),
      epoch: x => first + ((x - box.left) / (box.right - box.left)) * (last - first),
    };
  }

  function ticks(from, to, most) {
    const rough = (to - from) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(factor => factor * power).find(size => size >= rough);
    const found = [];
    for (let tick = Math.ceil(from / step) * step; tick <= to + step * 1e-6; tick += step) found.push(Number(tick.toPrecision(10)));
    return found;
  }

  function axes(svg, scale) {
    const { box } = scale;
    for (const tick of ticks(scale.low, scale.high, 5)) {
      const value = state.log ? 10 ** tick : tick;
      const y = scale.y(value);
      svg.append(shape("line", { class: "grid", x1: box.left, x2: box.right, y1: y, y2: y }));
      svg.append(shape("text", { class: "tick", x: box.left - 6, y: y + 4, "text-anchor": "end" }, formatted(value)));
    }
    for (const tick of ticks(scale.first, scale.last, 6).filter(Number.isInteger)) {
      svg.append(shape("text", { class: "tick", x: scale.x(tick), y: box.bottom + 16, "text-anchor": "middle" }, String(tick)));
    }
    svg.append(shape("text", { class: "tick", x: (box.left + box.right) / 2, y: box.bottom + 31, "text-anchor": "middle" }, axisName()));
  }

  function path(line, scale, values) {
    let text = "", pen = "M";
    line.x.forEach((epoch, i) => {
      if (!usable(values[i])) pen = "M";
      else {
        text += `${pen}${scale.x(epoch).toFixed(1)},${scale.y(values[i]).toFixed(1)}`;
        pen = "L";
      }
    });
    return text;
  }

  function band(line, scale) {
    const there = line.x.map((_, i) => i).filter(i => usable(line.low[i]) && usable(line.high[i]));
    const point = (i, values) => `${scale.x(line.x[i]).toFixed(1)},${scale.y(values[i]).toFixed(1)}`;
    return [...there.map(i => point(i, line.high)), ...there.reverse().map(i => point(i, line.low))].join(" ");
  }

  function draw() {
    const width = board.clientWidth;
    if (width === 0) return; /* inside what is closed: drawn when it opens */
    const height = Math.max(240, Math.min(340, width * 0.5));
    const svg = shape("svg", { width, height });
    const scale = scales(width, height);
    axes(svg, scale);
    for (const line of shown()) svg.append(shape("polygon", { class: `band c${line.colour}`, points: band(line, scale) }));
    for (const line of shown()) svg.append(shape("path", { class: strokeOf(line), d: path(line, scale, line.mid) }));
    if (state.epoch !== null) {
      const x = scale.x(state.epoch);
      svg.append(shape("line", { class: "cursor", x1: x, x2: x, y1: scale.box.top, y2: scale.box.bottom }));
    }
    board.replaceChildren(svg);
    board.setAttribute("aria-label", `${state.chart.title} against ${axisName()}: ${shown().map(line => line.label).join(", ") || "no method is shown"}`);
    state.scale = scale;
  }

  /* Epochs are thinned out, so the nearest one is shown; depths are exact. */
  const places = () => [...new Set(shown().flatMap(line => line.x))].sort((a, b) => a - b);
  const nearestPlace = at => places().reduce((best, x) => (Math.abs(x - at) < Math.abs(best - at) ? x : best), state.scale.first);
  const hasValue = line => (state.chart.axis ? line.x.includes(state.epoch) : state.epoch <= line.x[line.x.length - 1]);

  function point(at, x, y) {
    const epoch = state.chart.axis ? nearestPlace(at) : Math.round(at);
    state.epoch = Math.max(state.scale.first, Math.min(state.scale.last, epoch));
    draw();
    const lines = shown().filter(hasValue).map(line => {
      const nearest = line.x.reduce((best, at, i) => (Math.abs(at - state.epoch) < Math.abs(line.x[best] - state.epoch) ? i : best), 0);
      return [`${line.label} = ${formatted(line.mid[nearest])} [${formatted(line.low[nearest])}, ${formatted(line.high[nearest])}]`, line.colour];
    });
    showTip([[`${axisName()} ${state.epoch}`], ...lines], x, y);
  }

  function leave() {
    state.epoch = null;
    hideTip();
    draw();
  }

  onPointing(board, event => {
    if (state.scale) point(state.scale.epoch(event.clientX - board.getBoundingClientRect().left), event.clientX, event.clientY);
  }, leave);
  board.addEventListener("blur", leave);
  board.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || !state.scale) return;
    event.preventDefault();
    const far = step * Math.max(1, Math.round(state.scale.last / 50));
    const listed = places(), from = state.epoch ?? state.scale.first - 1;
    const next = listed[Math.max(0, Math.min(listed.length - 1, listed.indexOf(from) + step))];
    const epoch = state.chart.axis ? next ?? from : from + far;
    const rect = board.getBoundingClientRect();
    point(epoch, rect.left + state.scale.x(Math.max(state.scale.first, Math.min(state.scale.last, epoch))), rect.top + 40);
  });
  new ResizeObserver(draw).observe(board);
  makeLegend();
}

document.querySelectorAll(".chart").forEach(makeChart);
