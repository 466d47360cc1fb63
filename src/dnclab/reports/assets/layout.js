/* The sections of the player. Each function makes an element; panels, gauges and words that change
   with the step are added to the player's lists as they are made. */

const FEW_ROWS = 3;

/** The whole sequence, what happens at one step, and the same over time. */
function layOut(player) {
  return [
    sequenceSection(player),
    stepSection(player),
    overTimeSection(player, "Over time", MAIN),
    overTimeSection(player, "More over time", MORE, "details", "summary"),
  ].filter(Boolean);
}

// --- the sequence ----------------------------------------------------------------------------------

function sequenceSection(player) {
  const { words } = player.recording;
  const content = words ? [textFigure(player, words)] : SEQUENCE.flatMap((name) => strips(player, name));
  return element("section", {}, element("h3", {}, "The sequence"), phaseBar(player.recording), ...content);
}

/** The phases by name, and below them bars where answers are due. */
function phaseBar({ phases, answers, steps }) {
  const names = phases.map(({ name, start, stop }) => {
    const phase = element("span", { title: `${name}: steps ${start} to ${stop - 1}` }, name);
    phase.style.left = `${(100 * start) / steps}%`;
    phase.style.width = `${(100 * (stop - start)) / steps}%`;
    return phase;
  });
  const bars = stretches(answers).map(([first, after]) => `M${first} 0H${after}V1H${first}Z`);
  return element(
    "div",
    { class: "phases" },
    element("span", { class: "label" }, "answer due"),
    element("div", { class: "names" }, ...names, overlay("answers", steps, 1, bars.join(""))),
  );
}

/** The stretches of steps at which a flag is set, as [first, after the last]. */
function stretches(flags) {
  const found = [];
  flags.forEach((flag, step) => {
    if (flag && !flags[step - 1]) found.push([step, step]);
    if (flag) found.at(-1)[1] = step + 1;
  });
  return found;
}

/** A task on words: the text, and in it what was answered. */
function textFigure(player, { input, target, output }) {
  player.texts = input.map((word, step) => {
    const jump = { click: () => player.seek(step) };
    if (target[step] === null) return element("span", jump, word);
    if (target[step] === output[step]) {
      return element("span", { ...jump, class: "right" }, `✓ ${output[step]}`);
    }
    const wanted = element("ins", {}, target[step]);
    return element("span", { ...jump, class: "wrong" }, `✗ ${output[step]} `, wanted);
  });
  const explain = "What the model reads, and its answers; after a wrong one (✗) the right one.";
  const text = element("p", { class: "text", tabindex: "0" });
  text.append(...player.texts.flatMap((word) => [word, " "]));
  return element("figure", {}, caption("Text", explain), text);
}

// --- one step ----------------------------------------------------------------------------------------

function stepSection(player) {
  const { recording } = player;
  const blocks = [memoryFigure(player), linksFigure(player)].filter(Boolean);
  const where = element("span", { class: "where" });
  player.places.push(where);
  return element(
    "section",
    {},
    element("h3", {}, "At ", where),
    element("div", { class: "blocks" }, ...blocks),
    ...(recording.arrays.links ? [] : [element("p", { class: "absent" }, "The links were not recorded.")]),
    gaugesFigure(player),
  );
}

/** The memory, weightings beside its cells, masks above its columns. */
function memoryFigure(player) {
  const { recording } = player;
  const memory = matrix(recording, "memory");
  if (!memory) return null;
  const before = [...atStep(recording, "write_weighting"), ...atStep(recording, "usage")];
  const after = atStep(recording, "read_weightings");
  const masks = ["write_mask", "read_masks"].flatMap((name) => atStep(recording, name, true));
  const label = (text, kind = "") => element("span", { class: `label ${kind}` }, text);
  const grid = element(
    "div",
    { class: "memory" },
    ...masks.flatMap((mask) => [label(mask.short, "mask"), plot(player, mask)]),
    ...before.map((side) => label(side.short)),
    label(`${memory.rows} cells of ${memory.columns} numbers`),
    ...after.map((side) => label(side.short)),
    ...[...before, memory, ...after].map((panel) => plot(player, panel)),
  );
  grid.style.setProperty("--before", before.length);
  grid.style.setProperty("--after", after.length);
  grid.style.setProperty("--height", `${Math.max(memory.rows, Math.min(20 * memory.rows, 384))}px`);
  return element(
    "figure",
    { class: "block" },
    caption("Memory", memory.explain, scale(player, memory)),
    grid,
    legend([...before, ...after, ...masks]),
  );
}

function linksFigure(player) {
  const links = matrix(player.recording, "links");
  if (!links) return null;
  return element(
    "figure",
    { class: "block" },
    caption("Links", links.explain, scale(player, links)),
    element(
      "div",
      { class: "links" },
      element("span", { class: "label" }, "from cell →"),
      element("span", { class: "label down" }, "to cell →"),
      plot(player, links),
    ),
  );
}

/** Modes, gates and strengths as bars with their numbers. */
function gaugesFigure(player) {
  const items = gauges(player.recording).map((gauge) => {
    const fill = element("span", { class: "fill" });
    const number = element("span", { class: "number" });
    player.gauges.push({ ...gauge, fill, number });
    const bar = element("span", { class: "gauge" }, fill);
    return element("li", {}, element("span", { class: "name" }, gauge.name), bar, number);
  });
  const explain = "How a read finds its cells, and how open the gates are.";
  return element("figure", {}, caption("Modes and gates", explain), element("ul", { class: "gauges" }, ...items));
}

// --- over time ---------------------------------------------------------------------------------------

function overTimeSection(player, title, names, kind = "section", heading = "h3") {
  const content = names.flatMap((name) => strips(player, name));
  if (!content.length) return null;
  return element(kind, {}, element(heading, {}, title), ...content);
}

function strips(player, name) {
  return overTime(player.recording, name).map((panel) => strip(player, panel));
}

/** A panel over time with names beside its rows: each, or if they are many the first and last. */
function strip(player, panel) {
  const few = panel.rows <= FEW_ROWS;
  const named = few ? Array.from({ length: panel.rows }, (_, row) => row) : [0, panel.rows - 1];
  const axis = element("div", { class: "axis" }, ...named.map((row) => element("span", {}, panel.row(row))));
  const drawn = plot(player, panel);
  const height = few ? 18 * panel.rows : Math.max(panel.rows, Math.min(7 * panel.rows, 128));
  drawn.style.height = `${height}px`;
  return element(
    "figure",
    { class: "strip" },
    caption(panel.name, panel.explain, scale(player, panel)),
    axis,
    drawn,
  );
}

// --- parts -------------------------------------------------------------------------------------------

function caption(name, explain, ...rest) {
  return element("figcaption", {}, element("b", {}, name), element("span", {}, explain), ...rest);
}

/** A sentence for each of the panels that have no caption of their own. */
function legend(panels) {
  const sentences = new Map(panels.map(({ title, explain }) => [title, explain]));
  const rows = [...sentences].flatMap(([title, explain]) => [
    element("dt", {}, title),
    element("dd", {}, explain),
  ]);
  return element("dl", {}, ...rows);
}

/** A bar of a panel's colours with the values at its ends. */
function scale(player, panel) {
  const bar = element("span", { class: "bar" });
  player.scales.push({ bar, map: panel.map });
  const [lowest, highest] = [panel.map.below ? -panel.limit : 0, panel.limit].map(spell);
  return element("span", { class: "scale" }, lowest, bar, highest);
}

/** The cells of a panel; a pointer or keys ask it for values. */
function plot(player, panel) {
  const canvas = element("canvas", { width: panel.columns, height: panel.rows });
  const mark = element("div", { class: "mark", hidden: "" });
  const view = { panel, canvas, mark, row: 0, column: 0 };
  player.views.push(view);
  view.plot = element(
    "div",
    {
      class: panel.overTime ? "plot over-time" : "plot",
      tabindex: "0",
      role: "img",
      "aria-label": `${panel.name}: ${panel.explain}`,
      pointerdown: (event) => player.point(view, event),
      pointermove: (event) => player.point(view, event),
      pointerleave: () => player.look(null),
      focus: () => view.plot.matches(":focus-visible") && player.look(view),
      blur: () => player.look(null),
      keydown: (event) => player.walk(view, event),
    },
    canvas,
  );
  if (panel.wrong) view.plot.append(overlay("wrong", panel.columns, panel.rows, panel.wrong));
  if (panel.overTime) view.plot.append(element("div", { class: "cursor" }));
  view.plot.append(mark);
  return view.plot;
}
