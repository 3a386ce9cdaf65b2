// Tells where the element under the pointer goes, marks it in the other
// drawings of its class, and keeps one way alone on a click.
(() => {
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
for (const hint of document.querySelectorAll(".script")) hint.hidden = false;

// The index of every loop at `rest`, or null: the largest stride first, and
// each of its steps from which the others can still reach.
function digits(loops, rest) {
  if (!loops.length) return rest === 0 ? [] : null;
  const [loop, ...others] = loops;
  const reach = others.reduce((sum, o) => sum + (o.extent - 1) * o.stride, 0);
  let k = Math.min(loop.extent - 1, Math.floor(rest / loop.stride));
  for (; k >= 0 && rest - k * loop.stride <= reach; --k) {
    const found = digits(others, rest - k * loop.stride);
    if (found) return [[loop.at, k], ...found];
  }
  return null;
}

function indices(offset, extents, strides, element) {
  if (element < offset) return null;
  const loops = extents
    .map((extent, at) => ({ extent, at, stride: strides[at] }))
    .filter((loop) => loop.extent > 1)
    .sort((a, b) => b.stride - a.stride);
  return digits(loops, element - offset);
}

const placeOf = (offset, strides, found) =>
  found.reduce((sum, [at, k]) => sum + k * strides[at], offset);

// Places of a box in one kind of drawing: [array, first way, end, offset,
// strides].
function placesOf(box, side) {
  if (side === "s") return [[box[0], box[1], box[1] + 1, box[3], box[6]]];
  if (side === "t") return [[box[2], 0, 1, box[4], box[7]]];
  return box[8];
}

function boxAt(side, array, way, element) {
  for (const box of data.boxes)
    for (const [of, begin, end, offset, strides] of placesOf(box, side)) {
      if (of !== array || way < begin || way >= end) continue;
      const found = indices(offset, box[5], strides, element);
      if (found) return { box, found };
    }
  return null;
}

const axes = new Map();
function axisOf(drawing, name) {
  const text = drawing.dataset[name];
  if (!axes.has(text))
    axes.set(text, text.split(",").map((part) => {
      const [element, pixel] = part.split(":");
      const isGap = pixel[0] === "!";
      return { element: +element, pixel: +pixel.slice(isGap), isGap };
    }));
  return axes.get(text);
}

function elementAt(axis, pixel) {
  for (let i = 0; i + 1 < axis.length; ++i) {
    const from = axis[i], to = axis[i + 1];
    if (pixel < from.pixel || pixel >= to.pixel) continue;
    if (from.isGap) return null;
    const part = (pixel - from.pixel) / (to.pixel - from.pixel);
    return from.element + Math.floor(part * (to.element - from.element));
  }
  return null;
}

function pixelOf(axis, element) {
  for (let i = 0; i + 1 < axis.length; ++i) {
    const from = axis[i], to = axis[i + 1];
    if (element < from.element || element >= to.element) continue;
    const part = from.isGap ? 0.5
      : (element + 0.5 - from.element) / (to.element - from.element);
    return from.pixel + part * (to.pixel - from.pixel);
  }
  return 0;
}

function words(columns, element) {
  const row = Math.floor(element / columns);
  return columns === 1 ? `row ${row}` : `row ${row} column ${element % columns}`;
}

function mark(drawing, element) {
  const columns = +drawing.dataset.c;
  const x = pixelOf(axisOf(drawing, "x"), element % columns);
  const y = pixelOf(axisOf(drawing, "y"), Math.floor(element / columns));
  const circle = document.createElementNS(drawing.namespaceURI, "circle");
  circle.setAttribute("class", "mark");
  circle.setAttribute("cx", x + +drawing.dataset.left);
  circle.setAttribute("cy", y);
  circle.setAttribute("r", 4);
  drawing.append(circle);
}

function clear() {
  tip.hidden = true;
  for (const old of document.querySelectorAll(".mark")) old.remove();
}

function show(drawing, event) {
  clear();
  const frame = drawing.getBoundingClientRect();
  const shrink = drawing.viewBox.baseVal.width / frame.width;
  const column = elementAt(axisOf(drawing, "x"),
    (event.clientX - frame.left) * shrink - drawing.dataset.left);
  const row = elementAt(axisOf(drawing, "y"),
    (event.clientY - frame.top) * shrink + drawing.viewBox.baseVal.y);
  if (row === null || column === null) return;
  const { side, of, c } = drawing.dataset;
  const element = row * c + column;
  const hit = boxAt(side, +of, +(drawing.dataset.way || 0), element);
  tip.textContent = hit ? describe(drawing, hit)
    : `${words(+c, element)}: left out`;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - width - 8);
  const below = event.clientY + 18 + height < innerHeight;
  tip.style.left = `${Math.max(8, x)}px`;
  tip.style.top = `${event.clientY + (below ? 18 : -height - 12)}px`;
}

// Marks the element in all drawings of the card, and says where it is.
function describe(drawing, { box, found }) {
  const texts = [];
  for (const other of drawing.closest(".card").querySelectorAll(".pic")) {
    const { side, of, c } = other.dataset;
    const way = +(other.dataset.way || 0);
    const place = placesOf(box, side).find(
      ([array, begin, end]) => array === +of && begin <= way && way < end);
    if (!place) continue;
    const element = placeOf(place[3], place[4], found);
    mark(other, element);
    texts.push((side === "s" ? `way ${way} ` : side === "t"
      ? `${data.t[of]} ` : `receiver shard ${way} `) + words(+c, element));
  }
  if (!texts.some((text) => text.startsWith("way")))
    texts.unshift(`class ${data.s[box[0]]} way ${box[1]}`);
  return texts.join(" \u2192 ");
}

// Shows one way alone, or all of them ("").
function keep(card, way) {
  card.querySelector("select").value = way;
  for (const part of card.querySelectorAll("[data-w]"))
    part.classList.toggle("faint", way !== "" && part.dataset.w !== way);
}

// A choice of ways for a card with several; a click on a drawing chooses too.
function addChoice(card) {
  const ways = card.querySelectorAll('.pic[data-side="s"]').length;
  if (ways < 2) return;
  const select = document.createElement("select");
  select.add(new Option("all ways", ""));
  for (let way = 0; way < ways; ++way)
    select.add(new Option(`way ${way}`, way));
  select.addEventListener("change", () => keep(card, select.value));
  const label = document.createElement("label");
  label.append("show ", select);
  const item = document.createElement("li");
  item.append(label);
  card.querySelector(".facts").append(item);
  for (const drawing of card.querySelectorAll(".pic"))
    drawing.addEventListener("click", (event) => {
      const way = event.target.dataset.w;
      if (way !== undefined) keep(card, select.value === way ? "" : way);
    });
}

for (const card of document.querySelectorAll(".card")) addChoice(card);
for (const drawing of document.querySelectorAll(".pic")) {
  drawing.addEventListener("pointermove", (event) => show(drawing, event));
  drawing.addEventListener("pointerleave", clear);
}
})();
