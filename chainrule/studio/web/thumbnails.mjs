// Small pictures of arrays: blue above zero, orange below, as deep as the number is large in its array.
import {isArray, sizeOf} from "./arrays.mjs";

export const THUMBNAIL = 36; // pixels of the longer side on the screen
const MOST_CELLS = 18; // cells of a side; a larger array is sampled
const LEAST_SIDE = 9; // pixels of the shorter one
const thumbnails = new WeakMap();

export const largestOf = (array) => {
  let most = 0;
  for (const x of array.data) if (Number.isFinite(x) && Math.abs(x) > most) most = Math.abs(x);
  return most || 1;
};

export function shadeOf(x, top) {
  if (!Number.isFinite(x)) return [0, 0, 0];
  const depth = Math.sqrt(Math.min(1, Math.abs(x) / top));
  const pale = Math.round(255 - 130 * depth);
  return x < 0 ? [255, Math.round(255 - 78 * depth), pale] : [pale, pale, 255];
}

// {url} of the first matrix of an array; null of a number, and of an array that was not kept.
export function thumbnailOf(array) {
  if (!isArray(array) || array.complex || array.shape.length === 0 || array.data.length < 2)
    return null;
  if (!thumbnails.has(array)) thumbnails.set(array, {url: pictureUrl(array)});
  return thumbnails.get(array);
}

function pictureUrl(array) {
  const columns = array.shape.at(-1);
  const rows = array.shape.length > 1 ? array.shape.at(-2) : 1;
  const [wide, tall] = [Math.min(columns, MOST_CELLS), Math.min(rows, MOST_CELLS)];
  const each = Math.max(1, Math.floor(THUMBNAIL / Math.max(wide, tall)));
  const canvas = document.createElement("canvas");
  const [across, down] = [Math.max(each, LEAST_SIDE / wide), Math.max(each, LEAST_SIDE / tall)];
  [canvas.width, canvas.height] = [wide * across, tall * down];
  const context = canvas.getContext("2d");
  const top = largestOf({
    data: array.data.subarray ? array.data.subarray(0, sizeOf([rows, columns])) : array.data,
  });
  for (let i = 0; i < tall; i++)
    for (let j = 0; j < wide; j++) {
      const flat = Math.floor((i * rows) / tall) * columns + Math.floor((j * columns) / wide);
      context.fillStyle = `rgb(${shadeOf(array.data[flat], top).join(" ")})`;
      context.fillRect(j * across, i * down, across, down);
    }
  return canvas.toDataURL();
}
