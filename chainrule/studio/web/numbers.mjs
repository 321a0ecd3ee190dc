// Numbers as text: five significant digits, or all that tell it from its neighbours.

export function short(x, digits = 5) {
  if (typeof x === "bigint") return String(x).replace("-", "−");
  if (typeof x === "boolean") return x ? "true" : "false";
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (Number.isInteger(x) && Math.abs(x) < 1e9)
    return (Object.is(x, -0) ? "−0" : String(x)).replace("-", "−");
  return String(Number(x.toPrecision(digits)))
    .replace("-", "−")
    .replace("e+", "e");
}

// 12,345
export const commas = (n) => n.toLocaleString("en");

// "1 line", "2,000 lines"
export const countOf = (n, one, many) => `${commas(n)} ${n === 1 ? one : many}`;

// 17 digits at most: reads back as the same float64
export function exact(x) {
  return Number.isFinite(x) ? (Object.is(x, -0) ? "−0" : String(x)).replace("-", "−") : short(x);
}
