// Canvases: the page's colours as they are now, sizes in pixels of the screen, scales of colours.

export const CHART_FONT = "12px system-ui, sans-serif";

// The page's colours as they are now, by role.
export function chartColours() {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const key = [dark, root.className, root.dataset.theme, root.getAttribute("style")].join();
  if (coloursNow?.key === key) return coloursNow.colours; // asking for styles lays the page out
  const style = getComputedStyle(root);
  const of = (role) => style.getPropertyValue(`--${role}`).trim() || "#888";
  const roles = [
    "ink",
    "ground",
    "panel",
    "rim",
    "rule",
    "soft",
    "edge",
    "accent",
    "contrast",
    "good",
    "look",
    "bad",
  ];
  coloursNow = {key, colours: Object.fromEntries(roles.map((role) => [role, of(role)]))};
  return coloursNow.colours;
}
let coloursNow = null;

// Calls `redraw` when the colour scheme changes. Returns what stops that.
export function onSchemeChange(redraw) {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const observer = new MutationObserver(redraw);
  query.addEventListener("change", redraw);
  observer.observe(document.documentElement, {
    attributes: true,
    attributeFilter: ["class", "data-theme", "style"],
  });
  return () => {
    query.removeEventListener("change", redraw);
    observer.disconnect();
  };
}

export const calmMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// A canvas as large as its box, in pixels of the screen; the context draws in CSS pixels.
export function sizedCanvas(canvas, height = canvas.clientHeight) {
  const width = canvas.clientWidth;
  const scale = devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * scale));
  const tall = Math.max(1, Math.round(height * scale));
  if (canvas.width !== w || canvas.height !== tall) Object.assign(canvas, {width: w, height: tall});
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  return {g, width, height};
}

// The three numbers of "#rrggbb".
export function rgb(colour) {
  const hex = colour.replace("#", "");
  return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

// 256 colours from one for -1 over the middle for 0 to another for 1, as [r, g, b]; `words` are they as
// an image holds them.
export function divergingColours(low, middle, high, strength = 1) {
  const key = [low, middle, high, strength].join();
  if (!divergingScales.has(key)) {
    const ends = [rgb(low), rgb(middle), rgb(high)];
    const colours = Array.from({length: 256}, (_, i) => {
      const v = i / 127.5 - 1;
      const end = v < 0 ? ends[0] : ends[2];
      const t = Math.abs(v) * strength;
      return end.map((c, k) => Math.round(c * t + ends[1][k] * (1 - t)));
    });
    colours.words = Uint32Array.from(
      colours,
      ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0,
    );
    divergingScales.set(key, colours);
  }
  return divergingScales.get(key);
}
const divergingScales = new Map();
