// Writes an answer into the notebook's own cell and runs it, as somebody at the keyboard would; and the four buttons of a prediction.
// JupyterLab gives a widget no way to its cells, so the cell is found in the page. Where there is none, the text can be copied.

import graph from "./graph.js";

/**
 * @import { Choices, Model, Scene } from "./scene"
 */

const WAIT = 1000, TURN = 50; // milliseconds until JupyterLab 4.6 has selected the next cell, at most, and between two looks

/**
 * The editor of a code cell: CodeMirror 6 keeps its view on the element (`cmTile` since its release 6.39, `cmView` before).
 * @param {Element} cell
 */
function editorOf(cell) {
  const content = /** @type {any} */ (cell.querySelector(".jp-InputArea-editor .cm-content"));
  return { content, view: content?.cmTile?.view ?? content?.cmView?.view ?? content?.cmView?.rootView?.view };
}

/**
 * Finds the cell that defines a name, the nearest one to the element.
 * @param {Element} near
 * @param {string} name
 */
export function findCell(near, name) {
  const cells = [...(near.closest(".jp-Notebook")?.querySelectorAll(".jp-CodeCell") ?? [])];
  const own = cells.findIndex((cell) => cell.contains(near));
  const defines = new RegExp(`^(def|class) ${name}\\b|^${name}\\s*=`, "m");
  return cells.map((cell, i) => ({ cell, far: Math.abs(i - own), ...editorOf(cell) }))
    .filter(({ view }) => view && defines.test(view.state.doc.toString()))
    .sort((one, other) => one.far - other.far)[0];
}

/**
 * Runs the cell that has the focus by JupyterLab's keys, and waits until the next one has it.
 * @param {Element} notebook
 */
async function runFocused(notebook) {
  const focused = notebook.contains(document.activeElement) ? document.activeElement : notebook;
  focused?.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", code: "Enter", keyCode: 13, shiftKey: true, bubbles: true, cancelable: true }));
  for (let waited = 0; waited < WAIT && document.activeElement === focused; waited += TURN) await new Promise((done) => setTimeout(done, TURN));
}

/**
 * Writes a text into the cell that defines a name, then runs that cell and the next one, which checks it.
 * Returns whether there was such a cell.
 * @param {Element} near
 * @param {string} name
 * @param {string} text
 */
export async function writeAnswer(near, name, text) {
  const found = findCell(near, name);
  const notebook = near.closest(".jp-Notebook");
  if (!found || !notebook) return false;
  found.view.dispatch({ changes: { from: 0, to: found.view.state.doc.length, insert: text } });
  found.content.focus();
  await runFocused(notebook);
  await runFocused(notebook);
  return true;
}

/**
 * A line that says what was done with an answer, or gives its text where no cell was found.
 * @param {boolean} written
 * @param {string} name
 * @param {string} text
 */
export function receipt(written, name, text) {
  if (written) return graph.make("p", { className: "receipt", role: "status" }, graph.say("Written into the cell of {name}, and checked below it.", { name }));
  return graph.make("div", { className: "receipt", role: "status" },
    graph.make("p", {}, graph.say("The cell of {name} is not on this page. Copy this into it, and run it:", { name })), graph.make("pre", { tabIndex: 0 }, text));
}

/** The buttons of a prediction that is still open. */
class Buttons {
  /**
   * @param {Scene} scene
   * @param {Element} host
   */
  constructor(scene, host) {
    const { name, question, options } = /** @type {Choices} */ (scene.choices);
    this.root = graph.make("section", { className: "autograder choices", "aria-label": question });
    const answer = graph.make("div", { className: "written" });
    const choose = async (/** @type {string} */ value) => {
      const text = `${name} = ${JSON.stringify(value)}`;
      answer.replaceChildren(receipt(await writeAnswer(this.root, name, text), name, text));
    };
    const areLines = options.every(([, meaning]) => !meaning); // the lines of a program
    const group = graph.make("div", { role: "group", className: areLines ? "lines" : "", "aria-label": graph.say("your prediction") },
      ...options.map(([value, meaning]) => graph.button([graph.make(areLines ? "code" : "b", {}, value), ` ${meaning}`], () => choose(value))));
    this.root.append(graph.make("p", {}, question), group, answer);
    host.replaceChildren(this.root);
  }

  close() {
    this.root.remove();
  }
}

graph.kinds.choices = Buttons;
