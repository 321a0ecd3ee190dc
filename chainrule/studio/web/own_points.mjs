// Points by hand: one is added, the last is removed, all stand in the address.
import {POINTS_MOST, pastedPoints} from "./datasets.mjs";

const ADDRESS_MOST = 150; // more points than this do not go into an address

// `label` is 0 or 1. null where there is no room.
export function withPoint({x, y, numbers}, [left, up, label]) {
  if (y.length >= POINTS_MOST) return null;
  const coordinates = [left, up].map((v) => Math.round(v * 1000) / 1000);
  const value = numbers ? 2 * label - 1 : label;
  return ownPoints([...x, ...coordinates], [...y, value], numbers);
}

export function withoutLast({x, y, numbers}, count) {
  const n = Math.max(0, y.length - count);
  return ownPoints([...x].slice(0, 2 * n), [...y].slice(0, n), n ? numbers : false);
}

const ownPoints = (x, y, numbers) => ({x: Float64Array.from(x), y: Float64Array.from(y), numbers});

export const NO_POINTS = ownPoints([], [], false);

// "1_2_0~-1_0.5_1": x, y and label of each; null where there are too many.
export function pointsToAddress({x, y}) {
  if (y.length > ADDRESS_MOST) return null;
  const row = (label, i) => [x[2 * i], x[2 * i + 1], label].map((v) => Number(v.toFixed(3)));
  return Array.from(y, (label, i) => row(label, i).join("_")).join("~");
}

export const pointsOfAddress = (text) =>
  pastedPoints((text ?? "").replaceAll("~", "\n").replaceAll("_", ",")).points;
