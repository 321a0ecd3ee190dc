// The panel "Attention by head": where each letter of a name looks.
import {h, setLabel} from "./dom.mjs";
import {heatMap} from "./heat_map.mjs";
import {panel, pictureCanvas} from "./training_controls.mjs";

const HEADS = 4;

export class AttentionPanel {
  // `onName` gets the name to look at, "" for the next one that is learnt.
  constructor(name, onName) {
    const field = h("input", {
      type: "text",
      value: name,
      maxlength: 16,
      placeholder: "the next name",
      spellcheck: "false",
      "aria-label": "name to look at",
      onchange: () => onName(field.value.trim().toLowerCase()),
    });
    this.maps = Array.from({length: HEADS}, () => pictureCanvas("t-head-map", "attention"));
    const figures = this.maps.map((map, i) =>
      h("figure", {}, map, h("figcaption", {}, `head ${i + 1}`)),
    );
    this.element = panel(
      "Attention by head",
      "Rows read, columns are read: how much of each letter goes into the next guess. “·” begins " +
        "a name.",
      h("div", {class: "t-selector"}, field),
      h("div", {class: "t-heads"}, figures),
    );
  }

  // `heads`: of each the weights (T, T), row by row.
  draw({letters, T, heads}) {
    heads.forEach((values, i) => {
      const map = this.maps[i];
      map.style.height = `${map.clientWidth}px`;
      heatMap(map, {
        values,
        rows: T,
        columns: T,
        most: 1,
        rowLabels: letters,
        columnLabels: letters,
        positive: true,
      });
      const strongest = letters.map((letter, row) => {
        const weights = values.subarray(row * T, (row + 1) * T);
        return `${letter} reads ${letters[weights.indexOf(Math.max(...weights))]}`;
      });
      setLabel(map, `Attention of head ${i + 1}, where most of it goes: ${strongest.join(", ")}.`);
    });
  }
}
