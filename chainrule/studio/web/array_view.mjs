// An array of numbers to look into: a table of buttons if it is small, else a heat map with a cursor.
import {h, keepingFocus} from "./dom.mjs";
import {exact, short} from "./numbers.mjs";
import {largestOf, shadeOf} from "./thumbnails.mjs";
import {isArray, sizeOf, unravel} from "./arrays.mjs";

const TABLE_ROWS = 9;
const TABLE_COLUMNS = 7;

// `onPick(flat)` is called with the number of an element; `chosen` is the one that is marked.
export function arrayView(array, {name, chosen = null, onPick = null, digits = "short"} = {}) {
  if (!isArray(array)) return h("p", {class: "soft"}, array ? summaryText(array) : "–");
  const show = digits === "exact" ? exact : short;
  if (array.complex)
    return h("p", {class: "soft"}, `complex numbers of shape ${shapeText(array.shape)}`);
  if (array.data.length === 0)
    return h("p", {class: "soft"}, `no elements: shape ${shapeText(array.shape)}`);
  if (array.shape.length === 0) return scalarView(array, name, onPick, show);
  const columns = array.shape.at(-1);
  const rows = array.shape.length > 1 ? array.shape.at(-2) : 1;
  const lead = array.shape.slice(0, -2);
  const state = {page: chosen === null ? 0 : Math.floor(chosen / (rows * columns)), at: chosen};
  const holder = h("div", {class: "array"});
  const draw = () => {
    const offset = state.page * rows * columns;
    const pick = (flat) => {
      state.at = flat;
      onPick?.(flat);
      draw();
    };
    const small = rows <= TABLE_ROWS && columns <= TABLE_COLUMNS;
    const view = (small ? tableOf : heatMapOf)({
      array,
      rows,
      columns,
      offset,
      state,
      pick: onPick && pick,
      show,
      name,
    });
    keepingFocus(holder, () =>
      holder.replaceChildren(...(lead.length ? [pageChooser(lead, state, draw, name)] : []), view),
    );
  };
  draw();
  return holder;
}

export const shapeText = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;

export function summaryText(s) {
  const bad = s.not_finite ? `, ${s.not_finite} not finite` : "";
  return `${shapeText(s.shape)}: ${short(s.low)} … ${short(s.high)}, mean ${short(s.mean, 3)}${bad}`;
}

// One line for a card or a sentence.
export function valueText(array, show = short) {
  if (!array) return "–";
  if (!isArray(array)) return `${short(array.low, 3)} … ${short(array.high, 3)}`;
  if (array.shape.length === 0 && !array.complex) return show(array.data[0]);
  if (!lineTexts.has(array)) lineTexts.set(array, lineText(array));
  return lineTexts.get(array);
}
const lineTexts = new WeakMap();

function lineText(array) {
  if (array.complex) return `complex ${shapeText(array.shape)}`;
  if (array.data.length === 0) return "empty";
  if (array.data.length <= 4 && array.shape.length === 1)
    return `[${Array.from(array.data, (x) => short(x, 3)).join(", ")}]`;
  let [low, high] = [Infinity, -Infinity];
  for (const x of array.data) {
    if (x < low) low = x;
    if (x > high) high = x;
  }
  return low === high ? `all ${short(low, 3)}` : `${short(low, 3)} … ${short(high, 3)}`;
}

function scalarView(array, name, onPick, show) {
  const text = show(array.data[0]);
  return onPick
    ? h(
        "button",
        {class: "number", "aria-label": `${name}: ${text}, open`, onclick: () => onPick(0)},
        text,
      )
    : h("p", {class: "number"}, text);
}

function pageChooser(lead, state, draw, name) {
  const count = sizeOf(lead);
  const select = h(
    "select",
    {
      "aria-label": `which matrix of ${name}`,
      onchange: (e) => {
        state.page = Number(e.target.value);
        state.at = null;
        draw();
      },
    },
    ...Array.from({length: Math.min(count, 500)}, (_, i) =>
      h("option", {value: i, selected: i === state.page}, `[${unravel(i, lead).join(", ")}]`),
    ),
  );
  return h("label", {class: "page"}, "matrix ", select);
}

function tableOf({array, rows, columns, offset, state, pick, show, name}) {
  const top = largestOf(array);
  const cell = (flat) => {
    const x = array.data[flat];
    const [r, g, b] = shadeOf(x, top);
    const style = `--shade: rgb(${r} ${g} ${b})`;
    const at = `[${unravel(flat, array.shape).join(", ")}]`;
    return h(
      "td",
      null,
      pick
        ? h(
            "button",
            {
              style,
              class: flat === state.at ? "cell chosen" : "cell",
              "aria-label": `${name}${at}: ${show(x)}`,
              onclick: () => pick(flat),
            },
            show(x),
          )
        : h("span", {style, class: "cell"}, show(x)),
    );
  };
  const row = (i) =>
    h("tr", null, ...Array.from({length: columns}, (_, j) => cell(offset + i * columns + j)));
  return h(
    "div",
    {class: "scroll", tabindex: 0, role: "region", "aria-label": `elements of ${name}`},
    h("table", {class: "elements"}, ...Array.from({length: rows}, (_, i) => row(i))),
  );
}

function heatMapOf({array, rows, columns, offset, state, pick, show, name}) {
  const top = largestOf(array);
  const image = new ImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++)
    image.data.set([...shadeOf(array.data[offset + i], top), 255], 4 * i);
  const canvas = h("canvas", {
    width: columns,
    height: rows,
    class: "heat",
    tabindex: 0,
    role: "img",
    "data-name": name,
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  const readout = h("p", {class: "readout", "aria-live": "polite"});
  let at = state.at !== null ? state.at - offset : 0;
  const mark = h("div", {class: "cursor"});
  const tell = () => {
    const flat = offset + at;
    const text = `[${unravel(flat, array.shape).join(", ")}] = ${show(array.data[flat])}`;
    readout.textContent = text;
    canvas.setAttribute("aria-label", `${name}, heat map of ${rows} × ${columns}; ${text}`);
    Object.assign(mark.style, {
      left: `${(100 * (at % columns)) / columns}%`,
      top: `${(100 * Math.floor(at / columns)) / rows}%`,
      width: `${100 / columns}%`,
      height: `${100 / rows}%`,
    });
  };
  const under = (e) => {
    const box = canvas.getBoundingClientRect();
    const j = Math.min(
      columns - 1,
      Math.max(0, Math.floor(((e.clientX - box.left) / box.width) * columns)),
    );
    const i = Math.min(
      rows - 1,
      Math.max(0, Math.floor(((e.clientY - box.top) / box.height) * rows)),
    );
    return i * columns + j;
  };
  canvas.addEventListener("pointermove", (e) => {
    at = under(e);
    tell();
  });
  if (pick)
    canvas.addEventListener("click", (e) => {
      at = under(e);
      pick(offset + at);
    });
  canvas.addEventListener("keydown", (e) => {
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns}[e.key];
    if (step && at + step >= 0 && at + step < rows * columns) at += step;
    else if (e.key === "Enter" && pick) pick(offset + at);
    else return;
    e.preventDefault();
    e.stopPropagation();
    tell();
  });
  tell();
  return h(
    "div",
    {class: "heatmap"},
    h(
      "div",
      {class: "heatframe", style: `aspect-ratio:${columns}/${Math.max(rows, columns / 12)}`},
      canvas,
      mark,
    ),
    readout,
  );
}
