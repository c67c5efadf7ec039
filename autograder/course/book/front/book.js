// What the pages of the book do besides being read: questions, pictures to step through, links, progress, search.
// Classic script: loads from a file as from a server. `book` (words.js), `graph` (graph.js) and play_table.js are there before it.

(() => {
  const KEPT = "autograder-book"; // the key in the browser's storage
  const { root } = document.body.dataset;
  const waiting = new Map(); // picture → what to do when its script has come
  const received = new Map(); // picture → its content

  /** @param {string} words @param {...(string | number)} values */
  const format = (words, ...values) => values.reduce((text, value) => text.replace("{}", String(value)), words);

  // ---- progress: question → { first: the first choice, right: whether that passed, done: whether one has passed } ----

  let answers = read();

  function read() {
    try {
      const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
      return kept && typeof kept === "object" && !Array.isArray(kept) ? kept : {};
    } catch {
      return {}; // no storage (a private window, an embedded page): nothing is remembered
    }
  }

  function keep() {
    try {
      localStorage.setItem(KEPT, JSON.stringify(answers));
    } catch { /* as above */ }
    tell();
  }

  function tell() {
    for (const place of document.querySelectorAll("[data-score]")) {
      const questions = place.dataset.score.split(" ").filter(Boolean);
      const done = questions.filter((name) => answers[name]);
      const right = done.filter((name) => answers[name].right);
      place.textContent = questions.length ? format(book.words.predicted, done.length, questions.length, right.length) : "";
    }
  }

  const progress = {
    save() {
      const file = new Blob([JSON.stringify({ book: KEPT, answers }, null, 1)], { type: "application/json" });
      const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: "answers.json" });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    },
    load() {
      const input = Object.assign(document.createElement("input"), { type: "file", accept: ".json" });
      input.addEventListener("change", async () => {
        try {
          const found = JSON.parse(await input.files[0].text());
          if (found.book !== KEPT || typeof found.answers !== "object") throw new Error();
          answers = { ...answers, ...found.answers };
          keep();
          location.reload();
        } catch {
          alert(book.words.badFile);
        }
      });
      input.click();
    },
    clear() {
      if (!confirm(book.words.forget)) return;
      answers = {};
      keep();
      location.reload();
    },
  };

  // ---- recordings, which come as scripts when they are asked for ----

  book.receive = async (name, packed) => {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    received.set(name, await new Response(stream).json());
    waiting.get(name)?.resolve(received.get(name));
  };

  function script(address) {
    return new Promise((resolve, reject) => {
      const element = Object.assign(document.createElement("script"), { src: address, onload: resolve, onerror: reject });
      document.head.append(element);
    });
  }

  /** Returns a promise of a picture's content. */
  function load(name) {
    if (received.has(name)) return Promise.resolve(received.get(name));
    if (!waiting.has(name)) {
      const entry = {};
      entry.promise = new Promise((resolve, reject) => Object.assign(entry, { resolve, reject }));
      waiting.set(name, entry);
      script(`${root}pictures/${name}.js`).catch((error) => {
        waiting.delete(name);
        entry.reject(error);
      });
    }
    return waiting.get(name).promise;
  }

  /** Shows a picture live in the stage of its figure, at a step counted from 1. */
  async function open(figure, step = 1) {
    const stage = figure.querySelector(":scope > .stage");
    try {
      const { scene } = await load(figure.dataset.picture);
      figure.closeLive?.();
      const start = Math.min(Math.max(step, 1), scene.frames.length) - 1;
      const shown = { ...scene, start };
      figure.closeLive = graph.render({ model: { get: () => shown, on() {}, off() {} }, el: stage });
      stage.removeAttribute("tabindex");
      figure.classList.add("live");
    } catch {
      stage.textContent = book.words.failed;
    }
  }

  // ---- questions ----

  async function choose(question, number) {
    const name = question.id;
    let content;
    try {
      content = await load(question.dataset.picture);
    } catch {
      question.querySelector(".verdict").textContent = book.words.failed;
      return;
    }
    const verdict = content.verdicts[number];
    const known = answers[name] ?? { first: number, right: verdict.right };
    answers[name] = { ...known, last: number, done: known.done || verdict.right };
    keep();
    await answered(question, content, number);
  }

  /** Whether a prediction is the value: numbers to two digits, words in any case, lists item by item (check/prediction.py). */
  function agree(guess, value) {
    if (Array.isArray(value)) return Array.isArray(guess) && guess.length === value.length && value.every((item, i) => agree(guess[i], item));
    if (typeof value !== "number" || typeof guess !== "number") return String(guess).trim().toLowerCase() === String(value).toLowerCase();
    return Math.abs(guess - value) <= Math.max(0.005, 0.01 * Math.max(Math.abs(guess), Math.abs(value)));
  }

  /** Returns what Python's way of writing a value means; a word without quotes is a text. */
  function written(text) {
    const plain = text.trim().replaceAll("None", "null").replaceAll("(", "[").replaceAll(")", "]").replaceAll("'", '"');
    try {
      return JSON.parse(plain.replace(/(?<=\d)\.(?!\d)/g, ".0"));
    } catch {
      return text.trim();
    }
  }

  async function compare(question, text) {
    if (!text.trim()) return;
    const content = await load(question.dataset.picture).catch(() => null);
    if (!content) return void (question.querySelector(".verdict").textContent = book.words.failed);
    answers[question.id] = { text, right: agree(written(text), content.value), done: true };
    keep();
    await compared(question, content);
  }

  /** Shows what the program returned beside what was predicted. */
  async function compared(question, content) {
    const { text, right } = answers[question.id];
    const place = question.querySelector(".verdict");
    if (right) place.innerHTML = content.verdicts[0].html; // made by this project's own build
    else place.textContent = format(book.words.returns, text, JSON.stringify(content.value).replaceAll("null", "None"));
    place.className = `verdict ${right ? "passed" : "refused"}`;
    for (const field of question.querySelectorAll("[data-value] :is(input, button)")) field.disabled = true;
    question.querySelector("[data-value] input").value = text;
    await open(question);
    reveal(question.id, content.rest);
  }

  /** Shows the verdict on a choice; a prediction is made once, a line may be named until it is the right one. */
  async function answered(question, content, number) {
    const buttons = [...question.querySelectorAll(".choices button")];
    const verdict = content.verdicts[number];
    const over = question.dataset.kind === "outcome" || verdict.right;
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === number));
      button.disabled = over;
      button.classList.toggle("right", over && content.verdicts[i].right);
      if (over && content.verdicts[i].right) button.title = book.words.right;
    });
    const place = question.querySelector(".verdict");
    place.innerHTML = verdict.html; // made by this project's own build
    place.className = `verdict ${verdict.right ? "passed" : "refused"}`;
    await open(question);
    if (!over) return;
    const play = question.querySelector(".play");
    if (play) play.hidden = false;
    reveal(question.id, content.rest);
  }

  /** Puts what follows a question in its place. */
  function reveal(name, rest) {
    const place = document.querySelector(`.waiting[data-after="${name}"]`);
    if (!place) return;
    const made = document.createElement("div");
    made.className = "rest";
    made.innerHTML = rest; // made by this project's own build
    place.replaceWith(made);
    restore(made);
  }

  /** Shows again what was answered before. */
  async function restore(part) {
    for (const question of part.querySelectorAll("section.question")) {
      const known = answers[question.id];
      if (known && question.dataset.kind === "value") {
        const content = await load(question.dataset.picture).catch(() => null);
        if (content) await compared(question, content);
        continue;
      }
      if (!known?.done && !(known && question.dataset.kind === "outcome")) continue;
      const content = await load(question.dataset.picture).catch(() => null);
      if (content?.verdicts?.[known.last]) await answered(question, content, known.last);
    }
  }

  // ---- addresses: #name is a section or picture, #name.step5 a step of it ----

  async function visit() {
    const [, name, step] = decodeURIComponent(location.hash.slice(1)).match(/^(.*?)(?:\.step(\d+))?$/) ?? [];
    const place = name && document.getElementById(name);
    if (!place) return;
    if (step && place.matches("figure.picture")) await open(place, Number(step));
    if (step && place.matches("section.question") && answers[name]) await open(place, Number(step));
    place.scrollIntoView();
  }

  function address(element) {
    const figure = element.closest("[data-picture]");
    const slider = figure.querySelector("input.slider");
    const step = slider && Number(slider.value) > 0 ? `.step${Number(slider.value) + 1}` : "";
    return `${location.href.split("#")[0]}#${figure.id}${step}`;
  }

  function embed(name) {
    const base = new URL(`${root}pictures/${name}.html`, location.href).href;
    return `<iframe src="${base}" title="${book.words.picture}" width="100%" height="720" loading="lazy" style="border:0"></iframe>`;
  }

  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // a page from a file, or an older browser
      const field = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    button.dataset.words ??= button.textContent; // pressed again while it says so, it still knows its own words
    button.textContent = book.words.copied;
    setTimeout(() => (button.textContent = button.dataset.words), 1500);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    const stage = event.target.closest("figure.picture:not(.live) > .stage");
    if (stage) return void open(stage.parentElement);
    if (!button) return;
    const { choice, open: picture, reveal: question, copy: text, embed: embedded, progress: act } = button.dataset;
    const figure = button.closest("[data-picture]");
    if (choice !== undefined) choose(button.closest("section.question"), Number(choice));
    else if (picture) open(figure);
    else if ("play" in button.dataset) play(button.closest(".play"));
    else if (question) readOn(question);
    else if (text) copy(text, button);
    else if (embedded) copy(embed(embedded), button);
    else if ("link" in button.dataset) copy(address(button), button);
    else if (act) progress[act]();
  });

  async function play(place) {
    try {
      book.openTable(place, await load(place.dataset.table));
    } catch {
      place.textContent = book.words.failed;
    }
  }

  async function readOn(name) {
    try {
      reveal(name, (await load(document.getElementById(name).dataset.picture)).rest);
    } catch {
      document.querySelector(`.waiting[data-after="${name}"] p`).textContent = book.words.failed;
    }
  }

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-value]")) return;
    event.preventDefault();
    compare(event.target.closest("section.question"), event.target.querySelector("input").value);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches?.("figure.picture:not(.live) > .stage")) open(event.target.parentElement);
  });

  // ---- paper, where nothing can be unfolded or stepped: the text is unfolded, a picture that was not stepped through shows the step
  // that decides; what it says in words stays folded ----

  function moveTo(figure, step) {
    const slider = figure.querySelector(":scope > .stage input.slider");
    slider.value = step;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }

  addEventListener("beforeprint", () => {
    for (const figure of document.querySelectorAll("[data-picture].live")) {
      if (figure.querySelector(":scope > .stage input.slider").value !== "0") continue;
      moveTo(figure, received.get(figure.dataset.picture).scene.decisive);
      figure.dataset.moved = "";
    }
    for (const part of document.querySelectorAll(":is(.prose details, .output):not([open])")) {
      part.open = true;
      part.dataset.folded = "";
    }
  });
  addEventListener("afterprint", () => {
    for (const figure of document.querySelectorAll("[data-moved]")) {
      moveTo(figure, 0);
      delete figure.dataset.moved;
    }
    for (const part of document.querySelectorAll("details[data-folded]")) {
      part.open = false;
      delete part.dataset.folded;
    }
  });

  // ---- search ----

  const search = document.querySelector(".search input");
  let entries = null;
  book.receiveIndex = (found) => {
    entries = found.map(([address, title, text, titled, synonyms]) => [address, title, text, titled, `${title} ${text} ${titled} ${synonyms}`]);
    look();
  };

  /** Returns a pattern for a word, of Latin letters only where one begins: EMA is not in "remains". */
  const pattern = (word) => new RegExp((/^\w/.test(word) ? "(?<![a-z])" : "") + word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");

  function look() {
    const words = search.value.split(/\s+/).filter(Boolean).map(pattern);
    const list = document.querySelector(".search .found");
    const among = (found, part) => found.filter((hit) => words.every((word) => word.test(hit[part])));
    const hits = words.length && entries ? among(entries, 4) : [];
    const sorted = [...new Set([1, 3, 2, 4].flatMap((part) => among(hits, part)))];
    list.replaceChildren(...sorted.slice(0, 12).map((hit) => result(hit, words[0])));
    list.hidden = !hits.length;
    tellFound(words.length && entries ? (hits.length ? format(book.words.found, hits.length) : book.words.none) : "", hits.length > 0);
  }

  /** Says how many places were found; eyes need it only where there is no list to be seen. */
  function tellFound(text, listed) {
    const status = document.querySelector(".search [role=status]");
    status.textContent = text;
    status.classList.toggle("hidden", listed || !text);
  }

  function result([address, title, text], word) {
    const at = Math.max(0, text.search(word) - 40);
    const link = Object.assign(document.createElement("a"), { href: `${root}${address}` });
    link.append(Object.assign(document.createElement("b"), { textContent: title }), ` ${text.slice(at, at + 110)}`);
    const item = document.createElement("li");
    item.append(link);
    return item;
  }

  search?.addEventListener("focus", () => entries ?? script(`${root}search.js`).catch(() => tellFound(book.words.failed, false)), { once: true });
  search?.addEventListener("input", look);
  search?.addEventListener("keydown", (event) => {
    if (event.key === "Escape") (search.value = ""), look();
  });

  for (const filter of document.querySelectorAll("[data-filter]")) {
    filter.addEventListener("input", () => {
      const word = filter.value.toLowerCase();
      for (const part of document.querySelectorAll(`#${filter.dataset.filter} > dl`)) {
        for (const row of part.children) row.hidden = !row.firstElementChild.textContent.toLowerCase().includes(word);
        part.hidden = !part.querySelector("div:not([hidden])");
      }
    });
  }

  document.documentElement.classList.add("scripted");
  tell();
  restore(document).then(visit);
  window.addEventListener("hashchange", visit);
})();
