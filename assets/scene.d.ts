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
  effect: string;
  changes: Record<string, string>;
  now: string[];
  forecast: [outcome: Outcome, word: string] | null;
  links: [edge: string, line: string][];
  kind: "step" | "visit" | "end";
}

export interface CodeFile {
  file: string;
  lines: { key: string; tokens: [text: string, kind: string][] }[];
}

/** The `scene` trait: the fields of Scene in autograder/view/scene/composition.py. Keys are compared and never taken apart. */
export interface Scene {
  id: string;
  outcome: Outcome;
  headline: string;
  programs: CodeFile[];
  frames: SceneFrame[];
  views: Drawing[];
  memory: Drawing;
  gradients: Drawing | null;
  decisive: number;
  start: number;
  from_start: boolean;
  ask: number | null;
  outcomes: [outcome: Outcome, meaning: string][];
  place: string;
}

/** What anywidget and a page hand to the module. */
export interface Model {
  get(name: "scene"): Scene;
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
