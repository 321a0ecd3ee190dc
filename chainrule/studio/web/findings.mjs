// What the certificates of a sweep say as a whole: which rules are wrong, and which gradients they
// spoil: those of everything to which a wrong contribution was handed on.
import {h} from "./dom.mjs";
import {countOf} from "./numbers.mjs";

// {wrong: Map of node → its first message that differs, victims: Set of nodes}
export function findingsOf(trace, sweep) {
  const wrong = new Map();
  const victims = new Set();
  const isRight = (id) => sweep.certificates?.get(id)?.verdict === "agrees";
  for (const m of sweep?.messages ?? []) {
    const isWrong = m.certificate?.verdict === "differs";
    if (isWrong && !wrong.has(m.node)) wrong.set(m.node, m);
    if ((isWrong || victims.has(m.node)) && !isRight(m.target)) victims.add(m.target);
  }
  for (const id of wrong.keys()) victims.delete(id);
  return {wrong, victims};
}

// A line for each wrong rule; `go(message)` shows the message.
export function findingsList(trace, {wrong, victims}, go) {
  const rows = [...wrong.values()].map((m) =>
    h(
      "li",
      null,
      h("button", {class: "link", onclick: () => go(m)}, trace.nameOf(m.node)),
      `: ${m.certificate.slip || "its contributions differ from differences of its value"}`,
    ),
  );
  if (!rows.length) return null;
  const victimText = victims.size
    ? ` ${countOf(victims.size, "gradient is", "gradients are")} spoiled by it.`
    : "";
  return h(
    "div",
    {class: "findings bad", role: "status"},
    h(
      "p",
      null,
      `${rows.length === 1 ? "One rule is" : `${rows.length} rules are`} wrong in this backward pass.${victimText}`,
    ),
    h("ul", null, ...rows),
  );
}

export function correctionOf({slip, before, after}) {
  if (!slip) return null;
  return h(
    "section",
    {class: "part"},
    h("h3", null, `The verifier's finding: ${slip}`),
    before && after
      ? h(
          "pre",
          {class: "diff", tabindex: 0},
          h("span", {class: "bad"}, `- ${before}`),
          "\n",
          h("span", {class: "good"}, `+ ${after}`),
        )
      : null,
  );
}
