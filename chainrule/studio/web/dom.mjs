// Making elements: `h` for HTML, `s` for SVG. Attributes named on… are listeners, null is left out.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// What a reader of the screen hears of an element.
export function setLabel(element, text) {
  element.setAttribute("aria-label", text);
}

// Changes what is in `place`; a control that had the focus and is made anew gets it back, else `place`.
export function keepingFocus(place, change) {
  const focusedName =
    place.contains(document.activeElement) && document.activeElement !== place
      ? controlName(document.activeElement)
      : null;
  change();
  if (focusedName === null || place.contains(document.activeElement)) return;
  const controls = [
    ...place.querySelectorAll("button, select, input, textarea, summary, [tabindex]"),
  ];
  const same =
    controls.find((e) => controlName(e) === focusedName) ??
    controls.find((e) => e.matches("button.primary"));
  (same ?? place).focus({preventScroll: true});
}
const controlName = (e) =>
  `${e.localName} ${e.dataset.name ?? e.getAttribute("aria-label") ?? e.textContent}`;
