// One element of a contribution as its exact sum: the largest terms first, the rounding last.
import {unravel} from "./arrays.mjs";
import {elementCertificateView} from "./certificates.mjs";
import {h} from "./dom.mjs";
import {roundingOf, termProduct, termsOf} from "./terms.mjs";
import {countOf} from "./numbers.mjs";

const MOST_TERMS = 60;

export function elementSum({trace, sweep, show}, m, flat) {
  let terms;
  try {
    terms = termsOf(
      trace,
      m.upstream ? {gradients: new Map([[m.node, m.upstream]])} : sweep,
      m,
      flat,
    );
  } catch (error) {
    return h("p", {class: "note"}, error.message);
  }
  const total = m.contribution.data[flat];
  const at = `[${unravel(flat, m.contribution.shape).join(", ")}]`;
  const shape = trace.nodes[m.node].shape;
  const title = `element ${at} = sum of ${countOf(terms.length, "term", "terms")}`;
  return h(
    "section",
    {class: "part element"},
    h("h3", null, title),
    h(
      "div",
      {class: "scroll", tabindex: 0, role: "region", "aria-label": `terms of element ${at}`},
      h(
        "table",
        {class: "sum"},
        ...termRows(terms, shape, show),
        ...restRow(roundingOf(terms, total), show),
        totalRow("total", `contribution${at}`, show(total)),
      ),
    ),
    elementCertificateView(m.certificate, flat, total, show),
  );
}

const numberCell = (text) => h("td", {class: "num"}, text);
const totalRow = (kind, text, number) =>
  h("tr", {class: kind}, h("td", {colspan: 5}, text), numberCell(number));

function termRows(terms, shape, show) {
  const bySize = terms
    .map((t) => ({...t, product: termProduct(t)}))
    .sort((a, b) => Math.abs(b.product) - Math.abs(a.product));
  const rows = bySize
    .slice(0, MOST_TERMS)
    .map((t) =>
      h(
        "tr",
        null,
        h("td", null, `g[${unravel(t.j, shape).join(", ")}]`),
        numberCell(show(t.upstream)),
        h("td", null, "×"),
        numberCell(show(t.local)),
        h("td", null, "="),
        numberCell(show(t.product)),
      ),
    );
  const rest = bySize.slice(MOST_TERMS);
  if (rest.length)
    rows.push(
      totalRow(
        "",
        `and ${rest.length} smaller terms`,
        show(rest.reduce((sum, t) => sum + t.product, 0)),
      ),
    );
  return rows;
}

const restRow = (rounding, show) =>
  rounding ? [totalRow("", "rounding, by who added them up", show(rounding))] : [];
