"use strict";
/* Sorting, filtering, search and paging of tables, and the figures over time. The data is JSON embedded in the page. It
   is inserted as text only, so no name can become markup. */

const PAGE = 25; // rows, as in cells.py
const MARGIN = {left: 74, right: 10, top: 12, bottom: 26};
const NEAR = 24; // the pointer selects a mark within this many pixels

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function drawn(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function breakable(text) { // a path may continue on the next line after any slash, as in cells.py
  return text.split(/(?<=\/)/).flatMap((part, place) => (place ? [make("wbr"), part] : [part]));
}

// -- tables ---------------------------------------------------------------------------------------------------------

function activate(sheet) {
  const columns = JSON.parse(sheet.querySelector("script").textContent);
  const table = sheet.querySelector("table");
  const heads = [...table.tHead.rows[0].cells];
  const height = columns[0].texts.length;
  const label = table.getAttribute("aria-label");
  const state = {order: [...Array(height).keys()], shown: [], page: 0, words: "", picked: new Map(), by: -1, down: true};
  const isNumber = (number) => heads[number].classList.contains("number");

  function key(column, row) {
    return column.values ? column.values[row] : column.texts[row];
  }

  function sort(number) {
    state.down = state.by === number ? !state.down : isNumber(number);
    state.by = number;
    const column = columns[number];
    const sign = state.down ? -1 : 1;
    const compare = new Intl.Collator("en", {numeric: true}).compare;
    state.order.sort((one, other) => {
      const a = key(column, one), b = key(column, other);
      if (a === null || b === null) return (a === null) - (b === null) || one - other; // unknown values come last
      const apart = typeof a === "number" ? a - b : compare(a, b);
      return sign * apart || one - other;
    });
    heads.forEach((head, other) => head.removeAttribute("aria-sort"));
    heads[number].setAttribute("aria-sort", state.down ? "descending" : "ascending");
    choose();
  }

  function choose() {
    const words = state.words.toLowerCase();
    const searched = columns.filter((column) => column.values === null);
    state.shown = state.order.filter((row) => {
      for (const [number, value] of state.picked) {
        if (columns[number].texts[row] !== value) return false;
      }
      return !words || searched.some((column) => (column.texts[row] || "unknown").toLowerCase().includes(words));
    });
    state.page = 0;
    show();
  }

  function show() {
    const first = state.page * PAGE;
    const rows = state.shown.slice(first, first + PAGE).map((row) => {
      const cells = columns.map((column, number) => {
        const cell = number ? make("td") : make("th", {scope: "row"});
        if (isNumber(number)) cell.className = "number";
        const text = column.texts[row];
        if (text === null && !isNumber(number)) cell.append(make("i", {}, "unknown"));
        else cell.append(...(text === null ? ["–"] : breakable(text)));
        return cell;
      });
      return make("tr", {}, ...cells);
    });
    table.tBodies[0].replaceChildren(...rows);
    if (!status) return; // few rows need neither search nor pages
    const last = Math.min(first + PAGE, state.shown.length);
    const count = (number) => number.toLocaleString("en");
    const rest = state.shown.length < height ? ` (${count(height)} in all)` : "";
    status.textContent = state.shown.length ? `${count(first + 1)}–${count(last)} of ${count(state.shown.length)}${rest}` : "no row";
    before.hidden = after.hidden = height <= PAGE;
    before.disabled = state.page === 0;
    after.disabled = last >= state.shown.length;
  }

  let status = null, before = null, after = null;
  if (height > 10) {
    const search = make("input", {type: "search", "aria-label": `Search ${label}`, placeholder: "Search"});
    search.addEventListener("input", () => { state.words = search.value; choose(); });
    const selects = columns.flatMap((column, number) => {
      if (!column.pick) return [];
      const values = [...new Set(column.texts)];
      if (values.length < 2 || values.length > 200) return [];
      const title = heads[number].textContent;
      const select = make("select", {"aria-label": `${title} of ${label}`}, make("option", {value: ""}, `${title}: all`));
      values.sort().forEach((value, place) => select.append(make("option", {value: String(place)}, value === null ? "unknown" : value)));
      select.addEventListener("change", () => {
        if (select.value === "") state.picked.delete(number);
        else state.picked.set(number, values[Number(select.value)]);
        choose();
      });
      return [select];
    });
    before = make("button", {type: "button"}, "Previous");
    after = make("button", {type: "button"}, "Next");
    status = make("span", {role: "status"});
    before.addEventListener("click", () => { state.page -= 1; show(); });
    after.addEventListener("click", () => { state.page += 1; show(); });
    sheet.prepend(make("div", {class: "controls"}, search, ...selects, status, before, after));
  }
  if (height > 1) {
    heads.forEach((head, number) => {
      const button = make("button", {type: "button"}, head.textContent);
      button.addEventListener("click", () => sort(number));
      head.replaceChildren(button);
    });
  }
  state.shown = state.order.slice();
  show();
}

// -- figures over time ----------------------------------------------------------------------------------------------

const scaled = (value, units, base) => {
  let place = 0;
  while (place < units.length - 1 && Math.abs(value) >= base) { value /= base; place += 1; }
  return `${Number(value.toPrecision(6)).toLocaleString("en", {maximumFractionDigits: 3})} ${units[place]}`;
};
const bytes = (value) => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const LONG = [[3.6e12, 2, "h"], [6e10, 10, "min"]]; // units of long times: ns, minimum number of units, name
const time = (ns) => {
  const unit = LONG.find(([length, least]) => Math.abs(ns) >= least * length);
  return unit ? `${Number((ns / unit[0]).toPrecision(6)).toLocaleString("en")} ${unit[2]}` : scaled(ns, ["ns", "µs", "ms", "s"], 1000);
};

function ticks(low, high, most) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high; at += 1) found.push(at * step);
  return found;
}

function decades(low, high, base) {
  const found = [];
  for (let power = Math.ceil(Math.log(low) / Math.log(base)); base ** power <= high; power += 1) found.push(base ** power);
  return found.filter((_, place) => place % Math.ceil(found.length / 6) === 0);
}

/* The time axis is shared: zooming in one figure zooms all figures. */
class Axis {
  constructor(span) {
    this.whole = [-span * 0.005, span * 1.005];
    this.range = this.whole;
    this.charts = [];
  }

  show(low, high) {
    const least = (this.whole[1] - this.whole[0]) * 1e-6;
    if (high - low < least) return;
    const length = Math.min(high - low, this.whole[1] - this.whole[0]);
    const from = Math.max(this.whole[0], Math.min(low, this.whole[1] - length));
    this.range = [from, from + length];
    this.charts.forEach((chart) => chart.draw());
  }

  zoom(factor, middle) {
    const [low, high] = this.range;
    this.show(middle - (middle - low) * factor, middle + (high - middle) * factor);
  }

  move(part) {
    const length = this.range[1] - this.range[0];
    this.show(this.range[0] + part * length, this.range[1] + part * length);
  }
}

class Chart {
  constructor(place, data, axis) {
    Object.assign(this, {place, data, axis, width: 800, height: 230});
    this.svg = drawn("svg", {role: "img", "aria-label": place.getAttribute("aria-label"), tabindex: "0"});
    this.told = make("div", {class: "told"});
    place.querySelector("noscript").replaceWith(this.controls(), this.svg, this.told);
    axis.charts.push(this);
    this.listen();
    new ResizeObserver(() => {
      const width = Math.round(this.svg.clientWidth);
      if (width && width !== this.width) { this.width = width; this.draw(); }
    }).observe(place);
    this.draw();
  }

  controls() {
    const button = (text, label, act) => {
      const made = make("button", {type: "button", "aria-label": label, title: label}, text);
      made.addEventListener("click", act);
      return made;
    };
    const middle = () => (this.axis.range[0] + this.axis.range[1]) / 2;
    return make("div", {class: "controls"},
      button("+", "Zoom in", () => this.axis.zoom(0.5, middle())),
      button("−", "Zoom out", () => this.axis.zoom(2, middle())),
      button("←", "Earlier", () => this.axis.move(-0.5)),
      button("→", "Later", () => this.axis.move(0.5)),
      button("Whole time", "Whole time", () => this.axis.show(...this.axis.whole)));
  }

  listen() {
    let start = null;
    const at = (event) => event.clientX - this.svg.getBoundingClientRect().left;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button === 0) { start = at(event); this.svg.setPointerCapture(event.pointerId); }
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (start === null) { this.point(at(event), event.clientY - this.svg.getBoundingClientRect().top); return; }
      const [x, width] = [Math.min(start, at(event)), Math.abs(at(event) - start)];
      this.over(drawn("rect", {class: "chosen", x, y: MARGIN.top, width, height: this.inner().height}));
    });
    this.svg.addEventListener("pointerup", (event) => {
      const [low, high] = [start, at(event)].sort((a, b) => a - b).map((x) => this.timeAt(x));
      if (start !== null && Math.abs(at(event) - start) > 4) this.axis.show(low, high);
      start = null;
    });
    this.svg.addEventListener("pointercancel", () => { start = null; this.draw(); });
    this.svg.addEventListener("pointerleave", () => { if (start === null) { this.over(); this.told.textContent = ""; } });
    this.svg.addEventListener("dblclick", () => this.axis.show(...this.axis.whole));
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return; // without Ctrl the wheel scrolls the page
      event.preventDefault();
      this.axis.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(at(event)));
    }, {passive: false});
    this.svg.addEventListener("keydown", (event) => {
      const middle = (this.axis.range[0] + this.axis.range[1]) / 2;
      const act = {
        "+": () => this.axis.zoom(0.5, middle), "=": () => this.axis.zoom(0.5, middle), "-": () => this.axis.zoom(2, middle),
        ArrowLeft: () => this.axis.move(-0.2), ArrowRight: () => this.axis.move(0.2), 0: () => this.axis.show(...this.axis.whole),
      }[event.key];
      if (act) { event.preventDefault(); act(); }
    });
  }

  inner() {
    return {width: this.width - MARGIN.left - MARGIN.right, height: this.height - MARGIN.top - MARGIN.bottom};
  }

  x(ns) {
    const [low, high] = this.axis.range;
    return MARGIN.left + ((ns - low) / (high - low)) * this.inner().width;
  }

  timeAt(x) {
    const [low, high] = this.axis.range;
    return low + ((x - MARGIN.left) / this.inner().width) * (high - low);
  }

  over(...marks) {
    this.svg.querySelectorAll(".chosen, .here").forEach((mark) => mark.remove());
    this.svg.append(...marks);
  }

  /* Draw the axes. `marks` are [value, y position in pixels, label]. */
  frame(marks) {
    const {width, height} = this.inner();
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("height", this.height);
    const parts = [];
    for (const [y, name] of marks) {
      parts.push(drawn("path", {class: "grid", d: `M${MARGIN.left},${y}h${width}`}));
      parts.push(drawn("text", {x: MARGIN.left - 6, y: y + 4, "text-anchor": "end"}, name));
    }
    const [low, high] = this.axis.range;
    const [unit] = LONG.find(([length, least]) => high >= least * length) || [1];
    for (const at of ticks(low / unit, high / unit, Math.max(2, this.width / 100)).map((tick) => tick * unit)) {
      if (at < 0) continue;
      const x = this.x(at);
      parts.push(drawn("path", {class: "grid", d: `M${x},${MARGIN.top}v${height}`}));
      parts.push(drawn("text", {x, y: this.height - 8, "text-anchor": "middle"}, at ? time(at) : "0"));
    }
    const clip = drawn("svg", {x: MARGIN.left, y: MARGIN.top, width, height, viewBox: `${MARGIN.left} ${MARGIN.top} ${width} ${height}`});
    this.svg.replaceChildren(...parts, clip);
    return clip;
  }

  named(row, source) {
    const names = [["file", "file"], ["process", "by"]].flatMap(([column, word]) => {
      const place = source[column][row];
      return place === null ? [] : [`${word} ${this.data.names[place]}`];
    });
    return names.length ? `, ${names.join(", ")}` : "";
  }
}

class Rate extends Chart {
  draw() {
    const {rate, waits} = this.data;
    const [low, high] = this.axis.range;
    const first = Math.max(0, Math.floor((low - rate.from) / rate.width));
    const last = Math.min(rate.read.length, Math.ceil((high - rate.from) / rate.width));
    let most = 1;
    for (let bin = first; bin < last; bin += 1) most = Math.max(most, rate.read[bin], rate.write[bin]);
    const {height} = this.inner();
    const middle = MARGIN.top + height / 2;
    const y = (value) => middle - (value / most) * (height / 2);
    const step = 1024 ** Math.floor(Math.log(most) / Math.log(1024));
    const levels = ticks(0, most / step, 3).map((level) => level * step);
    const marks = levels.flatMap((level) => (level ? [[y(level), `${bytes(level)}/s`], [y(-level), `${bytes(level)}/s`]] : [[middle, "0"]]));
    const clip = this.frame(marks);
    for (const [begin, end] of waits) {
      clip.append(drawn("rect", {class: "waiting", x: this.x(begin), y: MARGIN.top, width: this.x(end) - this.x(begin), height}));
    }
    for (const [op, sign] of [["read", 1], ["write", -1]]) {
      let path = "";
      for (let bin = first; bin < last; bin += 1) {
        if (!rate[op][bin]) continue;
        const begin = this.x(rate.from + bin * rate.width), end = this.x(rate.from + (bin + 1) * rate.width);
        path += `M${begin.toFixed(1)},${middle}V${y(sign * rate[op][bin]).toFixed(1)}H${end.toFixed(1)}V${middle}z`;
      }
      clip.append(drawn("path", {class: op, d: path, "stroke-width": 0.5}));
    }
    this.svg.append(
      drawn("text", {x: MARGIN.left + 6, y: MARGIN.top + 10}, "read"),
      drawn("text", {x: MARGIN.left + 6, y: MARGIN.top + height - 4}, "written"));
  }

  point(x) {
    const {rate} = this.data;
    const bin = Math.floor((this.timeAt(x) - rate.from) / rate.width);
    if (bin < 0 || bin >= rate.read.length) { this.over(); this.told.textContent = ""; return; }
    const at = rate.from + bin * rate.width;
    const {height} = this.inner();
    this.over(drawn("path", {class: "here", d: `M${this.x(at + rate.width / 2)},${MARGIN.top}v${height}`}));
    const most = this.named(bin, rate);
    this.told.textContent = `${time(Math.max(0, at))}, for ${time(rate.width)}: read ${bytes(rate.read[bin])}/s, written ` +
      `${bytes(rate.write[bin])}/s${most && `; most of it${most.replace(", file", ": file").replace(/^, by/, ": by")}`}`;
  }
}

class Requests extends Chart {
  constructor(place, data, axis) {
    super(place, data, axis);
    const {requests} = data;
    if (!requests.exact) return;
    const select = make("select", {"aria-label": "Vertical axis of the requests"},
      ...["sector", "bytes", "took"].map((value, place) => make("option", {value}, ["Where", "How large", "How long"][place])));
    select.addEventListener("change", () => { this.shown = select.value; this.draw(); });
    place.querySelector(".controls").prepend(select);
  }

  values() {
    return this.data.requests[this.shown || "sector"];
  }

  draw() {
    const {requests} = this.data;
    const values = this.values();
    const isPlace = values === requests.sector;
    const [low, high] = this.axis.range;
    this.visible = [];
    let [least, most] = [Infinity, -Infinity];
    for (let row = 0; row < values.length; row += 1) {
      if (requests.time[row] + requests.cell.time < low || requests.time[row] > high) continue;
      if (values[row] === null || (!isPlace && values[row] <= 0)) continue;
      this.visible.push(row);
      least = Math.min(least, values[row]);
      most = Math.max(most, values[row]);
    }
    if (!this.visible.length) [least, most] = [1, 2];
    const {height} = this.inner();
    const part = (value) => (isPlace ? (value - least) / (most - least || 1)
      : Math.log(value / least) / Math.log(most / least || 2) || 0);
    this.y = (value) => MARGIN.top + 6 + (height - 12) * (1 - part(value));
    const name = isPlace ? (sector) => bytes(sector * 512) : this.shown === "bytes" ? bytes : time;
    const unit = 1024 ** Math.floor(Math.log((most - least) * 512 || 1) / Math.log(1024)) / 512;
    const levels = isPlace ? ticks(least / unit, most / unit, 5).map((level) => level * unit) : decades(least, most, this.shown === "bytes" ? 2 : 10);
    const clip = this.frame(levels.map((level) => [this.y(level), name(level)]));
    const paths = {};
    for (const row of this.visible) {
      const x = this.x(requests.time[row] + requests.cell.time / 2).toFixed(1), y = this.y(values[row]).toFixed(1);
      const kind = ["read", "write"].includes(requests.op[row]) ? requests.op[row] : "rest";
      const size = Math.min(2, Math.floor(Math.log10(requests.n[row])));
      const key = `${kind} ${size}`;
      paths[key] = (paths[key] || "") + (kind === "rest" ? `M${x},${y - 3}v6` : kind === "read" ? `M${x},${y}h0` : `M${x - 1.5},${y}h3`);
    }
    for (const [key, path] of Object.entries(paths)) {
      const [kind, size] = key.split(" ");
      const width = (kind === "rest" ? 1.5 : 3.5) + 2 * Number(size);
      clip.append(drawn("path", {class: kind, d: path, "stroke-width": width, "stroke-linecap": kind === "read" ? "round" : "butt"}));
    }
  }

  point(x, y) {
    const {requests} = this.data;
    const values = this.values();
    let nearest = null, distance = NEAR;
    for (const row of this.visible) {
      const apart = Math.hypot(this.x(requests.time[row] + requests.cell.time / 2) - x, this.y(values[row]) - y);
      if (apart < distance) [nearest, distance] = [row, apart];
    }
    if (nearest === null) { this.over(); this.told.textContent = ""; return; }
    const row = nearest;
    this.over(drawn("circle", {class: "here", cx: this.x(requests.time[row] + requests.cell.time / 2), cy: this.y(values[row]), r: 7}));
    const took = requests.took[row] === null ? "" : `, ${time(requests.took[row])} long`;
    const what = requests.exact ? `${requests.op[row]} of ${bytes(requests.bytes[row])}`
      : `${requests.n[row].toLocaleString("en")} × ${requests.op[row]}, ${bytes(requests.bytes[row])} in all`;
    this.told.textContent = `${time(requests.time[row])}: ${what} at sector ${requests.sector[row].toLocaleString("en")}${took}${this.named(row, requests)}`;
  }
}

// -- the page -------------------------------------------------------------------------------------------------------

document.querySelectorAll(".sheet").forEach(activate);
const timeline = document.getElementById("timeline");
if (timeline) {
  const data = JSON.parse(timeline.textContent);
  const axis = new Axis(data.span || 1);
  document.querySelectorAll(".chart").forEach((place) => new {rate: Rate, requests: Requests}[place.dataset.chart](place, data, axis));
  /* A link #t=BEGIN,END (nanoseconds since the start) zooms the figures to that time, with a margin. */
  const follow = (fragment) => {
    const [, begin, end] = /^#t=(\d+),(\d+)$/.exec(fragment) || [];
    if (begin === undefined) return;
    const around = Math.max((end - begin) * 0.1, data.span * 1e-3);
    axis.show(begin - around, Number(end) + around);
    document.querySelector(".chart").scrollIntoView({block: "center"});
  };
  document.querySelectorAll('a[href^="#t="]').forEach((link) => link.addEventListener("click", () => follow(link.hash)));
  follow(location.hash);
}
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((fold) => { fold.open = true; }));
