// The timeline of a run: its columns as Python drew them for several widths, and below them the graph, step by step, drawn when it is opened.

import graph from "./graph.js";

/**
 * @import { Model, Scene, SceneColumn, SceneTimeline } from "./scene"
 */

/** The graph below a timeline, which reports the frame that it shows. */
class GraphOfTimeline extends graph.Viewer {
  /** @type {((frame: number) => void) | undefined} */
  moved;

  describe() {
    super.describe();
    this.moved?.(this.at);
  }

  /** Lights the line, the node and the memory of a frame; nothing without one. @param {number} [frame] */
  light(frame) {
    this.lightMemory(undefined, false);
    if (frame === undefined || frame < 0) return;
    const { line, now } = this.scene.frames[frame];
    for (const { element } of [line, ...now].flatMap((key) => this.elements(key))) (element.closest(".line, .block, .lane") ?? element).classList.add("lit");
  }
}

/** The height of a row, and the minimum width of columns next to each other, in pixels. */
const ROW = 32, SIDE = 620;

/** One timeline: the title, the columns, the fix, and the graph. */
class TimelineViewer {
  static moves = 0;
  root = graph.make("section", { className: "autograder story", role: "group", "aria-label": graph.say("timeline") });
  more = graph.make("details", { className: "more" }, graph.make("summary", {}, graph.say("Show the graph, step by step")));
  place = graph.make("div");
  columns = graph.make("div", { className: "columns" });
  /** @type {GraphOfTimeline | undefined} */
  graph;
  /** @type {{ pane: HTMLElement, column: SceneColumn, drawn: number, steps: Element[] }[]} */
  panes = [];
  resized = new ResizeObserver(() => this.fit());
  /** @type {number | undefined} the frame of the row that was chosen last */
  frame;

  /**
   * @param {Scene} scene
   * @param {Element} host the element whose content it replaces
   * @param {Model} model
   */
  constructor(scene, host, model) {
    this.scene = scene;
    this.model = model;
    const { title, tone, columns, change, rest, unmodified, graph_first } = /** @type {SceneTimeline} */ (scene.timeline);
    const [first, ...others] = columns.map((column) => this.pane(column));
    const folded = others.map((pane, i) => graph.make("details", { className: "other" }, graph.make("summary", {}, columns[i + 1].title), pane));
    const notes = rest.map((sentence, i) => unmodified.length && i === rest.length - 1
      ? graph.make("details", { className: "aside" }, graph.make("summary", {}, sentence), unmodified.join(", "))
      : graph.make("p", { className: "aside" }, sentence));
    this.columns.append(first, ...folded);
    this.more.append(this.place);
    this.root.append(graph.make("p", { className: `headline ${tone}` }, title), this.columns, ...(change ? [graph.make("p", { className: "change" }, change)] : []), ...notes, this.more);
    if (scene.is_playable) {
      if (columns.some(({ movable }) => movable.some(Boolean))) this.root.append(graph.make("p", { className: "aside" }, graph.say("Drag the line with the pencil to another place, or press Alt+↑ or Alt+↓ there, to see the outcome.")));
      this.root.append(graph.button(graph.say("change the program"), () => graph.askForBoard(model), "play"));
      this.watchDrag();
    }
    host.replaceChildren(this.root);
    this.more.addEventListener("toggle", () => this.more.open && this.showGraph());
    this.watch();
    this.fit();
    this.more.open = graph_first;
    this.resized.observe(this.root);
  }

  /** @param {SceneColumn} column */
  pane(column) {
    const pane = graph.make("div", { className: "column" });
    this.panes.push({ pane, column, drawn: -1, steps: [] });
    return pane;
  }

  /** Draws each column at the largest width that fits: next to each other in a wide pane, else below each other and folded. */
  fit() {
    const whole = this.root.clientWidth - 24;
    const beside = Math.max(1, Math.min(this.panes.length, Math.floor(whole / SIDE)));
    const width = whole / beside - (beside > 1 ? 8 : 0);
    this.columns.style.gridTemplateColumns = `repeat(${beside}, minmax(0, 1fr))`;
    if (beside > 1) for (const other of this.columns.querySelectorAll("details")) other.open = true;
    for (const entry of this.panes) {
      const { drawings, title } = entry.column;
      const fits = drawings.filter((drawing) => drawing.width <= width).length;
      const best = Math.max(0, fits - 1);
      if (best === entry.drawn) continue;
      entry.drawn = best;
      const svg = graph.makeDrawing(drawings[best], title || graph.say("timeline"), new Map());
      entry.steps = [...svg.querySelectorAll(".moment")];
      entry.steps.forEach((step, row) => {
        const values = { tabindex: row ? "-1" : "0", role: "button" }; // named by its texts
        for (const [name, value] of Object.entries(values)) step.setAttribute(name, value);
        step.classList.toggle("movable", this.scene.is_playable && Boolean(entry.column.movable[row]));
      });
      entry.pane.replaceChildren(svg);
    }
    this.mark(this.graph?.at);
  }

  /** Opens the graph at the chosen row; without one, where the scene opens. */
  showGraph() {
    if (!this.graph) {
      this.graph = new GraphOfTimeline({ ...this.scene, is_playable: false }, this.place, this.model);
      this.graph.root.classList.replace("autograder", "below"); // one figure, inside the timeline's frame
      this.graph.moved = (frame) => this.mark(frame);
    }
    if (this.frame !== undefined) this.graph.go(this.frame);
    this.mark(this.graph.at);
  }

  /** Marks the last row that has run at a frame of the graph. @param {number | undefined} frame */
  mark(frame) {
    for (const { column, steps } of this.panes) {
      const past = column.frames.filter((own) => own >= 0 && own <= (frame ?? -1));
      const row = past.length ? column.frames.lastIndexOf(Math.max(...past)) : -1;
      steps.forEach((step, i) => step.toggleAttribute("data-now", i === row));
    }
  }

  /** @param {Event} event */
  chosen(event) {
    const step = /** @type {Element} */ (event.target).closest?.(".moment");
    const entry = this.panes.find(({ steps }) => step && steps.includes(step));
    return entry && step ? { entry, row: entry.steps.indexOf(step) } : undefined;
  }

  watch() {
    graph.muteShortcuts(this.root);
    this.root.addEventListener("click", (event) => {
      const found = this.root.classList.contains("waiting") ? undefined : this.chosen(event); // a line that was just moved
      if (found) this.choose(found.entry.column.frames[found.row]);
    });
    for (const [type, on] of Object.entries({ pointerover: true, pointerout: false, focusin: true, focusout: false })) {
      this.root.addEventListener(type, (event) => {
        const found = this.chosen(event);
        if (found) this.graph?.light(on ? found.entry.column.frames[found.row] : undefined);
      });
    }
    this.root.addEventListener("keydown", (event) => {
      const found = this.chosen(event);
      if (!found || event.ctrlKey || event.metaKey) return;
      const { entry: { column, steps }, row } = found;
      if (event.altKey) {
        if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
        this.move(column.movable[row], event.key === "ArrowDown" ? 1 : -1);
      } else if (event.key === "Enter" || event.key === " ") this.choose(column.frames[row]);
      else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.focus(steps, row + (event.key === "ArrowDown" ? 1 : -1));
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  /** Asks the kernel to run the program with one line at another place. @param {string} line @param {number} by */
  move(line, by) {
    if (!this.scene.is_playable || !line || !by) return;
    this.root.classList.add("waiting");
    this.model.set("arrangement", { number: ++TimelineViewer.moves, lines: [], edits: {}, again: false, moved: line, by });
    this.model.save_changes();
  }

  /** A line that modifies the storage follows the pointer, and is moved by the rows that it passed. */
  watchDrag() {
    /** @type {{ step: SVGElement, line: string, start: number } | null} */
    let dragged = null;
    this.root.addEventListener("pointerdown", (event) => {
      const found = this.chosen(event);
      const line = found && !event.button ? found.entry.column.movable[found.row] : "";
      if (found && line) dragged = { step: /** @type {SVGElement} */ (found.entry.steps[found.row]), line, start: event.clientY };
    });
    this.root.addEventListener("pointermove", (event) => {
      if (dragged) dragged.step.style.translate = `0 ${event.clientY - dragged.start}px`;
    });
    const drop = (/** @type {PointerEvent} */ event) => {
      if (!dragged) return;
      const { step, line, start } = dragged, distance = event.clientY - start;
      dragged = null;
      step.style.removeProperty("translate");
      if (event.type === "pointerup" && Math.abs(distance) > 8) this.move(line, Math.round(distance / ROW) || Math.sign(distance));
    };
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) this.root.addEventListener(name, (event) => drop(/** @type {PointerEvent} */ (event)));
  }

  /** @param {Element[]} steps @param {number} wanted */
  focus(steps, wanted) {
    const next = steps[Math.max(0, Math.min(wanted, steps.length - 1))];
    for (const step of steps) step.setAttribute("tabindex", step === next ? "0" : "-1");
    /** @type {SVGElement} */ (next).focus();
  }

  /** Opens the graph at a frame; a row that is not a step of the recording has none. @param {number} frame */
  choose(frame) {
    if (frame < 0) return;
    this.frame = frame;
    if (this.more.open) this.showGraph();
    else this.more.open = true;
  }

  close() {
    this.resized.disconnect();
    this.graph?.close();
    this.root.remove();
  }
}

graph.kinds.timeline = TimelineViewer;
