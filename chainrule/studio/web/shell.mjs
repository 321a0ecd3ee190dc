// The page as a whole: its tabs, what each needs, and the address that says where the reader is.
import {addressOf, forgetAddress, readAddress, writeAddress, writeNow} from "./address.mjs";
import {breakPage} from "./break_page.mjs";
import {pageContent, inflate} from "./page_content.mjs";
import {h} from "./dom.mjs";
import {expressionPage} from "./expression_page.mjs";
import {gptPage} from "./gpt_page.mjs";
import {LessonBar, lessonChooser} from "./lessons.mjs";
import {networkPage} from "./network_page.mjs";
import {OpTable} from "./op_table.mjs";
import {decodeTrace} from "./trace.mjs";
import {tracePage} from "./trace_page.mjs";

// [name, title, make(shell, params) -> {element, start(), stop(), close(), state()}]
const PAGES = [
  [
    "expr",
    "Expression",
    (shell, params) =>
      expressionPage({table: shell.table, params, onState: (s) => shell.showState("expr", s)}),
  ],
  ["network", "Network", (shell, params) => networkPage(shell.trainingOptions(params))],
  ["gpt", "GPT", (shell, params) => gptPage(shell.trainingOptions(params))],
  [
    "break",
    "Break it",
    (shell, params) =>
      breakPage({
        trace: shell.slips,
        table: shell.table,
        mistakes: shell.content.data.mistakes,
        params,
        onState: (s) => shell.showState("break", s),
      }),
  ],
  [
    "trace",
    "Your program",
    (shell, params) =>
      tracePage({
        trace: shell.trace,
        params,
        onState: (s) => shell.showState("trace", s),
        onOpen: (text) => shell.openText(text),
      }),
  ],
];
const STATE_INTERVAL = 1000; // milliseconds between looks at the state of a page that trains

class Shell {
  constructor(place) {
    this.place = place;
    this.pages = new Map();
  }

  async start() {
    this.content = await pageContent();
    const {data, binaries} = this.content;
    this.modules = {};
    for (const [name, text] of Object.entries(binaries)) this.modules[name] = await inflate(text);
    this.table = await OpTable.open(this.modules.ops, data.table);
    this.slips = decodeTrace(data.slips);
    if (data.trace) this.trace = decodeTrace(data.trace);
    this.lessons = new LessonBar(
      (name, params) => this.reopen(name, params),
      () => this.focusTab(),
    );
    this.draw();
    setInterval(() => this.saveState(), STATE_INTERVAL);
    addEventListener("hashchange", (e) => this.followAddress(new URL(e.newURL).hash));
    addEventListener("pagehide", () => {
      this.saveState();
      writeNow();
    });
    const {page, lesson, part, ...params} = readAddress();
    if (this.lessons.knows(lesson)) return this.lessons.show(lesson, Number(part) || 0);
    this.show(PAGES.some(([name]) => name === page) ? page : (data.first ?? "expr"), params);
  }

  trainingOptions(params) {
    return {
      modules: this.modules,
      data: this.content.data.training,
      table: this.table,
      params,
      openTrace: (trace) => this.play(trace),
    };
  }

  draw() {
    this.tabs = new Map(
      PAGES.map(([name, title]) => [
        name,
        h(
          "button",
          {
            role: "tab",
            id: `tab-${name}`,
            "aria-controls": "view",
            onclick: () => this.show(name),
            onkeydown: (e) => this.key(e, name),
          },
          title,
        ),
      ]),
    );
    this.view = h("div", {id: "view", role: "tabpanel", class: "page"});
    this.place.replaceChildren(
      h(
        "div",
        {class: "shell"},
        h(
          "header",
          {class: "masthead"},
          h("h1", {class: "brand"}, "chain", h("span", null, "rule")),
          h("div", {class: "tabs", role: "tablist", "aria-label": "pages"}, ...this.tabs.values()),
          h(
            "div",
            {class: "row aside"},
            lessonChooser((key) => this.lessons.show(key)),
            h(
              "button",
              {onclick: () => this.theme(), "aria-label": "light or dark", title: "light or dark"},
              "◐",
            ),
          ),
        ),
        this.lessons.element,
        h("main", {class: "page"}, this.view),
      ),
    );
  }

  key(e, name) {
    const names = PAGES.map(([n]) => n);
    const move = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!move) return;
    e.preventDefault();
    e.stopPropagation();
    const next = names[(names.indexOf(name) + move + names.length) % names.length];
    this.show(next);
    this.tabs.get(next).focus();
  }

  show(name, params = {}) {
    if (this.now && this.now !== name) this.pages.get(this.now)?.stop();
    this.now = name;
    if (!this.pages.has(name))
      this.pages.set(name, PAGES.find(([n]) => n === name)[2](this, params));
    for (const [n, tab] of this.tabs) {
      tab.setAttribute("aria-selected", String(n === name));
      tab.tabIndex = n === name ? 0 : -1;
    }
    this.tabs.get(name).scrollIntoView({block: "nearest", inline: "nearest"});
    this.view.setAttribute("aria-labelledby", `tab-${name}`);
    const page = this.pages.get(name);
    this.view.replaceChildren(page.element);
    page.start();
    this.showState(name, page.state());
  }

  // A page anew, in this state. If it cannot be made, what was there stays.
  reopen(name, params) {
    const page = PAGES.find(([n]) => n === name)[2](this, params);
    this.pages.get(name)?.close();
    this.pages.set(name, page);
    this.show(name, params);
  }
  focusTab() {
    this.saveState();
    this.tabs.get(this.now).focus();
  }
  // The reader changed the address, or followed a link to a state of this page.
  // The page may have written its own state since the reader gave this address.
  followAddress(hash) {
    if (hash === this.address) return;
    forgetAddress();
    const {page, lesson, part, ...params} = readAddress(hash);
    if (this.lessons.knows(lesson)) this.lessons.show(lesson, Number(part) || 0);
    else this.reopen(PAGES.some(([name]) => name === page) ? page : this.now, params);
  }

  saveState() {
    this.showState(this.now, this.pages.get(this.now).state());
  }

  showState(name, state) {
    if (name !== this.now) return;
    state = {...state, ...this.lessons.state()};
    const address = addressOf({page: name, ...state});
    if (address === this.address) return;
    this.address = address;
    writeAddress({page: name, ...state});
  }

  // A trace to play: of another page, or a file that the reader opened.
  play(trace) {
    const before = this.trace;
    try {
      this.trace = trace;
      this.reopen("trace", {});
    } catch (error) {
      this.trace = before;
      throw error;
    }
  }
  openText(text) {
    this.play(decodeTrace(text));
  }

  theme() {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    dispatchEvent(new Event("themechange"));
    this.pages.get(this.now)?.start();
  }
}

const shellPlace = document.getElementById("studio");
new Shell(shellPlace).start().catch((error) => {
  const simd = /simd|WebAssembly/i.test(error.message)
    ? " This page needs a browser with WebAssembly and its SIMD instructions: any current one has them."
    : "";
  shellPlace.replaceChildren(
    h(
      "main",
      {class: "shell"},
      h(
        "p",
        {role: "alert", class: "problem bad"},
        `The page cannot start: ${error.message}${simd}`,
      ),
    ),
  );
});
