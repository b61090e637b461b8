/* A neighbourhood that can be changed, and the aggregates on its number line. */

{
  const MOST = 6, LEAST = 3, LARGEST = 1000;
  const start = { values: [1, 2, 3.5, 6], weights: [1, 1, 1, 1] };
  const begin = { lp: 3, polynomial: 2, softmax: 1 };
  const body = document.querySelector("#neighbours tbody");
  const error = document.getElementById("play-error");
  const normalise = document.getElementById("normalise");
  const board = document.getElementById("line");
  const fields = Array.from(document.querySelectorAll("#playground fieldset"), field => ({
    name: field.dataset.aggr,
    least: Number(field.dataset.least),
    title: field.querySelector("legend").textContent,
    value: field.querySelector("input[type=number]"),
    slider: field.querySelector("input[type=range]"),
  }));

  /* Near the mean a small step shows, far from it a large one is needed: the slider is cubic. */
  const fromSlider = (field, at) => field.least + 50 * (at / 1000) ** 3;
  const toSlider = (field, value) => 1000 * Math.cbrt(Math.min(1, (value - field.least) / 50));

  function addNeighbour(value, weight) {
    const number = body.rows.length + 1;
    const row = element("tr");
    row.append(element("th", { scope: "row" }, String(number)));
    for (const [kind, initial, limits] of [["value", value, {}], ["weight", weight, { min: 0 }]]) {
      const cell = element("td");
      const input = element("input", { type: "number", step: "any", class: kind, "aria-label": `${kind} of neighbour ${number}`, ...limits });
      input.value = initial;
      input.addEventListener("input", update);
      cell.append(input);
      row.append(cell);
    }
    body.append(row);
  }

  function read() {
    const numbers = kind => Array.from(body.querySelectorAll(`input.${kind}`), input => (input.value === "" ? NaN : Number(input.value)));
    const values = numbers("value"), weights = numbers("weight");
    if (![...values, ...weights].every(Number.isFinite)) return { problem: "Every value and weight must be a number." };
    if (weights.some(weight => weight < 0)) return { problem: "Weights must be 0 or more." };
    if (aggregate.total(weights) === 0) return { problem: "At least one weight must be above 0." };
    for (const field of fields) {
      const given = field.value.value === "" ? NaN : Number(field.value.value);
      if (!(given >= field.least && given <= LARGEST)) return { problem: `${field.title}: the parameter must lie between ${field.least} and ${LARGEST}.` };
    }
    return { values, weights };
  }

  function output(id, value) {
    const out = document.getElementById(id);
    out.textContent = value === null ? "–" : value.toFixed(6).replace("-", "−");
    out.dataset.value = value === null ? "" : String(value);
  }

  function update() {
    const { problem, values, weights } = read();
    error.hidden = problem === undefined;
    error.textContent = problem || "";
    if (problem !== undefined) {
      for (const out of document.querySelectorAll("#playground output")) output(out.id, null);
      board.replaceChildren();
      return;
    }
    const total = aggregate.total(weights);
    const used = normalise.checked ? weights.map(weight => weight / total) : weights;
    const mean = aggregate.mean(values, used), max = aggregate.max(values, used), sum = aggregate.sum(values, used);
    output("out-mean", mean);
    output("out-max", max);
    output("out-sum", sum);
    document.getElementById("sum-part").hidden = normalise.checked;
    const results = fields.map((field, number) => {
      const out = aggregate[field.name](values, used, Number(field.value.value));
      output(`out-${field.name}`, out);
      /* maxness is defined for weights that sum to 1 */
      const scaled = aggregate[field.name](values, weights.map(weight => weight / total), Number(field.value.value));
      output(`maxness-${field.name}`, aggregate.maxness(scaled, mean, max));
      return { at: out, colour: number + 1, title: field.title };
    });
    draw(values, used, mean, max, results);
  }

  function draw(values, weights, mean, max, results) {
    const all = [...values, ...results.map(result => result.at)];
    const low = Math.min(...all), high = Math.max(...all), width = high - low || 1;
    const at = value => `${4 + (92 * (value - low)) / width}%`;
    const svg = shape("svg", { width: "100%", height: 150 });
    svg.append(shape("line", { class: "axis", x1: "2%", x2: "98%", y1: 34, y2: 34 }));
    const heaviest = Math.max(...weights);
    values.forEach((value, u) => {
      svg.append(shape("circle", { class: "neighbour", cx: at(value), cy: 34, r: 2 + 6 * Math.sqrt(weights[u] / heaviest) }));
    });
    for (const [name, value] of [["mean", mean], ["max", max]]) {
      svg.append(shape("line", { class: "end", x1: at(value), x2: at(value), y1: 20, y2: 144 }));
      const near = Math.abs(max - mean) < 0.12 * width;
      svg.append(shape("text", { class: "end", x: at(value), y: 13, "text-anchor": near && name === "mean" ? "end" : near ? "start" : "middle" }, name));
    }
    results.forEach((result, lane) => {
      const y = 64 + 30 * lane;
      svg.append(shape("line", { class: "path", x1: at(mean), x2: at(max), y1: y, y2: y }));
      svg.append(shape("line", { class: `walked c${result.colour}`, x1: at(mean), x2: at(result.at), y1: y, y2: y }));
      svg.append(shape("circle", { class: `stand c${result.colour}`, cx: at(result.at), cy: y, r: 7 }));
    });
    board.replaceChildren(svg);
  }

  start.values.forEach((value, u) => addNeighbour(value, start.weights[u]));
  for (const field of fields) {
    field.value.value = begin[field.name];
    field.slider.value = toSlider(field, begin[field.name]);
    field.slider.addEventListener("input", () => {
      field.value.value = Number(fromSlider(field, Number(field.slider.value)).toPrecision(4));
      update();
    });
    field.value.addEventListener("input", () => {
      const given = Number(field.value.value);
      if (field.value.value !== "" && given >= field.least) field.slider.value = toSlider(field, given);
      update();
    });
  }
  const add = document.getElementById("add-neighbour"), remove = document.getElementById("remove-neighbour");
  const bound = () => {
    add.disabled = body.rows.length >= MOST;
    remove.disabled = body.rows.length <= LEAST;
    update();
  };
  add.addEventListener("click", () => { addNeighbour(4, 1); bound(); });
  remove.addEventListener("click", () => { body.lastElementChild.remove(); bound(); });
  normalise.addEventListener("change", update);
  bound();
}
