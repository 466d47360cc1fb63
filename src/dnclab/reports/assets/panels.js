/* Panels: parts of a recording drawn as coloured cells, a pixel each, which CSS makes large.

   A panel is a plain object:
     name, explain        what it is called, and the sentence about it
     title                the name without the head
     array                the numbers that it shows a part of
     rows, columns        how many cells it has
     start(step)          where its first cell is in the array
     down, right          how far from there to the next row and to the next column
     overTime             whether its columns are the steps; if not, it shows one step at a time
     row(index)           a row in words: "cell 3"
     column(index)        a column in words; of panels that are not over time
     map, limit           its colours, and the value that has the strongest one
     wrong                a drawing of crosses over its wrong cells, if it has any */

/** A new element; attributes that are functions listen to the event of their name. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** A drawing stretched over a panel, in units of its cells. */
function overlay(className, columns, rows, path) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  const shape = document.createElementNS(space, "path");
  const attributes = { viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: "none" };
  for (const [name, value] of Object.entries({ ...attributes, "aria-hidden": "true" })) {
    drawing.setAttribute(name, value);
  }
  drawing.setAttribute("class", className);
  shape.setAttribute("d", path);
  drawing.append(shape);
  return drawing;
}

function valueAt(panel, step, row, column) {
  const place = panel.start(step) + row * panel.down + column * panel.right;
  return decode(panel.array, panel.array.bytes[place]);
}

/** What a cell of a panel says, in words. */
function describe(panel, step, row, column) {
  const where = panel.overTime
    ? [panel.row(row), `step ${column}`]
    : [panel.row(row), panel.column(column), `step ${step}`];
  const value = spell(valueAt(panel, step, row, column));
  return { name: panel.name, where: where.filter(Boolean).join(", "), value };
}

/** For each byte of a panel's array its colour, as a pixel. */
function colourTable(panel, theme) {
  const channels = new Uint8ClampedArray(4 * 256).fill(255);
  for (let byte = 0; byte < 256; byte += 1) {
    const value = decode(panel.array, byte) / panel.limit;
    channels.set(colourOf(value, panel.map, theme), 4 * byte);
  }
  return new Uint32Array(channels.buffer);
}

/** Draw a panel's cells at a step into a canvas that has a pixel for each. */
function drawCells(panel, canvas, colours, step) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(panel.columns, panel.rows);
  const pixels = new Uint32Array(image.data.buffer);
  const { bytes } = panel.array;
  let pixel = 0;
  for (let row = 0; row < panel.rows; row += 1) {
    let place = panel.start(step) + row * panel.down;
    for (let column = 0; column < panel.columns; column += 1, place += panel.right) {
      pixels[pixel] = colours[bytes[place]];
      pixel += 1;
    }
  }
  context.putImageData(image, 0, 0);
}
