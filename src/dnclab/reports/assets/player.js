/* The memory player: the step that is shown, the clock, and what keys and pointer do. */

const LARGE_JUMP = 10;

class Player {
  constructor(root, holders) {
    this.root = root;
    this.find = (selector) => root.querySelector(selector);
    this.slider = this.find("#step");
    this.tooltip = this.find("#tooltip");
    this.dark = window.matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => this.paint());
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    this.find("#play").addEventListener("click", () => this.play(!this.playing));
    this.find("#speed").addEventListener("change", () => this.seek(this.step));
    this.find("#recording")?.addEventListener("change", (event) => {
      this.open(readRecording(holders[event.target.selectedIndex]));
    });
    root.addEventListener("keydown", (event) => this.press(event));
    this.open(readRecording(holders[0]));
  }

  /** Show a recording from its first step. */
  open(recording) {
    this.recording = recording;
    this.last = recording.steps - 1;
    this.views = [];
    this.scales = [];
    this.gauges = [];
    this.places = [];
    this.texts = [];
    this.look(null);
    this.play(false);
    this.slider.max = this.last;
    this.root.style.setProperty("--steps", recording.steps);
    this.find("#panels").replaceChildren(...layOut(this));
    this.seek(0);
    this.paint();
  }

  // --- time --------------------------------------------------------------------------------------

  /** Go to a step; the clock goes on from there. */
  seek(step) {
    this.clock = { step, since: performance.now() };
    this.show(step);
  }

  show(step) {
    this.step = Math.min(Math.max(step, 0), this.last);
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  play(playing) {
    cancelAnimationFrame(this.beat);
    this.playing = playing;
    const button = this.find("#play");
    button.setAttribute("aria-label", playing ? "Pause" : "Play");
    button.classList.toggle("playing", playing);
    if (!playing) return;
    this.seek(this.step === this.last ? 0 : this.step);
    this.tick();
  }

  /** Keep to the clock: a machine that is too slow leaves steps out. */
  tick() {
    this.beat = requestAnimationFrame((now) => {
      const seconds = Math.max(now - this.clock.since, 0) / 1000;
      this.show(this.clock.step + Math.floor(seconds * Number(this.find("#speed").value)));
      if (this.step === this.last) this.play(false);
      else this.tick();
    });
  }

  // --- drawing -----------------------------------------------------------------------------------

  /** Colours for the theme, then everything. */
  paint() {
    const theme = this.dark.matches ? "dark" : "light";
    for (const { bar, map } of this.scales) bar.style.background = gradient(map, theme);
    for (const view of this.views) {
      view.colours = colourTable(view.panel, theme);
      drawCells(view.panel, view.canvas, view.colours, this.step);
    }
  }

  /** What changes with the step. */
  draw() {
    this.frame = null;
    const { step, recording } = this;
    this.root.style.setProperty("--step", step);
    for (const view of this.views) {
      if (!view.panel.overTime) drawCells(view.panel, view.canvas, view.colours, step);
    }
    for (const { array, place, limit, fill, number } of this.gauges) {
      const value = decode(array, array.bytes[place(step)]);
      fill.style.transform = `scaleX(${value / limit})`;
      number.textContent = spell(value);
    }
    this.name(step, recording);
    this.texts.forEach((word, place) => word.classList.toggle("current", place === step));
    if (this.looked) this.tell();
  }

  /** The step in words, wherever it stands. */
  name(step, { phases, answers }) {
    const phase = phases.find(({ start, stop }) => start <= step && step < stop);
    const notes = [phase?.name, answers[step] ? "answer due" : null].filter(Boolean);
    const said = `step ${step} of ${this.last}`;
    this.slider.value = step;
    this.slider.setAttribute("aria-valuetext", [said, ...notes].join(", "));
    this.find("#where").textContent = said;
    this.find("#notes").textContent = notes.join(" · ");
    for (const place of this.places) place.textContent = `step ${step}`;
  }

  // --- keys --------------------------------------------------------------------------------------

  press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("select")) return;
    const jumps = {
      ArrowLeft: this.step - 1,
      ArrowRight: this.step + 1,
      PageUp: this.step - LARGE_JUMP,
      PageDown: this.step + LARGE_JUMP,
      Home: 0,
      End: this.last,
    };
    if (event.key in jumps) this.seek(Math.min(Math.max(jumps[event.key], 0), this.last));
    else if (event.key === " " && !event.target.closest("button, summary")) this.play(!this.playing);
    else return;
    event.preventDefault();
  }

  /** Keys on a panel: up and down, and with shift left and right, go from cell to cell. */
  walk(view, event) {
    const sideways = event.shiftKey && !view.panel.overTime;
    const ways = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ...(sideways && { ArrowLeft: [0, -1], ArrowRight: [0, 1] }),
    };
    if (!(event.key in ways)) return;
    const [down, right] = ways[event.key];
    view.row = Math.min(Math.max(view.row + down, 0), view.panel.rows - 1);
    view.column = Math.min(Math.max(view.column + right, 0), view.panel.columns - 1);
    this.look(view);
    this.find("#said").textContent = this.tooltip.textContent;
    event.preventDefault();
    event.stopPropagation();
  }

  // --- pointer -----------------------------------------------------------------------------------

  /** The cell under the pointer; a press on a panel over time goes to its step. */
  point(view, event) {
    const { panel, canvas } = view;
    const place = canvas.getBoundingClientRect();
    const within = (share, size) => Math.min(Math.max(Math.floor(share * size), 0), size - 1);
    view.column = within((event.clientX - place.left) / place.width, panel.columns);
    view.row = within((event.clientY - place.top) / place.height, panel.rows);
    const pressed = event.buttons === 1;
    if (panel.overTime && pressed) {
      if (event.type === "pointerdown") view.plot.setPointerCapture(event.pointerId);
      this.seek(view.column);
    }
    this.look(view, panel.overTime ? view.column : null);
  }

  /** Show the value of a view's cell; null: of none. Over time it is the current step's, if no other. */
  look(view, step = null) {
    if (this.looked && this.looked.view !== view) this.looked.view.mark.hidden = true;
    this.looked = view && { view, step };
    this.tooltip.hidden = !view;
    if (view) this.tell();
  }

  /** Mark the cell that is looked at, and say its value beside it. */
  tell() {
    const { view, step } = this.looked;
    const { panel, mark } = view;
    const column = panel.overTime ? (step ?? this.step) : view.column;
    mark.hidden = false;
    mark.style.left = `${(100 * column) / panel.columns}%`;
    mark.style.top = `${(100 * view.row) / panel.rows}%`;
    mark.style.width = `${100 / panel.columns}%`;
    mark.style.height = `${100 / panel.rows}%`;
    const { name, where, value } = describe(panel, this.step, view.row, column);
    this.tooltip.replaceChildren(element("b", {}, value), element("span", {}, ` ${name}, ${where}`));
    this.place(mark.getBoundingClientRect());
  }

  /** Put the tooltip above a cell, or below where there is no room, and inside the window. */
  place(cell) {
    const { offsetWidth: width, offsetHeight: height } = this.tooltip;
    const left = cell.left + cell.width / 2 - width / 2;
    const above = cell.top - height - 8;
    const most = document.documentElement.clientWidth - width - 8;
    this.tooltip.style.left = `${Math.max(Math.min(left, most), 8)}px`;
    this.tooltip.style.top = `${above < 8 ? cell.bottom + 8 : above}px`;
  }
}

const holders = document.querySelectorAll("script.recording");
if (holders.length) new Player(document.querySelector("#player"), [...holders]);
