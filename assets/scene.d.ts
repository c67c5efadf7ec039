// The types that graph.js is checked against (tests/test_javascript.py). Nothing reads this file at run time.

export type Outcome = "raises-forward" | "raises-backward" | "correct" | "silently-wrong";

/** `[tag, attributes, ...children]`, as autograder/view/shapes.py writes it. */
export type Shape = [tag: string, attributes: Record<string, string | number>, ...children: (Shape | string)[]];

export interface Drawing {
  left: number;
  top: number;
  width: number;
  height: number;
  shapes: Shape[];
  title: string;
  parent: number | null;
}

export interface SceneFrame {
  line: string;
  fact: string;
  meaning: string;
  effect: string;
  others: string;
  details: string;
  changes: Record<string, string>;
  now: string[];
  forecast: [outcome: Outcome, word: string] | null;
  links: [edge: string, line: string][];
  kind: "step" | "visit" | "end";
  number: number;
}

export interface CodeFile {
  file: string;
  first: number;
  lines: { key: string; tokens: [text: string, kind: string][] }[];
}

/** The `scene` trait: the fields of Scene in autograder/view/scene/composition.py. Keys are compared and never taken apart. */
export interface Scene {
  id: string;
  outcome: Outcome;
  title: string;
  is_refused: boolean;
  programs: CodeFile[];
  frames: SceneFrame[];
  views: Drawing[];
  memory: Drawing;
  others: Drawing | null;
  gradients: Drawing | null;
  decisive: number;
  start: number;
  from_start: boolean;
  ask: number | null;
  outcomes: [outcome: Outcome, meaning: string][];
  place: string;
  is_playable: boolean;
  board: Board | null;
  choices: Choices | null;
  counters: CounterQuestion | null;
  timeline: SceneTimeline | null;
  words: Record<string, string>;
}

export type Token = [text: string, kind: string];

/** One statement of a program that can be changed; `keys` are those of its lines, "" where it was not run. */
export interface BoardCard {
  id: string;
  lines: Token[][];
  keys: string[];
  forms: string[];
  form: number;
  is_fixed: boolean;
}

/** The program as cards: `cards` in order, `spare` those that it does not hold. `problem` says why there is no picture. */
export interface Board {
  name: string;
  number: number;
  cards: BoardCard[];
  spare: BoardCard[];
  edits: Record<string, string>;
  problem: string;
  remark: string;
  header: string;
  function_name: string;
  answer: string;
  is_editable: boolean;
}

/** A prediction that is still open: the variable, the question, and each answer with its meaning. */
export interface Choices {
  name: string;
  question: string;
  options: [value: string, meaning: string][];
}

/** The tensors whose versions are asked, and what is said to a wrong one (autograder/view/scene/counter_question.py). */
export interface CounterQuestion {
  question: string;
  rows: CounterRow[];
  hidden: Record<string, string>;
  facts: string[];
}

export interface CounterRow {
  name: string;
  version: number;
  too_few: { frame: number; sentence: string }[];
  too_many: { frame: number; sentence: string };
}

/** One storage of a timeline, drawn at several widths; each of its rows has a frame (-1: none). */
export interface SceneColumn {
  title: string;
  drawings: Drawing[];
  frames: number[];
  movable: string[];
}

/** The figure that is shown first (autograder/view/scene/timeline_parts.py). */
export interface SceneTimeline {
  title: string;
  tone: string;
  columns: SceneColumn[];
  change: string;
  rest: string[];
  unmodified: string[];
  graph_first: boolean;
}

/** What anywidget and a page hand to the module. */
export interface Model {
  get(name: "scene"): Scene;
  set(name: "arrangement", value: { number: number; lines: { card: string; form: number }[]; edits: Record<string, string>; again: boolean; moved?: string; by?: number }): void;
  save_changes(): void;
  on(event: "change:scene", listener: () => void): void;
  off(event: "change:scene", listener: () => void): void;
}

/** An element of a drawing whose state changes from frame to frame. */
export interface Entry {
  element: Element;
  base: string;
  text: boolean;
  stays?: boolean;
}
