// Draws the `scene` trait (its fields: autograder/view/scene/composition.py): a film of one program, with code, memory and graph.
// Knows no notebook and no network. What comes from the scene becomes text nodes and listed attributes, never markup.

/**
 * @import { Drawing, Entry, Model, Moment, Outcome, Scene, Shape } from "./scene"
 */

const SVG = "http://www.w3.org/2000/svg";
const TAGS = new Set(["g", "rect", "path", "text", "tspan", "circle", "title"]);
const ATTRIBUTES = new Set(["x", "y", "width", "height", "rx", "d", "cx", "cy", "r", "class", "text-anchor"]);
const VERDICTS = new Set(["stale", "silent", "hit", "unseen", "wrong", "raised", "failed"]); // hidden while the learner predicts
/** @type {Record<Outcome, string>} */
const SIGNS = { correct: "✓", "silently-wrong": "⚠", "raises-forward": "✗", "raises-backward": "✗" };
const QUIET = "data-lm-suppress-shortcuts"; // JupyterLab's letter and arrow shortcuts rest while the picture has the focus
const PAUSE = 1200; // milliseconds between frames while playing
const ICONS = {
  first: "M3 3v10M13 3L6 8l7 5z", back: "M11 3L4 8l7 5z", play: "M4 2.5L13 8l-9 5.5z", pause: "M5 3v10M11 3v10",
  forward: "M5 3l7 5-7 5z", last: "M13 3v10M3 3l7 5-7 5z",
};

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean>} properties
 * @param {...(Node | string)} children
 */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) Reflect.set(element, name, value);
    else element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/**
 * Builds a shape (autograder/view/shapes.py); `keyed` collects the elements whose state changes.
 * @param {Shape} shape
 * @param {Map<string, Entry[]>} keyed
 */
function stamp([tag, attributes, ...children], keyed) {
  if (!TAGS.has(tag)) throw new Error(`a drawing may not hold <${tag}>`);
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (ATTRIBUTES.has(name)) element.setAttribute(name, String(value));
  if ("s" in attributes) element.dataset.memory = String(attributes.s);
  if ("opens" in attributes) element.dataset.opens = String(attributes.opens);
  for (const child of children) element.append(typeof child === "string" ? child : stamp(child, keyed));
  if ("k" in attributes) {
    const [key, entry] = [String(attributes.k), { element, base: String(attributes.class ?? ""), text: tag === "text" }];
    if (!entry.text) element.setAttribute("class", `${entry.base} off`);
    keyed.set(key, [...(keyed.get(key) ?? []), entry]);
  }
  return element;
}

/**
 * A drawing shrinks to `smallest` of its size in a narrow place; below that it scrolls.
 * @param {Drawing} drawing
 * @param {string} label
 * @param {Map<string, Entry[]>} keyed
 */
function stampDrawing({ left, top, width, height, shapes }, label, keyed, smallest = 0.62) {
  const svg = document.createElementNS(SVG, "svg");
  const attributes = { viewBox: `${left} ${top} ${width} ${height}`, width, height, role: "group", "aria-label": label };
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, String(value));
  svg.append(...shapes.map((shape) => stamp(shape, keyed)));
  svg.style.minWidth = `${smallest * width}px`;
  return svg;
}

/** @param {keyof typeof ICONS} name */
function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/**
 * @param {keyof typeof ICONS} name
 * @param {string} label
 * @param {() => void} act
 */
function iconButton(name, label, act) {
  const made = make("button", { type: "button", title: label, "aria-label": label }, icon(name));
  made.addEventListener("click", act);
  return made;
}

/** Where an event began; every target in our tree is an element. @param {Event} event */
function origin(event) {
  return /** @type {HTMLElement} */ (event.target);
}

/**
 * Scrolls a pane, and only the pane, so that an element inside it is in sight.
 * @param {Element} pane
 * @param {Element} element
 */
function reveal(pane, element) {
  const [box, inner] = [pane.getBoundingClientRect(), element.getBoundingClientRect()];
  const margin = 24;
  if (inner.top < box.top + margin) pane.scrollTop -= box.top + margin - inner.top;
  else if (inner.bottom > box.bottom - margin) pane.scrollTop += inner.bottom - box.bottom + margin;
  if (inner.left < box.left) pane.scrollLeft -= box.left + margin - inner.left;
  else if (inner.right > box.right) pane.scrollLeft += inner.right - box.right + margin;
}

/**
 * The page keeps one score for all its pictures: scene id → whether the first prediction was right.
 * @type {Map<string, boolean>}
 */
const score = (/** @type {any} */ (globalThis)[Symbol.for("autograder.score")] ??= new Map());

class Film {
  sentence = make("p", { className: "sentence", role: "status" });
  badge = make("p", { className: "badge" });
  count = make("span", { className: "step" });
  slider = make("input", { type: "range", min: 0, value: 0, className: "slider", "aria-label": "step" });
  player = iconButton("play", "play", () => this.play());
  code = make("div", { className: "pane code", role: "group", "aria-label": "code" });
  memory = make("div", { className: "pane memory" });
  trail = make("nav", { className: "trail", "aria-label": "opened folds" });
  graph = make("div", { className: "pane graph", tabIndex: 0, role: "region", "aria-label": "graph" });
  gradients = make("div", { className: "gradients" });
  question = make("div", { className: "question" });
  links = document.createElementNS(SVG, "svg");
  root = make("section", { className: "autograder", "aria-label": "autograd, step by step" });
  resized = new ResizeObserver(() => this.connect());
  /** @type {number | undefined} the timer of a film that plays */
  timer;
  /** @type {Outcome | undefined} what the learner predicted */
  answer;

  /**
   * @param {Scene} scene
   * @param {Element} host the element whose content it replaces
   */
  constructor(scene, host) {
    this.scene = scene;
    this.at = -1;
    /** @type {Map<string, string>} */
    this.state = new Map();
    /** @type {Map<string, Entry[]>} keys of code, memory and gradients */
    this.still = new Map();
    /** @type {Map<string, Entry[]>} keys of the graph's view, which changes as folds open */
    this.moving = new Map();
    /** @type {Element[]} */
    this.pointed = [];
    this.asking = scene.ask !== null && scene.ask !== undefined;
    this.build();
    host.replaceChildren(this.root);
    this.open(0);
    this.go(scene.start);
    this.watch();
  }

  build() {
    const { scene } = this;
    this.slider.max = String(scene.moments.length - 1);
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    const controls = make("div", { className: "controls", role: "group", "aria-label": "steps" },
      iconButton("first", "first step", () => this.go(0)), iconButton("back", "back", () => this.go(this.at - 1)), this.player,
      iconButton("forward", "forward", () => this.go(this.at + 1)), iconButton("last", "last step", () => this.go(Infinity)),
      this.slider, this.count);
    this.buildCode();
    this.memory.append(stampDrawing(scene.memory, "memory", this.still));
    for (const piece of this.memory.querySelectorAll(".piece")) piece.setAttribute("tabindex", "0");
    if (scene.gradients) this.gradients.append(stampDrawing(scene.gradients, "gradients: got and right", this.still));
    this.links.setAttribute("class", "links");
    this.links.setAttribute("aria-hidden", "true");
    const picture = make("div", { className: "picture" }, this.trail, this.graph);
    this.root.append(make("div", { className: "top" }, controls, this.badge), this.sentence, this.question,
      make("div", { className: "panes" }, this.code, picture, this.memory), this.gradients, this.legend(), this.links);
    if (this.asking) this.ask();
  }

  buildCode() {
    const lists = this.scene.programs.map((lines, program) => make("ol", { className: "program", "aria-label": this.scene.files[program] },
      ...lines.map((runs, row) => {
        const key = `l${program}.${row + 1}`;
        const words = runs.map(([text, kind]) => make("span", { className: kind }, text));
        const line = make("button", { type: "button", tabIndex: -1 }, ...words);
        line.style.setProperty("--indent", `${runs.map(([text]) => text).join("").search(/\S|$/) + 4}ch`);
        const item = make("li", { className: "line" }, line);
        this.still.set(key, [{ element: item, base: "line", text: false, stays: true }]);
        line.addEventListener("click", () => this.goToLine(key));
        return item;
      })));
    this.code.append(...lists);
  }

  legend() {
    const entry = (/** @type {string} */ kind, /** @type {string} */ words) => make("li", { className: kind }, words);
    return make("ul", { className: "legend", "aria-label": "legend" },
      entry("flow", "the way backward walks"), entry("kept", "kept for backward"), entry("stale", "kept, and counted as changed"),
      entry("silent", "kept, and changed without a trace"), entry("counter", "●▲■ v0: version counter, one mark for each"));
  }

  /**
   * Shows one view of the graph: the whole program, or the inside of a fold.
   * @param {number} number
   */
  open(number) {
    const { scene } = this;
    this.moving = new Map();
    this.graph.replaceChildren(stampDrawing(scene.views[number], `graph, ${scene.views[number].title}`, this.moving, 0.72));
    for (const fold of this.graph.querySelectorAll("[data-opens]")) {
      fold.setAttribute("tabindex", "0");
      fold.setAttribute("role", "button");
    }
    const path = [];
    for (let n = /** @type {number | null} */ (number); n !== null && n !== undefined; n = scene.views[n].parent) path.unshift(n);
    const crumb = (/** @type {number} */ n) => {
      const made = make("button", { type: "button", disabled: n === number }, scene.views[n].title);
      made.addEventListener("click", () => this.open(n));
      return made;
    };
    this.trail.replaceChildren(...(path.length > 1 ? path.map(crumb) : []));
    for (const [key, entries] of this.moving) for (const entry of entries) this.paint(entry, this.state.get(key));
    if (this.at >= 0) this.point();
  }

  /** @param {string} key */
  elements(key) {
    return [...(this.moving.get(key) ?? []), ...(this.still.get(key) ?? [])];
  }

  /**
   * @param {Entry} entry
   * @param {string | undefined} value a class name, or the text of a text element; undefined hides it
   */
  paint({ element, base, text, stays }, value) {
    if (text) return void (element.textContent = value ?? "");
    const words = (value ?? "").split(" ").filter((word) => word && !(this.asking && VERDICTS.has(word)));
    element.setAttribute("class", [base, ...words, value === undefined && !stays ? "off" : ""].filter(Boolean).join(" "));
  }

  /**
   * Goes to a frame; `wanted` may lie outside the film. While the learner predicts, the last frames stay closed.
   * @param {number} wanted
   */
  go(wanted) {
    const end = this.asking ? Math.max((this.scene.ask ?? 0) - 1, 0) : this.scene.moments.length - 1;
    if (this.asking && wanted > end && Number.isFinite(wanted)) this.question.querySelector("button")?.focus();
    const next = Math.max(0, Math.min(wanted, end));
    if (wanted > end || wanted < 0) this.stop();
    if (next !== this.at) this.apply(next);
    this.at = next;
    this.tell();
    this.point();
  }

  /** @param {number} next */
  apply(next) {
    const forward = next === this.at + 1;
    const from = forward ? next : 0;
    /** @type {Map<string, string>} */
    const fresh = forward ? this.state : new Map();
    const touched = new Set(forward ? [] : this.state.keys());
    for (let i = from; i <= next; i++) {
      for (const [key, value] of Object.entries(this.scene.moments[i].changes)) {
        fresh.set(key, value);
        touched.add(key);
      }
    }
    const before = this.state;
    this.state = fresh;
    for (const key of touched) {
      if (!forward && before.get(key) === fresh.get(key)) continue;
      for (const entry of this.elements(key)) this.paint(entry, fresh.get(key));
    }
  }

  tell() {
    const { scene, at } = this;
    const moment = scene.moments[at];
    this.slider.value = String(at);
    this.slider.setAttribute("aria-valuetext", `step ${at + 1} of ${scene.moments.length}`);
    this.count.textContent = `step ${at + 1} of ${scene.moments.length}`;
    this.sentence.replaceChildren(moment.fact, ...(moment.effect && !this.asking ? [" ", make("strong", {}, moment.effect)] : []));
    /** @type {[Outcome, string] | null} */
    const told = moment.kind === "end" ? [scene.outcome, scene.outcome] : moment.forecast;
    this.badge.className = `badge ${told && !this.asking ? told[0] : "unknown"}`;
    const words = this.asking ? "your prediction first" : told ? `${SIGNS[told[0]]} ${told[1]}` : "nothing to walk yet";
    const lead = moment.kind === "end" ? "Outcome: " : moment.kind === "visit" ? "Backward is walking" : "If you call backward now: ";
    this.badge.replaceChildren(lead, ...(moment.kind === "visit" ? [] : [make("b", {}, words)]));
    this.root.classList.toggle("ended", moment.kind === "end");
    if (this.answer && moment.kind === "end") this.mark();
  }

  // Points out what the frame is about, lights its line, and draws the arrows from harmed tensors to the lines that wrote.
  point() {
    const moment = this.scene.moments[this.at];
    for (const element of this.pointed) element.classList.remove("now");
    const now = moment.now.flatMap((key) => this.elements(key).map(({ element, text }) => (text ? (element.closest(".chip") ?? element) : element)));
    const line = this.still.get(moment.line)?.[0].element;
    this.pointed = line ? [...now, line] : now;
    for (const element of this.pointed) element.classList.add("now");
    for (const button of this.code.querySelectorAll('[tabindex="0"]')) button.setAttribute("tabindex", "-1");
    if (line) {
      line.firstElementChild?.setAttribute("tabindex", "0");
      reveal(this.code, line);
    }
    for (const pane of [this.memory, this.graph]) {
      const shown = now.find((element) => pane.contains(element) && element.matches(".block, .piece"));
      if (shown) reveal(pane, shown);
    }
    this.connect();
  }

  connect() {
    const pairs = this.asking ? [] : this.scene.moments[Math.max(this.at, 0)].links;
    const frame = this.root.getBoundingClientRect();
    const paths = pairs.flatMap(([edge, line]) => {
      const row = (this.moving.get(edge) ?? []).find(({ base }) => base === "kept")?.element;
      const item = this.still.get(line)?.[0].element;
      return row && item && frame.width ? [this.arrow(row, item, frame)] : [];
    });
    this.links.replaceChildren(...paths);
  }

  /**
   * @param {Element} row what the saved edge keeps, in the graph
   * @param {Element} item the line of code that wrote into it
   * @param {DOMRect} frame
   */
  arrow(row, item, frame) {
    const middle = (/** @type {Element} */ element, /** @type {Element} */ pane) => {
      const [box, edge] = [element.getBoundingClientRect(), pane.getBoundingClientRect()];
      return Math.max(edge.top + 6, Math.min(edge.bottom - 6, box.top + Math.min(box.height / 2, 11))) - frame.top;
    };
    const sight = this.graph.getBoundingClientRect(); // a row beyond the pane's edge is pointed at from that edge
    const from = Math.max(sight.left, Math.min(sight.right - 6, row.getBoundingClientRect().left)) - frame.left;
    const code = this.code.getBoundingClientRect();
    const [y1, y2] = [middle(row, this.graph), middle(item, this.code)];
    const path = document.createElementNS(SVG, "path");
    const beside = sight.left > code.right;
    const to = (beside ? code.right - 6 : code.left + 6) - frame.left;
    const out = Math.max(40, Math.abs(from - to) / 2);
    const route = beside ? `C${from - out} ${y1} ${to + out} ${y2} ${to} ${y2}m7 -5l-8 5l8 5` : `C-12 ${y1} -12 ${y2} ${to} ${y2}m-8 -5l8 5l-8 5`;
    path.setAttribute("d", `M${from} ${y1}${route}`);
    path.setAttribute("class", row.classList.contains("silent") ? "silent" : "stale");
    return path;
  }

  /** @param {string} key */
  goToLine(key) {
    const moments = this.scene.moments;
    const hits = moments.flatMap((moment, i) => (moment.line === key && moment.kind === "step" ? [i] : []));
    if (hits.length) this.go(hits.find((i) => i > this.at) ?? hits[0]);
  }

  play() {
    if (this.timer) return this.stop();
    if (this.at === this.scene.moments.length - 1) this.go(0);
    this.player.replaceChildren(icon("pause"));
    this.player.setAttribute("aria-label", "pause");
    this.timer = window.setInterval(() => {
      if (!this.root.isConnected || this.at === this.scene.moments.length - 1) this.stop();
      else this.go(this.at + 1);
    }, PAUSE);
  }

  stop() {
    window.clearInterval(this.timer);
    this.timer = undefined;
    this.player.replaceChildren(icon("play"));
    this.player.setAttribute("aria-label", "play");
  }

  ask() {
    const choose = (/** @type {[Outcome, string]} */ [outcome, meaning]) => {
      const button = make("button", { type: "button" }, make("b", {}, outcome), ` ${meaning}`);
      button.addEventListener("click", () => this.choose(outcome));
      return button;
    };
    const title = make("p", {}, "Predict first: step through the program, then say what it will do. The last steps open with your choice.");
    this.question.replaceChildren(title, make("div", { role: "group", "aria-label": "your prediction" }, ...this.scene.outcomes.map(choose)));
  }

  /** @param {Outcome} outcome */
  choose(outcome) {
    this.answer = outcome;
    this.asking = false;
    if (!score.has(this.scene.id)) score.set(this.scene.id, outcome === this.scene.outcome);
    this.question.replaceChildren(make("p", { role: "status" }, `You predict: ${outcome}. Step on and see.`));
    for (const [key, value] of this.state) for (const entry of this.elements(key)) this.paint(entry, value);
    this.go(this.scene.ask ?? 0);
    this.slider.focus();
  }

  mark() {
    const right = this.answer === this.scene.outcome;
    const first = [...score.values()].filter(Boolean).length;
    const said = right ? `Your prediction was right: ${this.answer}.` : `You predicted ${this.answer}; it is ${this.scene.outcome}.`;
    this.question.replaceChildren(make("p", { role: "status" }, `${said} On this page: ${first} of ${score.size} right at the first try.`));
  }

  watch() {
    /** @type {Record<string, () => void>} */
    const keys = { ArrowLeft: () => this.go(this.at - 1), ArrowRight: () => this.go(this.at + 1), Home: () => this.go(0), End: () => this.go(Infinity) };
    this.root.addEventListener("keydown", (event) => {
      const fold = /** @type {HTMLElement | null | undefined} */ (origin(event).closest?.("[data-opens]"));
      if (fold && (event.key === "Enter" || event.key === " ")) this.open(Number(fold.dataset.opens));
      else if (origin(event).closest?.(".code") && ["ArrowUp", "ArrowDown"].includes(event.key)) this.moveInCode(event);
      else if (keys[event.key] && event.target !== this.slider && !event.altKey && !event.ctrlKey && !event.metaKey) keys[event.key]();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    // On the focused element itself, since JupyterLab looks there first; Ctrl+S and its like stay the notebook's.
    const hush = (/** @type {FocusEvent | KeyboardEvent} */ event) => {
      origin(event).toggleAttribute(QUIET, !("key" in event && (event.ctrlKey || event.metaKey)));
    };
    this.root.addEventListener("focusin", hush);
    this.root.addEventListener("keydown", hush);
    this.root.addEventListener("keyup", hush);
    this.graph.addEventListener("click", (event) => {
      const fold = /** @type {HTMLElement | null} */ (origin(event).closest("[data-opens]"));
      if (fold) this.open(Number(fold.dataset.opens));
    });
    for (const [type, on] of Object.entries({ pointerover: true, pointerout: false, focusin: true, focusout: false })) {
      this.root.addEventListener(type, (event) => this.light(origin(event).closest?.("[data-memory]"), on));
    }
    this.root.addEventListener("scroll", () => this.connect(), { capture: true, passive: true });
    this.resized.observe(this.root);
  }

  /** @param {KeyboardEvent} event */
  moveInCode(event) {
    const lines = [...this.code.querySelectorAll("button")];
    const next = lines[lines.findIndex((line) => line === event.target) + (event.key === "ArrowDown" ? 1 : -1)];
    next?.focus();
  }

  /**
   * Lights everything that lies in the same memory.
   * @param {Element | null | undefined} element
   * @param {boolean} on
   */
  light(element, on) {
    for (const lit of this.root.querySelectorAll(".lit")) lit.classList.remove("lit");
    if (!element || !on) return;
    for (const same of this.root.querySelectorAll(`[data-memory="${Number(element.getAttribute("data-memory"))}"]`)) same.classList.add("lit");
  }

  close() {
    this.stop();
    this.resized.disconnect();
    this.root.remove();
  }
}

/**
 * Draws into `el`, or says there why it cannot: an empty place would tell nobody anything.
 * @param {Scene} scene
 * @param {Element} el
 */
function draw(scene, el) {
  try {
    if (!scene?.moments?.length) throw new Error("the recording holds no step");
    return new Film(scene, el);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    el.replaceChildren(make("p", { className: "autograder-failed", role: "alert" }, `This picture cannot be drawn: ${reason}. Run the cell again.`));
    return null;
  }
}

/** @param {{ model: Model, el: Element }} place */
function render({ model, el }) {
  let film = draw(model.get("scene"), el);
  const redraw = () => {
    film?.close();
    film = draw(model.get("scene"), el);
  };
  model.on("change:scene", redraw);
  return () => {
    model.off("change:scene", redraw);
    film?.close();
  };
}

/**
 * A saved notebook holds only the static picture, inside an element whose class the scene names. Where the model is alive it takes
 * that element's place; where it is not (no kernel, an export, another site) the picture simply stays.
 * @param {{ model: Model }} context
 */
function initialize({ model }) {
  const place = model.get("scene")?.place;
  if (!place) return undefined;
  const living = new WeakMap();
  const settle = () => {
    for (const host of document.getElementsByClassName(place)) {
      if (living.has(host)) continue;
      const picture = [...host.childNodes];
      const stop = render({ model, el: host });
      living.set(host, () => (stop(), host.replaceChildren(...picture)));
    }
  };
  const observer = new MutationObserver(settle);
  observer.observe(document.body, { childList: true, subtree: true });
  settle();
  return () => {
    observer.disconnect();
    for (const host of document.getElementsByClassName(place)) living.get(host)?.();
  };
}

export default { initialize, render };
