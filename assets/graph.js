// Draws the `scene` trait (its fields: autograder/view/scene/composition.py): a program step by step, its code, memory and graph.
// Needs no notebook and no network. What comes from the scene becomes text nodes and listed attributes, never markup.

/**
 * @import { Drawing, Entry, Model, Outcome, Scene, SceneFrame, Shape } from "./scene"
 */

const SVG = "http://www.w3.org/2000/svg";
const TAGS = new Set(["g", "rect", "path", "text", "tspan", "circle", "title"]);
const ATTRIBUTES = new Set(["x", "y", "width", "height", "rx", "d", "cx", "cy", "r", "class"]);
const VERDICTS = new Set(["stale", "silent", "hit", "unseen", "wrong", "raised", "failed"]); // hidden while the learner predicts
/** @type {Record<Outcome, string>} */
const SIGNS = { correct: "✓", "silently-wrong": "⚠", "raises-forward": "!", "raises-backward": "!" };
const QUIET = "data-lm-suppress-shortcuts"; // JupyterLab's attribute of elements without shortcuts
const PAUSE = 1200; // milliseconds between frames while playing
const ICONS = {
  first: "M3 3v10M13 3L6 8l7 5z", back: "M11 3L4 8l7 5z", play: "M4 2.5L13 8l-9 5.5z", pause: "M5 3v10M11 3v10",
  forward: "M5 3l7 5-7 5z", last: "M13 3v10M3 3l7 5-7 5z",
};

/**
 * Makes an HTML element.
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
 * Makes the SVG element of a shape (autograder/view/shapes.py), and adds the elements whose state changes to `keyed`.
 * @param {Shape} shape
 * @param {Map<string, Entry[]>} keyed
 */
function makeShape([tag, attributes, ...children], keyed) {
  if (!TAGS.has(tag)) throw new Error(`a drawing may not hold <${tag}>`);
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (ATTRIBUTES.has(name)) element.setAttribute(name, String(value));
  if ("s" in attributes) element.dataset.memory = String(attributes.s);
  if ("opens" in attributes) element.dataset.opens = String(attributes.opens);
  for (const child of children) element.append(typeof child === "string" ? child : makeShape(child, keyed));
  if ("k" in attributes) {
    const [key, entry] = [String(attributes.k), { element, base: String(attributes.class ?? ""), text: tag === "text" }];
    if (!entry.text) element.setAttribute("class", `${entry.base} off`);
    keyed.set(key, [...(keyed.get(key) ?? []), entry]);
  }
  return element;
}

/**
 * Makes the SVG of a drawing. It scrolls in a narrow pane, so that its text keeps its size.
 * @param {Drawing} drawing
 * @param {string} label
 * @param {Map<string, Entry[]>} keyed
 */
function makeDrawing({ left, top, width, height, shapes }, label, keyed) {
  const svg = document.createElementNS(SVG, "svg");
  const attributes = { viewBox: `${left} ${top} ${width} ${height}`, width, height, role: "group", "aria-label": label };
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, String(value));
  svg.append(...shapes.map((shape) => makeShape(shape, keyed)));
  svg.style.minWidth = `${width}px`;
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

/** @param {string | (string | Node)[]} words @param {() => void} act */
function button(words, act, className = "") {
  const made = make("button", { type: "button", className }, ...[words].flat());
  made.addEventListener("click", act);
  return made;
}

/** Returns the element that an event began at; in this tree every target is an element. @param {Event} event */
function target(event) {
  return /** @type {HTMLElement} */ (event.target);
}

/**
 * Scrolls a pane, and nothing around it, until an element inside it is visible.
 * @param {Element} pane
 * @param {Element} element
 * @param {number} margin pixels between it and the upper or lower end of the pane
 */
function reveal(pane, element, margin = 24) {
  const [box, inner] = [pane.getBoundingClientRect(), element.getBoundingClientRect()];
  if (inner.top < box.top + margin) pane.scrollTop -= box.top + margin - inner.top;
  else if (inner.bottom > box.bottom - margin) pane.scrollTop += inner.bottom - box.bottom + margin;
  if (inner.left < box.left) pane.scrollLeft -= box.left + margin - inner.left;
  else if (inner.right > box.right) pane.scrollLeft += inner.right - box.right + margin;
}

/**
 * One score for all pictures of a page: scene id → whether the first prediction was right.
 * @type {Map<string, boolean>}
 */
const score = (/** @type {any} */ (globalThis)[Symbol.for("autograder.score")] ??= new Map());

/** The front end's own words in the reader's language, by their English; those that are not there stay English. @type {Record<string, string>} */
let words = {};

/**
 * Returns a text in the reader's language, with values in place of their names in braces. `front_end_words` (autograder/view/assets.py)
 * finds each text here by the call, so it stands between double quotes.
 * @param {string} text
 * @param {Record<string, string | number>} values
 */
function say(text, values = {}) {
  return Object.entries(values).reduce((told, [name, value]) => told.replaceAll(`{${name}}`, String(value)), words[text] ?? text);
}

/**
 * Turns off JupyterLab's shortcuts for single keys on the focused element of a picture, where JupyterLab looks first; Ctrl+S and the like
 * still reach the notebook.
 * @param {HTMLElement} root
 */
function muteShortcuts(root) {
  const quiet = (/** @type {FocusEvent | KeyboardEvent} */ event) => {
    target(event).toggleAttribute(QUIET, !("key" in event && (event.ctrlKey || event.metaKey)));
  };
  root.addEventListener("focusin", quiet);
  root.addEventListener("keydown", quiet);
  root.addEventListener("keyup", quiet);
}

/** Asks for the program as cards; whoever made the picture answers with another scene. @param {Model} model */
function askForBoard(model) {
  model.set("arrangement", { number: 0, lines: [], edits: {}, again: true });
  model.save_changes();
}

/** One picture: the panes, the controls, and the frame that they show. */
class Viewer {
  sentence = make("p", { className: "sentence", role: "status" });
  rest = make("p");
  details = make("details", { className: "details" }, make("summary", {}, say("Details")), this.rest);
  badge = make("p", { className: "badge" });
  count = make("span", { className: "step" });
  slider = make("input", { type: "range", min: 0, value: 0, className: "slider", "aria-label": say("step") });
  player = iconButton("play", say("play"), () => this.play());
  code = make("div", { className: "pane code", role: "group", "aria-label": say("code") });
  memory = make("div", { className: "pane memory" });
  trail = make("nav", { className: "trail", "aria-label": say("opened folds") });
  graph = make("div", { className: "pane graph", tabIndex: 0, role: "group", "aria-label": say("graph") });
  gradients = make("div", { className: "gradients", tabIndex: 0, role: "group", "aria-label": say("gradients: got and right") });
  question = make("div", { className: "question" });
  links = document.createElementNS(SVG, "svg");
  root = make("section", { className: "autograder", role: "group", "aria-label": say("autograd, step by step") }); // a page has many: no landmark
  resized = new ResizeObserver(() => this.connect());
  /** @type {number | undefined} the timer while it plays */
  timer;
  /** @type {Outcome | undefined} what the learner predicted */
  answer;

  /**
   * @param {Scene} scene
   * @param {Element} host the element whose content it replaces
   * @param {Model} model
   */
  constructor(scene, host, model) {
    this.scene = scene;
    this.model = model;
    this.at = -1;
    /** @type {Map<string, string>} */
    this.state = new Map();
    /** @type {Map<string, Entry[]>} elements by key: code and memory */
    this.fixed = new Map();
    /** @type {Map<string, Entry[]>} elements by key: the graph's view, which changes as folds open */
    this.view = new Map();
    /** @type {Element[]} */
    this.highlighted = [];
    this.asking = scene.ask !== null && scene.ask !== undefined;
    this.build();
    host.replaceChildren(this.root);
    this.open(0);
    this.go(scene.start);
    this.watch();
  }

  build() {
    const { scene } = this;
    this.slider.max = String(scene.frames.length - 1);
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    const controls = make("div", { className: "controls", role: "group", "aria-label": say("steps") },
      iconButton("first", say("first step"), () => this.go(0)), iconButton("back", say("back"), () => this.go(this.at - 1)), this.player,
      iconButton("forward", say("forward"), () => this.go(this.at + 1)), iconButton("last", say("last step"), () => this.go(Infinity)),
      this.slider, this.count);
    if (scene.from_start) controls.append(button(say("the step that decides"), () => this.go(scene.decisive), "decisive"));
    if (scene.is_playable) controls.append(button(say("change the program"), () => askForBoard(this.model), "decisive"));
    this.buildCode();
    this.memory.append(makeDrawing(scene.memory, say("memory"), this.fixed));
    if (scene.others) {
      const others = make("details", { className: "others" }, make("summary", {}, scene.others.title), makeDrawing(scene.others, scene.others.title, this.fixed));
      others.addEventListener("toggle", () => this.connect());
      this.memory.append(others);
    }
    for (const lane of this.memory.querySelectorAll(".lane")) lane.setAttribute("tabindex", "0");
    if (scene.gradients) this.gradients.append(makeDrawing(scene.gradients, say("gradients: got and right"), this.fixed));
    this.links.setAttribute("class", "links");
    this.links.setAttribute("aria-hidden", "true");
    const picture = make("div", { className: "picture" }, this.trail, this.graph);
    this.root.append(make("div", { className: "top" }, controls, this.badge), this.sentence, this.details, this.question,
      make("div", { className: "panes" }, this.code, picture, this.memory), this.gradients, this.legend(), this.links);
    this.root.classList.toggle("bare", scene.views[0].shapes.length === 0); // nothing that requires grad: no graph at any step
    if (this.asking) this.ask();
  }

  buildCode() {
    const lists = this.scene.programs.map(({ file, lines, first }) => make("ol", { className: "program", "aria-label": file, style: `counter-reset: line ${first - 1}` },
      ...lines.map(({ key, tokens }) => {
        const words = tokens.map(([text, kind]) => make("span", { className: kind }, text));
        const text = tokens.map(([text]) => text).join("");
        const line = make("button", { type: "button", tabIndex: -1, ...(text.trim() ? {} : { "aria-label": say("empty line") }) }, ...words);
        line.style.setProperty("--indent", `${text.search(/\S|$/) + 4}ch`);
        const item = make("li", { className: "line" }, line);
        this.fixed.set(key, [{ element: item, base: "line", text: false, stays: true }]);
        line.addEventListener("click", () => this.goToLine(key));
        return item;
      })));
    this.code.append(...lists);
  }

  legend() {
    const entry = (/** @type {string} */ kind, /** @type {string} */ words) => make("li", { className: kind }, words);
    return make("ul", { className: "legend", "aria-label": say("legend") },
      entry("flow", say("the direction of backward")), entry("kept", say("kept for backward")), entry("stale", say("kept, changed, and counted")),
      entry("silent", say("kept, changed, and not counted")), entry("counter", say("●▲■ v0: version, one mark for each counter")));
  }

  /**
   * Shows one view of the graph: the whole program, or the inside of a fold.
   * @param {number} number
   */
  open(number) {
    const { scene } = this;
    this.view = new Map();
    this.graph.replaceChildren(makeDrawing(scene.views[number], say("graph, {part}", { part: scene.views[number].title }), this.view));
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
    for (const [key, entries] of this.view) for (const entry of entries) this.paint(entry, this.seen(key, this.state.get(key)));
    if (this.at >= 0) this.highlight();
  }

  /** @param {string} key */
  elements(key) {
    return [...(this.view.get(key) ?? []), ...(this.fixed.get(key) ?? [])];
  }

  /**
   * Returns the state of a key as the reader sees it now; a picture that asks something may hide it.
   * @param {string} key
   * @param {string | undefined} value
   */
  seen(key, value) {
    return value;
  }

  /**
   * Returns the event, its meaning, and the details. While the reader predicts, effects are left out.
   * @param {SceneFrame} frame
   * @returns {[event: string, meaning: string, details: string]}
   */
  caption({ fact, meaning, others, details }) {
    return [fact, meaning, [this.asking ? "" : others, details].filter(Boolean).join(" ")];
  }

  repaint() {
    for (const [key, value] of this.state) for (const entry of this.elements(key)) this.paint(entry, this.seen(key, value));
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
   * Goes to a frame; a number beyond the first or the last goes there. While the learner predicts, the last frames stay closed.
   * @param {number} wanted
   */
  go(wanted) {
    const end = this.asking ? Math.max((this.scene.ask ?? 0) - 1, 0) : this.scene.frames.length - 1;
    if (this.asking && wanted > end && Number.isFinite(wanted)) this.question.querySelector("button")?.focus();
    const next = Math.max(0, Math.min(wanted, end));
    if (wanted > end || wanted < 0) this.stop();
    if (next !== this.at) this.apply(next);
    this.at = next;
    this.describe();
    this.highlight();
  }

  /**
   * Changes the drawings to a frame. Only the next one is a difference; any other is computed from the first.
   * @param {number} next
   */
  apply(next) {
    const forward = next === this.at + 1;
    const from = forward ? next : 0;
    /** @type {Map<string, string>} */
    const fresh = forward ? this.state : new Map();
    const touched = new Set(forward ? [] : this.state.keys());
    for (let i = from; i <= next; i++) {
      for (const [key, value] of Object.entries(this.scene.frames[i].changes)) {
        fresh.set(key, value);
        touched.add(key);
      }
    }
    const before = this.state;
    this.state = fresh;
    for (const key of touched) {
      if (!forward && before.get(key) === fresh.get(key)) continue;
      for (const entry of this.elements(key)) this.paint(entry, this.seen(key, fresh.get(key)));
    }
  }

  /** Shows the frame in words: its number, its sentences, and the forecast or the outcome. */
  describe() {
    const { scene, at } = this;
    const frame = scene.frames[at];
    this.slider.value = String(at);
    const count = say("step {step} of {count}", { step: frame.number, count: scene.frames[scene.frames.length - 1].number });
    this.slider.setAttribute("aria-valuetext", count);
    this.count.textContent = count;
    const problem = scene.board?.problem;
    this.root.classList.toggle("stopped", Boolean(problem));
    this.details.hidden = true;
    if (problem) return this.sentence.replaceChildren(problem);
    const [event, meaning, rest] = this.caption(frame);
    const second = frame.effect && !this.asking ? make("strong", {}, frame.effect) : meaning;
    this.sentence.replaceChildren(event, ...(second ? [make("br"), second] : []));
    this.rest.textContent = rest;
    this.details.hidden = !rest;
    /** @type {[Outcome, string] | null} */
    const shown = frame.kind === "end" ? [scene.outcome, scene.outcome] : frame.forecast;
    const refused = frame.kind === "end" && scene.is_refused;
    this.badge.className = `badge ${refused ? "refused" : shown && !this.asking ? shown[0] : "unknown"}`;
    const forecast = this.asking ? say("your prediction first") : refused ? `✗ ${say("not passed")}` : shown ? `${SIGNS[shown[0]]} ${shown[1]}` : say("no graph yet");
    const lead = refused ? say("The check: ") : frame.kind === "end" ? say("Outcome: ") : frame.kind === "visit" ? say("Backward is running") : shown?.[0] === "raises-forward" ? say("This line: ") : say("If you call backward now: ");
    this.badge.replaceChildren(lead, ...(frame.kind === "visit" ? [] : [make("b", {}, forecast)]));
    this.root.classList.toggle("ended", frame.kind === "end");
    if (this.answer && frame.kind === "end") this.mark();
  }

  /** Highlights what the frame is about and the line that runs, and draws the arrows from harmed tensors to lines. */
  highlight() {
    const frame = this.scene.frames[this.at];
    for (const element of this.highlighted) element.classList.remove("now");
    const now = frame.now.flatMap((key) => this.elements(key).map(({ element, text }) => (text ? (element.closest(".chip") ?? element) : element)));
    const line = this.fixed.get(frame.line)?.[0].element;
    this.highlighted = line ? [...now, line] : now;
    for (const element of this.highlighted) element.classList.add("now");
    for (const button of this.code.querySelectorAll('[tabindex="0"]')) button.setAttribute("tabindex", "-1");
    if (line) {
      line.firstElementChild?.setAttribute("tabindex", "0");
      reveal(this.code, line, this.code.clientHeight / 3);
    }
    for (const pane of [this.memory, this.graph]) {
      const linked = frame.links.flatMap(([edge]) => this.elements(edge).map(({ element }) => element.closest(".block, .lane")));
      const shown = [...now, ...linked].find((element) => element && pane.contains(element) && element.matches(".block, .lane"));
      if (shown) reveal(pane, shown);
    }
    this.connect();
  }

  /** Draws the arrow from each harmed saved tensor, which the graph draws up to its left end, to the line that wrote into it. */
  connect() {
    const pairs = this.asking ? [] : this.scene.frames[Math.max(this.at, 0)].links;
    const bounds = this.root.getBoundingClientRect();
    const paths = pairs.flatMap(([edge, line]) => {
      const exit = (this.view.get(edge) ?? []).find(({ base }) => base === "exit")?.element;
      const item = this.fixed.get(line)?.[0].element;
      return exit && item && bounds.width ? [this.arrow(exit, item, bounds)] : [];
    });
    this.links.replaceChildren(...paths);
  }

  /**
   * @param {Element} exit the part in the graph, whose upper end is where it leaves the graph
   * @param {Element} item the line of code that wrote
   * @param {DOMRect} bounds
   */
  arrow(exit, item, bounds) {
    const [sight, code, line] = [this.graph, this.code, item].map((element) => element.getBoundingClientRect());
    const inside = (/** @type {DOMRect} */ pane, /** @type {number} */ y) => Math.max(pane.top + 6, Math.min(pane.bottom - 6, y)) - bounds.top;
    const { left, top } = exit.getBoundingClientRect();
    const [y1, y2] = [inside(sight, top), inside(code, line.top + Math.min(line.height / 2, 11))];
    const path = document.createElementNS(SVG, "path");
    const beside = sight.left > code.right;
    const to = (beside ? code.right - 1 : code.left + 1) - bounds.left;
    const between = beside ? (code.right + sight.left) / 2 - bounds.left : 5;
    path.setAttribute("d", `M${Math.max(sight.left, left) - bounds.left} ${y1}H${between}V${y2}H${to}${beside ? "m5 -4l-6 4l6 4" : "m-5 -4l6 4l-6 4"}`);
    path.setAttribute("class", exit.classList.contains("silent") ? "silent" : "stale");
    return path;
  }

  /**
   * Goes to the next frame that runs a line, or to its first one.
   * @param {string} key
   */
  goToLine(key) {
    const frames = this.scene.frames;
    const hits = frames.flatMap((frame, i) => (frame.line === key && frame.kind === "step" ? [i] : []));
    if (hits.length) this.go(hits.find((i) => i > this.at) ?? hits[0]);
  }

  play() {
    if (this.timer) return this.stop();
    if (this.at === this.scene.frames.length - 1) this.go(0);
    this.player.replaceChildren(icon("pause"));
    this.player.setAttribute("aria-label", say("pause"));
    this.timer = window.setInterval(() => {
      if (!this.root.isConnected || this.at === this.scene.frames.length - 1) this.stop();
      else this.go(this.at + 1);
    }, PAUSE);
  }

  stop() {
    window.clearInterval(this.timer);
    this.timer = undefined;
    this.player.replaceChildren(icon("play"));
    this.player.setAttribute("aria-label", say("play"));
  }

  ask() {
    const choose = (/** @type {[Outcome, string]} */ [outcome, meaning]) => button([make("b", {}, outcome), ` ${meaning}`], () => this.choose(outcome));
    const title = make("p", {}, say("Predict first: step through the program, then say what it will do. The last steps are shown after your choice."));
    this.question.replaceChildren(title, make("div", { role: "group", "aria-label": say("your prediction") }, ...this.scene.outcomes.map(choose)));
  }

  /** @param {Outcome} outcome */
  choose(outcome) {
    this.answer = outcome;
    this.asking = false;
    if (!score.has(this.scene.id)) score.set(this.scene.id, outcome === this.scene.outcome);
    this.question.replaceChildren(make("p", { role: "status" }, say("You predict: {outcome}. Continue to see.", { outcome })));
    this.repaint();
    this.go(this.scene.ask ?? 0);
    this.slider.focus();
  }

  mark() {
    const right = this.answer === this.scene.outcome;
    const first = [...score.values()].filter(Boolean).length;
    const { answer = "", scene: { outcome } } = this;
    const result = right ? say("Your prediction was right: {outcome}.", { outcome }) : say("You predicted {answer}; it is {outcome}.", { answer, outcome });
    const all = say("On this page: {right} of {count} right at the first try.", { right: first, count: score.size });
    this.question.replaceChildren(make("p", { role: "status" }, `${result} ${all}`));
  }

  watch() {
    /** @type {Record<string, () => void>} */
    const keys = { ArrowLeft: () => this.go(this.at - 1), ArrowRight: () => this.go(this.at + 1), Home: () => this.go(0), End: () => this.go(Infinity) };
    this.root.addEventListener("keydown", (event) => {
      const fold = /** @type {HTMLElement | null | undefined} */ (target(event).closest?.("[data-opens]"));
      if (fold && (event.key === "Enter" || event.key === " ")) this.open(Number(fold.dataset.opens));
      else if (target(event).closest?.(".code") && ["ArrowUp", "ArrowDown"].includes(event.key)) this.moveInCode(event);
      else if (keys[event.key] && event.target !== this.slider && !event.altKey && !event.ctrlKey && !event.metaKey) keys[event.key]();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    muteShortcuts(this.root);
    this.graph.addEventListener("click", (event) => {
      const fold = /** @type {HTMLElement | null} */ (target(event).closest("[data-opens]"));
      if (fold) this.open(Number(fold.dataset.opens));
    });
    for (const [type, on] of Object.entries({ pointerover: true, pointerout: false, focusin: true, focusout: false })) {
      this.root.addEventListener(type, (event) => this.lightMemory(target(event).closest?.("[data-memory]"), on));
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
   * Lights everything that shares the memory of an element, or nothing.
   * @param {Element | null | undefined} element
   * @param {boolean} on
   */
  lightMemory(element, on) {
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
 * What draws a scene; board.js, answer.js, counters.js and timeline.js add theirs.
 * @type {Record<"picture" | "board" | "choices" | "counters" | "timeline", new (scene: Scene, el: Element, model: Model) => { close(): void }>}
 */
const kinds = { picture: Viewer, board: Viewer, choices: Viewer, counters: Viewer, timeline: Viewer };

/**
 * Draws into `el`, or shows there why it cannot be drawn, so that it is never blank.
 * @param {Scene} scene
 * @param {Element} el
 * @param {Model} model
 */
function draw(scene, el, model) {
  try {
    words = scene?.words ?? {};
    if (!scene?.frames?.length && !scene?.choices) throw new Error("the recording holds no step");
    const kind = scene.choices ? "choices" : scene.board ? "board" : scene.counters ? "counters" : scene.timeline ? "timeline" : "picture";
    return new kinds[kind](scene, el, model);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    el.replaceChildren(make("p", { className: "autograder-failed", role: "alert" }, say("This picture cannot be drawn: {reason}. Run the cell again.", { reason })));
    return null;
  }
}

/** @param {{ model: Model, el: Element }} place */
function render({ model, el }) {
  let viewer = draw(model.get("scene"), el, model);
  const redraw = () => {
    viewer?.close();
    viewer = draw(model.get("scene"), el, model);
  };
  model.on("change:scene", redraw);
  return () => {
    model.off("change:scene", redraw);
    viewer?.close();
  };
}

/**
 * A saved notebook holds only the static picture, in an element whose class the scene names. Where a kernel has the model, the live
 * picture replaces it; elsewhere (no kernel, an export, another site) the static one stays.
 * @param {{ model: Model }} context
 */
function initialize({ model }) {
  const place = model.get("scene")?.place;
  if (!place) return undefined;
  const living = new WeakMap();
  const replace = () => {
    for (const host of document.getElementsByClassName(place)) {
      if (living.has(host)) continue;
      const picture = [...host.childNodes];
      const stop = render({ model, el: host });
      living.set(host, () => (stop(), host.replaceChildren(...picture)));
    }
  };
  const observer = new MutationObserver(replace);
  observer.observe(document.body, { childList: true, subtree: true });
  replace();
  return () => {
    observer.disconnect();
    for (const host of document.getElementsByClassName(place)) living.get(host)?.();
  };
}

export default { initialize, render, Viewer, kinds, make, makeDrawing, muteShortcuts, button, say, askForBoard };
