/* What all parts of the page share: its data, elements, the tip, the theme. Text is only ever set as text. */

const DATA = JSON.parse(document.getElementById("data").textContent);
const sectionData = id => DATA.sections.find(section => section.id === id);

function element(name, attributes = {}, text = null) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

function shape(name, attributes = {}, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

function toggle(text, pressed, change) {
  const button = element("button", { type: "button", class: "toggle", "aria-pressed": pressed }, text);
  button.addEventListener("click", () => {
    const now = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", now);
    change(now);
  });
  return button;
}

/* One number for people: four digits, a proper minus. */
function formatted(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 0.001 || size >= 1e5) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replace("-", "−");
}

/* The tip beside the pointer: lines of text, each with the number of a colour or none. */
const tip = document.getElementById("tip");

function showTip(lines, x, y) {
  tip.replaceChildren(...lines.map(([text, colour]) => {
    const line = element("div");
    if (colour !== undefined && colour !== null) line.append(element("i", { class: `swatch c${colour}` }));
    line.append(text);
    return line;
  }));
  tip.hidden = false;
  const left = Math.min(x + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
  const below = y + 16 + tip.offsetHeight < window.innerHeight;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${window.scrollY + (below ? y + 16 : Math.max(8, y - tip.offsetHeight - 12))}px`;
}

function hideTip() {
  tip.hidden = true;
}

document.addEventListener("keydown", event => {
  if (event.key === "Escape") hideTip();
});

/* A mouse points by moving and is gone when it leaves; a finger points by touching, and what it
   showed stays until it touches elsewhere, which takes the focus away. */
function onPointing(target, point, leave) {
  target.addEventListener("pointerdown", point);
  target.addEventListener("pointermove", point);
  target.addEventListener("pointerleave", event => {
    if (event.pointerType === "mouse") leave();
  });
}

/* Light or dark: what the system prefers, until the button says otherwise. */
const themeButton = document.getElementById("theme");
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
const themed = [];

function themeChanged() {
  themeButton.textContent = isDark() ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  for (const redraw of themed) redraw();
}

themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  themeChanged();
});
prefersDark.addEventListener("change", themeChanged);
themeChanged();

for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const code = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
  });
}

/* A link to a comparison opens it. */
function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
}
window.addEventListener("hashchange", openTarget);
openTarget();
