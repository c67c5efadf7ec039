// A picture whose program can be changed: its lines are cards to be moved, switched and edited, and each change is run by the kernel.
// It reads `scene.board` and writes the trait `arrangement`.

import graph from "./graph.js";
import { receipt, writeAnswer } from "./answer.js";

/**
 * @import { Board, BoardCard } from "./scene"
 */

/** Where the focus was when a change was sent: the answer replaces the picture. @type {{ name: string, card: string, control: string } | null} */
let returning = null;

/** A picture with the lines of its program as cards. */
class PlayViewer extends graph.Viewer {
  buildCode() {
    this.root.classList.add("playing");
    const { name, cards, spare, answer } = this.board;
    this.program = this.list(cards, "program", graph.say("the program {name}", { name }));
    this.code.append(this.program);
    if (this.hasTray) {
      this.tray = this.list(spare, "program tray", graph.say("lines that are not in the program"));
      this.code.append(graph.make("p", { className: "traytitle" }, graph.say("Lines to choose from; not all may be needed")), this.tray);
    }
    const buttons = graph.make("div", { className: "boardbuttons" }, graph.button(graph.say("as it was given"), () => this.send([], {}, true)));
    if (answer) buttons.append(graph.button(graph.say("write it into the answer's cell"), () => this.write()));
    this.code.append(buttons, graph.make("div", { className: "written" }));
    this.watchDrag();
    requestAnimationFrame(() => this.focusAgain());
  }

  get hasTray() {
    return Boolean(this.board.spare.length || this.board.header);
  }

  get board() {
    return /** @type {Board} */ (this.scene.board);
  }

  /** @param {BoardCard[]} cards @param {string} className @param {string} label */
  list(cards, className, label) {
    const header = className === "program" && this.board.header;
    const items = cards.flatMap((card) => this.lines(card));
    if (header) items.unshift(graph.make("li", { className: "line header" }, graph.make("span", { className: "text" }, this.board.header)));
    return graph.make("ol", { className, "aria-label": label }, ...items);
  }

  /** The lines of a card; the first has its controls. @param {BoardCard} card */
  lines(card) {
    return card.lines.map((tokens, i) => {
      const line = graph.make("button", { type: "button", tabIndex: -1, className: "text" },
        ...tokens.map(([text, kind]) => graph.make("span", { className: kind }, text)));
      const item = graph.make("li", { className: `line${card.is_fixed ? " fixed" : " card"}${i ? " more" : ""}` }, line);
      item.dataset.card = card.id;
      if (card.keys[i]) {
        this.fixed.set(card.keys[i], [{ element: item, base: item.className, text: false, stays: true }]);
        line.addEventListener("click", () => this.goToLine(card.keys[i]));
      }
      if (i === 0 && !card.is_fixed) this.addControls(item, card);
      return item;
    });
  }

  /** @param {HTMLElement} item @param {BoardCard} card */
  addControls(item, card) {
    const line = card.lines[0].map(([text]) => text).join("").trim();
    const inProgram = this.board.cards.includes(card);
    const grip = this.control("grip", "⠿", graph.say("move: {line}", { line }), () => {});
    grip.addEventListener("keydown", (event) => {
      const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      this.shift(card, by, "grip");
    });
    item.prepend(grip);
    const tools = graph.make("span", { className: "tools" });
    if (card.forms.length > 1) tools.append(this.formOf(card, line));
    if (inProgram) tools.append(this.control("up", "↑", graph.say("up: {line}", { line }), () => this.shift(card, -1, "up")), this.control("down", "↓", graph.say("down: {line}", { line }), () => this.shift(card, 1, "down")));
    if (this.hasTray) tools.append(inProgram ? this.control("out", "×", graph.say("take out: {line}", { line }), () => this.take(card)) : this.control("in", "+", graph.say("add: {line}", { line }), () => this.place(card.id, this.board.cards.length)));
    if (this.board.is_editable && inProgram) tools.append(this.control("edit", "✎", graph.say("edit: {line}", { line }), () => this.edit(item, card)));
    item.append(tools);
  }

  /** @param {BoardCard} card @param {string} line */
  formOf(card, line) {
    const select = graph.make("select", { "aria-label": graph.say("form of: {line}", { line }), className: "form" },
      ...card.forms.map((form, i) => graph.make("option", { value: i, selected: i === card.form }, form)));
    select.dataset.control = "form";
    select.addEventListener("keydown", (event) => event.stopPropagation()); // its arrows are not the picture's
    select.addEventListener("change", () => {
      const { [card.id]: _, ...edits } = this.board.edits; // a form takes the place of what was written there
      const form = Number(select.value);
      this.sendCards(this.board.cards.map((one) => (one === card ? { ...one, form } : one)), card.id, "form", edits);
    });
    return select;
  }

  /** @param {string} name @param {string} sign @param {string} label @param {() => void} act */
  control(name, sign, label, act) {
    const made = graph.make("button", { type: "button", className: `tool ${name}`, "aria-label": label, title: label }, sign);
    made.dataset.control = name;
    made.addEventListener("click", act);
    return made;
  }

  /** Moves a card by one place, past no fixed line. @param {BoardCard} card @param {number} by @param {string} control */
  shift(card, by, control) {
    const { cards } = this.board;
    const from = cards.indexOf(card);
    if (from < 0 || !cards[from + by] || cards[from + by].is_fixed) return;
    this.place(card.id, from + by, control);
  }

  /** Puts a card at a place of the program, counted without the card itself. @param {string} id @param {number} at */
  place(id, at, control = "grip") {
    const { cards, spare } = this.board;
    const card = /** @type {BoardCard} */ ([...cards, ...spare].find((one) => one.id === id));
    const others = cards.filter((one) => one !== card);
    const movable = others.findIndex((one) => !one.is_fixed);
    const first = movable < 0 ? others.length : movable;
    others.splice(Math.max(at, first), 0, card);
    this.sendCards(others, id, control);
  }

  /** Takes a card out of the program. @param {BoardCard} card */
  take(card) {
    this.sendCards(this.board.cards.filter((one) => one !== card), card.id, "in");
  }

  /** Puts a field in place of a line; Enter runs what stands in it, Escape leaves it. @param {HTMLElement} item @param {BoardCard} card */
  edit(item, card) {
    const text = card.lines.map((tokens) => tokens.map(([word]) => word).join("")).join("\n");
    const field = graph.make("textarea", { value: text, rows: card.lines.length, className: "edit", spellcheck: false, "aria-label": graph.say("edit: {line}", { line: text }) });
    let isOpen = true; // removing a field that has the focus takes it away, which asks for the same again
    const close = (/** @type {boolean} */ keep) => {
      if (!isOpen) return;
      isOpen = false;
      field.remove();
      item.classList.remove("editing");
      if (!keep || field.value === text) return;
      this.sendCards(this.board.cards, card.id, "edit", { ...this.board.edits, [card.id]: field.value });
    };
    field.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Escape") close(false);
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      close(true);
    });
    field.addEventListener("blur", () => close(true));
    item.classList.add("editing");
    item.append(field);
    field.focus();
  }

  /**
   * Sends an arrangement, and remembers which control of which card has the focus again afterwards.
   * @param {BoardCard[]} cards @param {string} card @param {string} control
   */
  sendCards(cards, card, control, edits = this.board.edits) {
    returning = { name: this.board.name, card, control };
    this.send(cards.map(({ id, form }) => ({ card: id, form })), edits);
  }

  /** @param {{ card: string, form: number }[]} lines @param {Record<string, string>} edits */
  send(lines, edits, again = false) {
    this.root.classList.add("waiting");
    this.model.set("arrangement", { number: this.board.number + 1, lines, edits, again });
    this.model.save_changes();
  }

  focusAgain() {
    if (returning?.name !== this.board.name) return;
    const item = this.code.querySelector(`[data-card="${returning.card}"]`);
    const wanted = item?.querySelector(`[data-control="${returning.control}"]`) ?? item?.querySelector("[data-control]");
    returning = null;
    /** @type {HTMLElement | null | undefined} */ (wanted)?.focus({ preventScroll: true });
  }

  async write() {
    const { function_name, answer } = this.board;
    const written = await writeAnswer(this.root, function_name, answer);
    this.code.querySelector(".written")?.replaceChildren(receipt(written, function_name, answer));
  }

  /** A card follows the pointer, mouse or finger, from its grip to the line that it is let go over. */
  watchDrag() {
    /** @type {HTMLElement | null} */
    let dragged = null;
    const over = (/** @type {PointerEvent} */ event) => {
      const items = [...this.code.querySelectorAll(`.program:not(.tray) > .line:not(.header, [data-card="${dragged?.dataset.card}"])`)];
      const below = items.find((item) => event.clientY < item.getBoundingClientRect().top + item.getBoundingClientRect().height / 2);
      const tray = this.tray?.getBoundingClientRect();
      return { items, below, out: Boolean(tray && event.clientY > tray.top) };
    };
    const end = () => {
      dragged?.classList.remove("dragged");
      dragged?.style.removeProperty("translate");
      for (const mark of this.code.querySelectorAll(".drop, .droplast")) mark.classList.remove("drop", "droplast");
      dragged = null;
    };
    let start = 0;
    this.code.addEventListener("pointerdown", (event) => {
      const grip = /** @type {HTMLElement} */ (event.target).closest(".grip");
      if (!grip || event.button) return;
      dragged = grip.closest(".line");
      start = event.clientY;
      grip.setPointerCapture(event.pointerId);
      dragged?.classList.add("dragged");
    });
    this.code.addEventListener("pointermove", (event) => {
      if (!dragged) return;
      dragged.style.translate = `0 ${event.clientY - start}px`;
      for (const mark of this.code.querySelectorAll(".drop, .droplast")) mark.classList.remove("drop", "droplast");
      const { items, below, out } = over(event);
      if (!out) (below ?? items.at(-1))?.classList.add(below ? "drop" : "droplast");
    });
    this.code.addEventListener("pointerup", (event) => {
      const id = dragged?.dataset.card;
      if (!dragged || !id || Math.abs(event.clientY - start) < 4) return end();
      const { below, out } = over(event);
      end(); // the card returns to its place, until the answer comes
      const card = this.board.cards.find((one) => one.id === id);
      if (out) return card && this.take(card);
      const others = this.board.cards.filter((one) => one.id !== id);
      const at = others.findIndex((one) => one.id === /** @type {HTMLElement | undefined} */ (below)?.dataset.card);
      const next = at < 0 ? others.length : at;
      if (!card || next !== this.board.cards.indexOf(card)) this.place(id, next);
    });
    this.code.addEventListener("pointercancel", end);
  }
}

graph.kinds.board = PlayViewer;

export default { initialize: graph.initialize, render: graph.render };
