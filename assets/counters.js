// A picture that hides its version counters at first: the reader sets them, and the first wrong one is answered with a write.
// What is said about a version comes with `scene.counters`, so it works without a kernel.

import graph from "./graph.js";

/**
 * @import { CounterQuestion, CounterRow, SceneFrame } from "./scene"
 */

/** A picture with a field for the version of each tensor. */
class CounterViewer extends graph.Viewer {
  get counters() {
    return /** @type {CounterQuestion} */ (this.scene.counters);
  }

  /** @param {string} key @param {string | undefined} value */
  seen(key, value) {
    return this.asking && value !== undefined ? (this.counters.hidden[key] ?? value) : value;
  }

  /** @param {SceneFrame} frame @returns {[event: string, meaning: string, details: string]} */
  caption(frame) {
    return this.asking ? [this.counters.facts[this.at], "", ""] : super.caption(frame);
  }

  ask() {
    const { question, rows } = this.counters;
    this.root.classList.add("counting");
    this.fields = rows.map((row) => this.field(row));
    this.said = graph.make("p", { role: "status", className: "said" });
    const form = graph.make("form", {}, graph.make("p", {}, question),
      graph.make("div", { role: "group", className: "counters", "aria-label": question }, ...this.fields.map((field, i) => graph.make("label", {}, graph.make("code", {}, rows[i].name), field))),
      graph.make("button", { type: "submit" }, graph.say("compare")), graph.button(graph.say("show them"), () => this.reveal("")), this.said);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.compare();
    });
    this.question.replaceChildren(form);
  }

  /** @param {CounterRow} row */
  field(row) {
    const field = graph.make("input", { type: "number", min: 0, max: 99, step: 1, inputMode: "numeric", placeholder: "?", "aria-label": row.name });
    field.addEventListener("keydown", (event) => event.stopPropagation()); // its arrows are not the picture's
    field.addEventListener("input", () => field.removeAttribute("aria-invalid"));
    return field;
  }

  /** Answers the first version that is wrong, and goes to the frame of the write that explains it. */
  compare() {
    const { rows } = this.counters;
    const fields = /** @type {HTMLInputElement[]} */ (this.fields);
    for (const field of fields) field.removeAttribute("aria-invalid");
    const open = fields.find((field) => !/^\d+$/.test(field.value));
    if (open) return this.tell(graph.say("Set each version first: the number of in-place writes that its counter has counted."), open);
    const at = rows.findIndex(({ version }, i) => Number(fields[i].value) !== version);
    if (at < 0) return this.reveal(graph.say("All versions are right. Step back and forth to see each write counted."));
    const row = rows[at];
    const { frame, sentence } = row.too_few[Number(fields[at].value)] ?? row.too_many;
    this.go(frame);
    this.tell(sentence, fields[at]);
  }

  /** @param {string} sentence @param {HTMLInputElement} field */
  tell(sentence, field) {
    this.said?.replaceChildren(sentence);
    field.setAttribute("aria-invalid", "true");
    field.focus();
  }

  /** Shows all versions. @param {string} words */
  reveal(words) {
    this.asking = false;
    this.root.classList.remove("counting");
    this.question.replaceChildren(...(words ? [graph.make("p", { role: "status" }, words)] : []));
    this.repaint();
    this.go((this.scene.ask ?? 1) - 1);
    this.slider.focus();
  }
}

graph.kinds.counters = CounterViewer;
