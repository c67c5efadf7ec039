// A program whose lines can be moved and switched: every arrangement is looked up in a table of recorded runs.

/* A live kernel can be plugged in here: a function that takes a program's source text and returns a promise of
   { outcome, sentence, scene }, with a scene as assets/scene.d.ts describes it. It is asked for what no table holds.
   docs/book.md says more. */
book.kernel = null;

(() => {
  const SIGNS = { correct: "✓", "silently-wrong": "⚠", "raises-forward": "!", "raises-backward": "!" };
  const keyOf = (lines) => lines.map(({ card, form }) => (form ? `${card}.${form}` : card)).join(" ");
  const linesOf = (key) => key.split(" ").filter(Boolean).map((word) => ({ card: word.split(".")[0], form: Number(word.split(".")[1] ?? 0) }));

  /** Returns what `share` (autograder/course/book/block_pages.py) was given. */
  function unshared({ parts, value }) {
    const made = [];
    const whole = (one) => {
      if (Array.isArray(one)) return one.map(whole);
      if (!one || typeof one !== "object") return one;
      if ("$" in one) return made[one.$];
      return Object.fromEntries(Object.entries(one).map(([key, item]) => [key, whole(item)]));
    };
    for (const part of parts) made.push(whole(part));
    return whole(value);
  }

  function element(tag, properties, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) name in made ? (made[name] = value) : made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  class PlayTable {
    list = element("ol", { className: "lines", "aria-label": book.words.program });
    answer = element("p", { className: "answer", role: "status" });
    stage = element("div", { className: "stage" });

    constructor(place, content) {
      this.cards = new Map(content.cards.map((card) => [card.id, card]));
      this.tried = new Map(unshared(content).map((one) => [one.key, one]));
      this.given = linesOf(content.given);
      this.reset = element("button", { type: "button", textContent: book.words.reset });
      this.reset.addEventListener("click", () => this.show(this.given));
      this.put(place, content);
      this.show(this.given);
    }

    put(place) {
      place.replaceChildren(this.list, this.reset, this.answer, this.stage);
    }

    /** Shows an arrangement and what it does. */
    show(lines, note = "") {
      this.lines = lines;
      this.note = note;
      this.list.replaceChildren(...lines.map((line, at) => this.item(line, at)));
      this.tell(this.tried.get(keyOf(lines)));
    }

    tell({ outcome, sentence, scene }) {
      this.answer.className = `answer ${outcome}`;
      this.answer.replaceChildren(element("b", {}, `${SIGNS[outcome]} ${outcome}`), ` ${book.words.sentence.replace("{sentence}", sentence)} ${this.note}`);
      this.draw(scene);
    }

    draw(scene) {
      this.close?.();
      const shown = { ...scene, start: scene.decisive };
      this.close = graph.render({ model: { get: () => shown, on() {}, off() {} }, el: this.stage });
    }

    text(line) {
      return this.cards.get(line.card).forms[line.form][1];
    }

    item(line, at) {
      const card = this.cards.get(line.card);
      const item = element("li", {}, element("code", {}, this.text(line)));
      if (card.fixed || card.forms.length < 2) return item;
      item.classList.add("free");
      item.append(this.forms(line, at, card), this.button("↑", book.words.up, line, at, -1), this.button("↓", book.words.down, line, at, 1));
      if (this.next(at, -1) !== null || this.next(at, 1) !== null) item.prepend(this.handle(item, at));
      return item;
    }

    handle(item, at) {
      const handle = element("span", { className: "handle", title: book.words.drag, "aria-hidden": "true" }, "⠿");
      handle.addEventListener("pointerdown", (event) => this.drag(event, handle, item, at));
      return handle;
    }

    forms(line, at, card) {
      const label = book.words.form.replace("{}", this.text(line));
      const select = element("select", { "aria-label": label }, ...card.forms.map(([name], form) => element("option", { value: form, selected: form === line.form }, name)));
      select.addEventListener("change", () => {
        this.change(at, { card: line.card, form: Number(select.value) }, at);
        this.list.children[this.placeOf(line.card)].querySelector("select").focus();
      });
      return select;
    }

    button(sign, words, line, at, step) {
      const goal = this.next(at, step);
      const button = element("button", { type: "button", "aria-label": words.replace("{}", this.text(line)), disabled: goal === null }, sign);
      button.addEventListener("click", () => {
        this.change(at, line, goal);
        const buttons = [...this.list.children[this.placeOf(line.card)].querySelectorAll("button")];
        (buttons[step < 0 ? 0 : 1].disabled ? buttons.find((one) => !one.disabled) : buttons[step < 0 ? 0 : 1])?.focus();
      });
      return button;
    }

    placeOf(card) {
      return this.lines.findIndex((line) => line.card === card);
    }

    /** Returns the next place in a direction to which a line can go, or null. */
    next(at, step) {
      for (let goal = at + step; goal >= 0 && goal < this.lines.length; goal += step) {
        if (this.arrange(this.lines, at, this.lines[at], goal) || this.alone(this.lines[at], goal)) return goal;
      }
      return null;
    }

    /** Returns the lines with one of them at another place, if there is a recording of that. */
    arrange(lines, at, line, goal) {
      const moved = lines.toSpliced(at, 1).toSpliced(goal, 0, line);
      return this.tried.has(keyOf(moved)) ? moved : null;
    }

    /** Returns the program as given but for one line. */
    alone(line, goal) {
      return this.arrange(this.given, this.given.findIndex(({ card }) => card === line.card), line, goal);
    }

    async change(at, line, goal) {
      const together = this.arrange(this.lines, at, line, goal);
      const alone = together ? null : this.alone(line, goal);
      if (together || alone) return this.show(together ?? alone, alone ? book.words.oneAtATime : "");
      if (book.kernel) return this.ask(this.lines.toSpliced(at, 1).toSpliced(goal, 0, line));
      return this.show(this.lines, book.words.notTried);
    }

    /** Asks the live kernel for an arrangement that no table holds. */
    async ask(lines) {
      this.tried.set(keyOf(lines), await book.kernel(lines.map((line) => this.text(line)).join("\n")));
      this.show(lines);
    }

    /** Follows the pointer, mouse or finger, and drops the line where it is let go. */
    drag(event, handle, item, at) {
      event.preventDefault();
      handle.setPointerCapture(event.pointerId);
      item.classList.add("dragged");
      let goal = at;
      const over = ({ clientY }) => {
        const tops = [...this.list.children].map((one) => one.getBoundingClientRect());
        const under = tops.findIndex(({ bottom }) => clientY < bottom);
        goal = under < 0 ? tops.length - 1 : under;
        [...this.list.children].forEach((one, i) => one.classList.toggle("goal", i === goal && i !== at));
      };
      handle.addEventListener("pointermove", over);
      handle.addEventListener("pointerup", () => this.change(at, this.lines[at], goal), { once: true });
      handle.addEventListener("pointercancel", () => this.show(this.lines), { once: true });
    }
  }

  /** Lines to be put in order: the reader takes them one by one, and each order that returns was run and checked. */
  class OrderTable extends PlayTable {
    put(place, content) {
      this.ids = content.spare;
      this.spare = element("ol", { className: "lines spare", "aria-label": book.words.spare });
      this.header = element("pre", { tabIndex: 0, role: "group", "aria-label": book.words.program }, element("code", {}, content.header));
      place.replaceChildren(this.header, this.list, this.spare, this.reset, this.answer, this.stage);
    }

    show(lines, focus = "") {
      this.lines = lines;
      this.note = "";
      this.list.replaceChildren(...lines.map((line, at) => this.taken(line, at)));
      const left = this.ids.filter((card) => !lines.some((line) => line.card === card));
      this.spare.replaceChildren(...left.map((card) => this.offered(card)));
      this.list.parentElement?.querySelector(focus || "none")?.focus();
      this.judge(this.tried.get(keyOf(lines)), lines);
    }

    /** A line of the answer, with buttons to move it and to put it back; the inputs above them stay. */
    taken(line, at) {
      const item = element("li", {}, element("code", {}, this.text(line)));
      if (this.cards.get(line.card).fixed) return item;
      item.classList.add("free");
      item.append(
        element("span", { className: "moves" },
          this.move("↑", book.words.up, line, at, at - 1),
          this.move("↓", book.words.down, line, at, at + 1),
          this.press("×", book.words.putBack, line, () => this.show(this.lines.toSpliced(at, 1), ".spare button"))),
      );
      return item;
    }

    offered(card) {
      const line = { card, form: 0 };
      return element("li", {}, this.press("+", book.words.take, line, () => this.show([...this.lines, line], ".spare button")), element("code", {}, this.text(line)));
    }

    move(sign, words, line, at, goal) {
      const button = this.press(sign, words, line, () => this.show(this.lines.toSpliced(at, 1).toSpliced(goal, 0, line), `.lines li:nth-child(${goal + 1}) button`));
      button.disabled = goal < this.given.length || goal >= this.lines.length;
      return button;
    }

    press(sign, words, line, act) {
      const button = element("button", { type: "button", "aria-label": words.replace("{}", this.text(line)) }, sign);
      button.addEventListener("click", act);
      return button;
    }

    judge(found, lines) {
      const ends = lines.length > this.given.length && this.text(lines.at(-1)).startsWith("return");
      this.answer.className = "answer";
      if (found?.passes) {
        this.answer.classList.add("correct");
        this.answer.replaceChildren(element("b", {}, `✓ ${book.words.passes}`));
      } else if (found?.said) {
        this.answer.classList.add("raises-forward");
        this.answer.innerHTML = found.said; // made by this project's own build
      } else if (found) {
        return this.tell(found);
      } else {
        this.close?.();
        this.stage.replaceChildren();
        this.answer.replaceChildren(ends ? book.words.unbound : book.words.start);
        return undefined;
      }
      return this.draw(found.scene);
    }
  }

  book.openTable = (place, content) => new (content.spare.length ? OrderTable : PlayTable)(place, content);
})();
