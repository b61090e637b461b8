/* Embeddings in the plane: a canvas for each aggregator, and the node under the pointer. */

/* Okabe and Ito's colours; from the ninth class on the shape changes too. */
const CLASS_COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#8C8C8C"];
const CLASS_SHAPES = ["●", "■", "▲"];

function makeScatter(place) {
  const data = sectionData(place.dataset.section).scatter;
  const state = { hidden: new Set(), wrongOnly: false };
  const legend = element("div", { class: "legend", role: "group", "aria-label": "Classes" });
  const grid = element("div", { class: "panels" });
  place.append(grid, legend);
  const className = number => (number < 0 ? "no class" : data.class_names[number] ?? `class ${number}`);
  const colourOf = number => (number < 0 ? "#8C8C8C" : CLASS_COLOURS[number % CLASS_COLOURS.length]);
  const shapeOf = number => (number < 0 ? 0 : Math.floor(number / CLASS_COLOURS.length) % CLASS_SHAPES.length);
  const groupOf = (panel, i) => (data.classes ? data.classes[i] : panel.predicted ? panel.predicted[i] : -1);
  const isWrong = (panel, i) => Boolean(data.classes && panel.predicted && data.classes[i] >= 0 && data.classes[i] !== panel.predicted[i]);
  const visible = (panel, i) => !state.hidden.has(groupOf(panel, i)) && (!state.wrongOnly || isWrong(panel, i));

  const present = [...new Set(data.panels.flatMap(panel => panel.x.map((_, i) => groupOf(panel, i))))].sort((a, b) => a - b);
  if (data.alike) legend.classList.add("many");
  const named = present.some(number => number >= 0);
  for (const number of named ? present : []) {
    const button = toggle("", true, on => {
      if (on) state.hidden.delete(number);
      else state.hidden.add(number);
      drawAll();
    });
    const mark = element("span", { class: "mark", "aria-hidden": "true" }, CLASS_SHAPES[shapeOf(number)]);
    mark.style.color = colourOf(number);
    button.append(mark, data.classes || number < 0 ? className(number) : `predicted ${number}`);
    legend.append(button);
  }
  if (data.classes) legend.append(toggle("wrong ones only", false, on => { state.wrongOnly = on; drawAll(); }));

  const panels = data.panels.map(panel => {
    const figure = element("figure");
    const canvas = element("canvas", { tabindex: 0, role: "img", "aria-label": `Embedding with ${panel.aggr}` });
    const caption = element("figcaption");
    caption.append(element("i", { class: `swatch c${panel.colour}` }), panel.aggr);
    if (panel.score !== null && panel.score !== undefined) caption.append(element("span", { class: "soft" }, ` test ${panel.score}`));
    if (panel.silhouette !== null) caption.append(element("span", { class: "soft" }, `, silhouette ${panel.silhouette.toFixed(3).replace("-", "−")}`));
    figure.append(canvas, caption);
    grid.append(figure);
    const view = { panel, canvas, chosen: null };
    listen(view);
    new ResizeObserver(() => draw(view)).observe(canvas);
    return view;
  });

  function position({ panel, canvas }, i) {
    const size = canvas.clientWidth - 12;
    return [6 + (panel.x[i] / 1000) * size, 6 + (1 - panel.y[i] / 1000) * size];
  }

  function mark(context, kind, x, y, r) {
    context.beginPath();
    if (kind === 0) context.arc(x, y, r, 0, 2 * Math.PI);
    else if (kind === 1) context.rect(x - r, y - r, 2 * r, 2 * r);
    else {
      context.moveTo(x, y - r);
      context.lineTo(x + r, y + r);
      context.lineTo(x - r, y + r);
      context.closePath();
    }
  }

  function draw(view) {
    const { panel, canvas } = view;
    const size = canvas.clientWidth;
    if (size === 0) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = canvas.height = Math.round(size * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const ink = getComputedStyle(place).color;
    const r = panel.x.length > 1000 ? 1.8 : panel.x.length > 200 ? 2.6 : 4.5;
    panel.x.forEach((_, i) => {
      if (!visible(panel, i)) return;
      const [x, y] = position(view, i), number = groupOf(panel, i);
      mark(context, shapeOf(number), x, y, r);
      context.fillStyle = colourOf(number);
      context.fill();
      if (isWrong(panel, i)) {
        mark(context, 0, x, y, r + 1.2);
        context.strokeStyle = ink;
        context.lineWidth = 0.9;
        context.stroke();
      }
    });
    if (view.chosen !== null) {
      mark(context, 0, ...position(view, view.chosen), r + 5);
      context.strokeStyle = ink;
      context.lineWidth = 2;
      context.stroke();
    }
  }

  function describe(panel, i) {
    const lines = [[data.ids ? `${data.level} ${data.ids[i]}` : `${data.level} ${data.number[i]}`]];
    if (data.classes) lines.push([`class: ${className(data.classes[i])}`]);
    if (panel.predicted) lines.push([`predicted: ${className(panel.predicted[i])}`]);
    if (data.classes && panel.predicted && data.classes[i] >= 0) lines.push([isWrong(panel, i) ? "wrong" : "correct"]);
    return lines;
  }

  /* The same node is marked in all panels, so that one sees where it went. */
  function choose(view, i, x, y) {
    for (const other of panels) {
      other.chosen = i;
      draw(other);
    }
    if (i === null) hideTip();
    else showTip(describe(view.panel, i), x, y);
  }

  function listen(view) {
    const { panel, canvas } = view;
    onPointing(canvas, event => {
      const rect = canvas.getBoundingClientRect();
      let best = null, nearest = 18 ** 2;
      panel.x.forEach((_, i) => {
        if (!visible(panel, i)) return;
        const [x, y] = position(view, i);
        const distance = (x - event.clientX + rect.left) ** 2 + (y - event.clientY + rect.top) ** 2;
        if (distance < nearest) [best, nearest] = [i, distance];
      });
      choose(view, best, event.clientX, event.clientY);
    }, () => choose(view, null));
    canvas.addEventListener("blur", () => choose(view, null));
    canvas.addEventListener("keydown", event => {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const listed = panel.x.map((_, i) => i).filter(i => visible(panel, i));
      if (!listed.length) return;
      const at = listed.indexOf(view.chosen);
      const next = listed[(at < 0 ? (step > 0 ? 0 : listed.length - 1) : at + step + listed.length) % listed.length];
      const rect = canvas.getBoundingClientRect(), [x, y] = position(view, next);
      choose(view, next, rect.left + x, rect.top + y);
    });
  }

  function drawAll() {
    panels.forEach(draw);
  }
  themed.push(drawAll);
}

document.querySelectorAll(".scatter").forEach(makeScatter);
