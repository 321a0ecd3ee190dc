// What a certificate says of a number: how far it is from differences, and how far it may be.
import {h} from "./dom.mjs";

const WORDS = {agrees: ["good", "✓", "agrees with"], differs: ["bad", "✗", "differs from"]};

// `what` was compared with differences of `value`.
export function certificateView(c, what, value, show) {
  if (!c) return null;
  if (!WORDS[c.verdict])
    return line("soft", `– ${what} was not checked${c.why ? `: ${c.why}` : ""}.`);
  const [kind, mark, words] = WORDS[c.verdict];
  return line(
    kind,
    `${mark} ${what} ${words} differences of ${value}: off by ${show(c.difference)}, bound ${show(c.bound)}.`,
  );
}

// Of element `flat` of a contribution, which is `number`.
export function elementCertificateView(c, flat, number, show) {
  if (!c) return null;
  if (!c.elements)
    return line(
      "soft",
      c.verdict === "not checked"
        ? `– This element was not checked${c.why ? `: ${c.why}` : ""}.`
        : "– This element was checked together with all others, along a direction.",
    );
  const [known, bound] = [c.elements.data[flat], c.bounds.data[flat]];
  const difference = Math.abs(number - known);
  const [kind, mark, words] = WORDS[difference > bound ? "differs" : "agrees"];
  return line(
    kind,
    `${mark} This element ${words} differences, which give ${show(known)}: ` +
      `off by ${show(difference)}, bound ${show(bound)}.`,
  );
}

const line = (kind, text) => h("p", {class: `certificate ${kind}`}, text);
