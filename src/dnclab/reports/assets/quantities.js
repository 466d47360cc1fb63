/* What can be seen of a memory: the words and colours for each array of a recording. */

const BITS = { tint: "grey" };
const USED = { tint: "grey" };
const SIGNED = { tint: "blue", below: "orange" };
// The square root makes small weights visible: attention spread over 64 cells is 0.016 for each.
const WRITTEN = { tint: "blue", exponent: 0.5 };
const READ = { tint: "green", exponent: 0.5 };
const LINKED = { tint: "purple", exponent: 0.5 };
const SHARES = { tint: "green" };

const numbered = (what) => (index) => `${what} ${index}`;
const MODES = ["backward", "content", "forward"];
const mode = (index) => MODES[index];
const head = (index) => `head ${index + 1}`;
const nothing = () => "";

const QUANTITIES = {
  input: {
    title: "Input",
    row: numbered("bit"),
    map: BITS,
    explain: "What the model reads, one column for each step.",
  },
  target: {
    title: "Target",
    row: numbered("bit"),
    map: BITS,
    explain: "What it should say; blank where it should keep silent.",
  },
  output: {
    title: "Output",
    row: numbered("bit"),
    map: BITS,
    explain: "What it says, as the probability of each bit; × marks a bit that is wrong.",
  },
  memory: {
    title: "Memory",
    row: numbered("cell"),
    column: numbered("number"),
    map: SIGNED,
    explain: "What is stored: a row for each cell, a column for each number of its word.",
  },
  links: {
    title: "Links",
    row: (index) => `to cell ${index}`,
    column: (index) => `from cell ${index}`,
    map: LINKED,
    explain: "How much the cell of the row was written just after the cell of the column.",
  },
  usage: {
    title: "Usage",
    short: "used",
    row: numbered("cell"),
    map: USED,
    explain: "How much each cell is in use; the least used are written to first.",
  },
  write_weighting: {
    title: "Write weighting",
    short: "write",
    row: numbered("cell"),
    map: WRITTEN,
    explain: "How much each cell is written at a step.",
  },
  read_weightings: {
    title: "Read weighting",
    short: "read",
    row: numbered("cell"),
    map: READ,
    explain: "How much of what is read comes from each cell.",
  },
  read_modes: {
    title: "Read modes",
    row: mode,
    map: SHARES,
    explain: "How a read finds its cells: back along the links, by content, or forward along them.",
  },
  write_mask: {
    title: "Write mask",
    short: "write mask",
    row: numbered("number"),
    map: USED,
    explain: "Which numbers of a word count when the place to write is looked up by content.",
  },
  read_masks: {
    title: "Read mask",
    short: "read mask",
    row: numbered("number"),
    map: USED,
    explain: "Which numbers of a word count when a read looks cells up by content.",
  },
  write_gate: {
    title: "Write gate",
    row: nothing,
    map: USED,
    explain: "Whether anything is written at all.",
  },
  allocation_gate: {
    title: "Allocation gate",
    row: nothing,
    map: USED,
    explain: "Whether a free cell is written (1) or one that is found by content (0).",
  },
  free_gates: {
    title: "Free gates",
    row: head,
    map: USED,
    explain: "Whether what a head has just read may be forgotten.",
  },
  forwards: {
    title: "Forward",
    row: numbered("cell"),
    map: READ,
    explain: "Where the links lead from the cells that were read last.",
  },
  backwards: {
    title: "Backward",
    row: numbered("cell"),
    map: READ,
    explain: "Where the links come from that lead to the cells that were read last.",
  },
  read_contents: {
    title: "Read by content",
    row: numbered("cell"),
    map: READ,
    explain: "How well the content of each cell fits what a read looks for.",
  },
  allocation: {
    title: "Allocation",
    row: numbered("cell"),
    map: WRITTEN,
    explain: "Which free cell is next in line to be written.",
  },
  write_content: {
    title: "Write by content",
    row: numbered("cell"),
    map: WRITTEN,
    explain: "How well the content of each cell fits what the write looks for.",
  },
  read_strengths: { title: "Read strength" },
  write_strength: { title: "Write strength" },
  forward_sharpness: { title: "Forward sharpness" },
  backward_sharpness: { title: "Backward sharpness" },
};

const SEQUENCE = ["input", "target", "output"];
const MAIN = ["write_weighting", "usage", "read_weightings", "read_modes"];
const MORE = [
  "write_gate", "allocation_gate", "free_gates", "allocation", "write_content",
  "forwards", "backwards", "read_contents", "write_mask", "read_masks",
];
const GAUGES = [
  "read_modes", "write_gate", "allocation_gate", "free_gates",
  "read_strengths", "write_strength", "forward_sharpness", "backward_sharpness",
];

/** How many heads an array tells apart: its shape is [T, heads, K], or it is the same for all. */
function headsOf(array) {
  return array.shape.length === 3 ? array.shape[1] : 1;
}

/** The largest number that an array can hold. */
function limit(array) {
  return (255 - array.zero) * array.scale;
}

function named(quantity, place, heads) {
  return heads > 1 ? `${quantity.title}, head ${place + 1}` : quantity.title;
}

/** The panels of an array over time [T K], [T] or [T heads K], one for each head. */
function overTime(recording, name) {
  const array = recording.arrays[name];
  if (!array) return [];
  const quantity = QUANTITIES[name];
  const heads = headsOf(array);
  const rows = array.shape.length === 1 ? 1 : array.shape.at(-1);
  return Array.from({ length: heads }, (_, place) => ({
    name: named(quantity, place, heads),
    title: quantity.title,
    explain: quantity.explain,
    array,
    rows,
    columns: array.shape[0],
    start: () => place * rows,
    down: 1,
    right: heads * rows,
    overTime: true,
    row: quantity.row,
    map: quantity.map,
    limit: limit(array),
    wrong: name === "output" ? wrongBits(recording) : null,
  }));
}

/** Crosses over the bits that are wrong, as an SVG path in units of cells. */
function wrongBits({ arrays: { target, output } }) {
  if (!target) return null;
  const rows = output.shape[1];
  const crosses = [];
  output.bytes.forEach((byte, place) => {
    if (decode(output, byte) > 0.5 === decode(target, target.bytes[place]) > 0.5) return;
    crosses.push(`M${Math.floor(place / rows) + 0.2} ${(place % rows) + 0.2}l.6 .6m0 -.6l-.6 .6`);
  });
  return crosses.join("");
}

/** The panels of an array at one step, one for each head: standing, or lying along a word. */
function atStep(recording, name, lying = false) {
  return overTime(recording, name).map((panel, place, { length: heads }) => ({
    ...panel,
    rows: lying ? 1 : panel.rows,
    columns: lying ? panel.rows : 1,
    start: (step) => (step * heads + place) * panel.rows,
    right: 1,
    overTime: false,
    row: lying ? nothing : panel.row,
    column: lying ? panel.row : nothing,
    short: QUANTITIES[name].short + (heads > 1 ? ` ${place + 1}` : ""),
  }));
}

/** The panel of an array [T rows columns] at one step. */
function matrix(recording, name) {
  const array = recording.arrays[name];
  if (!array) return null;
  const { title, explain, row, column, map } = QUANTITIES[name];
  const [, rows, columns] = array.shape;
  return {
    name: title,
    explain,
    array,
    rows,
    columns,
    start: (step) => step * rows * columns,
    down: columns,
    right: 1,
    overTime: false,
    row,
    column,
    map,
    limit: limit(array),
  };
}

/** The single numbers of a step: {name, array, limit, place(step)}. */
function gauges(recording) {
  return GAUGES.flatMap((name) => {
    const array = recording.arrays[name];
    if (!array) return [];
    const { title, row } = QUANTITIES[name];
    const size = array.shape.slice(1).reduce((product, length) => product * length, 1);
    const each = name === "read_modes" ? MODES.length : 1;
    const heads = size / each;
    return Array.from({ length: size }, (_, place) => {
      const called = each > 1 ? `${title.replace("modes", row(place % each))}` : title;
      return {
        name: heads > 1 ? `${called}, ${head(Math.floor(place / each))}` : called,
        array,
        limit: limit(array),
        place: (step) => step * size + place,
      };
    });
  });
}
