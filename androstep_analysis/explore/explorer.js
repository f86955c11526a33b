// The page of an explorer. It asks Python (explorer.py) for a picture of the visible window and draws it. While the
// next picture is on its way, the current one is moved and scaled. Names of files and processes are inserted as text,
// never as markup.

const CELL = 2; // CSS pixels of a cell of a picture; a single request must be visible in it
const MARGIN = { left: 96, right: 12, top: 8, bottom: 26 };
const LEFT_OF_NAMES = 230;
const STEP = 0.25; // how far a key moves the window, as a share of it
const ZOOM = 1.3;
const NEAR = 8; // a click selects a request within this many pixels
const REST_MS = 150; // wait this long after a change before counting or searching
const LOST_MS = 10000; // warn if Python has not answered by then
const KEYS =
  "w and s zoom in and out of time, a and d move; arrows move too; + and − zoom in and out of the vertical axis; " +
  "Home shows all; f zooms to the box; Escape removes it; . and , go to the next and the previous request; " +
  "/ goes to the search.";
const WITHOUT = { sector: "without a position are not shown", latency: "without a latency are not shown" };
const AXES = { sector: "position on the device", file: "file", latency: "time from issue to completion" };
// Okabe and Ito's hues, which stay apart in every common form of colour blindness.
const COLOURS = {
  light: { read: [0, 114, 178], write: [213, 94, 0], other: [110, 110, 110], ink: "#333", line: "#ddd", mark: "#000" },
  dark: { read: [86, 180, 233], write: [230, 159, 0], other: [170, 170, 170], ink: "#ccc", line: "#444", mark: "#fff" },
};

function render({ model, el }) {
  const from = `${Math.random()}`; // crypto.randomUUID needs https or localhost
  const page = build(el);
  const state = {
    about: null,
    view: null, // the visible window: of, begin_ns, end_ns, low, high
    picture: null, // the last answer, with its view
    box: null,
    drag: null, // a box or a movement in progress
    mark: null, // the request whose details are displayed
    open: [],
    chosen: {},
    isAsked: false, // waiting for a picture
    isStale: false, // that picture is for an outdated window
  };
  let resting = 0;
  let typing = 0;
  let lost = 0;
  let frame = 0;

  const send = (message) => model.send({ from, ...message });

  // -- asking ---------------------------------------------------------------------------------------------------------

  function ask() {
    if (state.isAsked) {
      state.isStale = true;
      return;
    }
    state.isAsked = true;
    state.isStale = false;
    clearTimeout(lost);
    lost = setTimeout(onLost, LOST_MS);
    const { width, height } = plot();
    send({ kind: "picture", view: state.view, width: Math.ceil(width / CELL), height: Math.ceil(height / CELL) });
    clearTimeout(resting);
    resting = setTimeout(() => send({ kind: "lists", view: state.view, open: state.open }), REST_MS);
  }

  function onMessage(message, buffers) {
    const { kind } = message;
    if (message.from !== from) {
      // The message is for another view of this explorer. All views share their filters.
      if (state.view && ["brush", "box", "clear", "search"].includes(kind)) onBrushed(message);
      return;
    }
    if (kind === "about") onAbout(message);
    else if (kind === "picture") onPicture(message, buffers);
    else if (kind === "lists") onLists(message);
    else if (kind === "story") onStory(message);
    else if (kind === "failed") onFailed(message);
    else onBrushed(message);
  }

  function onAbout(message) {
    state.about = message;
    page.title.textContent = message.title;
    for (const name of Object.keys(message.axes)) {
      const option = add(page.axis, "option", {}, AXES[name]);
      option.value = name;
    }
    for (const plane of message.planes) {
      const one = add(page.legend, "span", { class: "key" });
      add(one, "span", { class: "swatch", "data-plane": plane, "aria-hidden": "true" });
      add(one, "span", {}, { read: "reads", write: "writes", other: "others" }[plane]);
    }
    for (const { name, absent } of message.dimensions) {
      const section = add(page.lists, "section", {});
      if (absent) add(section, "p", { class: "absent" }, absent);
      else {
        const title = add(section, "h3", {});
        add(title, "span", {}, TITLES[name]);
        for (const column of ["requests", "bytes"]) add(title, "span", { class: "number", "aria-hidden": "true" }, column);
        page.of[name] = add(section, "ul", { "aria-label": TITLES[name] });
      }
    }
    for (const name of ["file", "app", "process"]) page.search.disabled &&= !page.of[name];
    Object.assign(state, { chosen: message.chosen, box: message.box });
    page.search.value = message.search;
    whole(Object.keys(message.axes)[0]);
  }

  // Ask the next question even if this one failed.
  function answered(problem) {
    state.isAsked = false;
    clearTimeout(lost);
    page.problem.textContent = problem;
    if (state.isStale) ask();
  }

  function onLost() {
    answered(
      `No answer from Python for ${LOST_MS / 1000} s. It may be busy with another cell; then it answers later. ` +
        "If the kernel was restarted, run this cell again.",
    );
  }

  function onFailed({ asked, why }) {
    const problem = `Python could not answer (${asked}): ${why}. See its log for details; move the window to ask again.`;
    if (asked === "picture") answered(problem);
    else page.problem.textContent = problem;
  }

  function onPicture(message, buffers) {
    state.picture = { ...message, bitmap: message.planes ? bitmap(message, buffers) : null, points: null };
    if (message.rows !== undefined) state.picture.points = points(message, buffers);
    answered("");
    draw();
  }

  function onBrushed(message) {
    Object.assign(state, { chosen: message.chosen, box: message.box });
    if (document.activeElement !== page.search) page.search.value = message.search;
    ask();
  }

  function whole(of) {
    const { about } = state;
    const [low, high] = about.axes[of];
    const margin = (about.end - about.begin) * 0.01;
    state.view = { of, begin_ns: about.begin - margin, end_ns: about.end + margin, low, high };
    page.axis.value = of;
    moved();
  }

  // -- the window -----------------------------------------------------------------------------------------------------

  function moved() {
    schedule();
    ask();
  }

  function plot() {
    const left = state.view?.of === "file" ? LEFT_OF_NAMES : MARGIN.left;
    const { clientWidth, clientHeight } = page.canvas;
    return {
      left,
      top: MARGIN.top,
      width: Math.max(clientWidth - left - MARGIN.right, 50),
      height: Math.max(clientHeight - MARGIN.top - MARGIN.bottom, 50),
    };
  }

  // Files go down as in a list, positions and latencies go up. Convert between a view and the canvas:
  const isDown = () => state.view.of === "file";
  function toX(ns) {
    const { left, width } = plot();
    return left + ((ns - state.view.begin_ns) / (state.view.end_ns - state.view.begin_ns)) * width;
  }
  function toY(value) {
    const { top, height } = plot();
    const share = (value - state.view.low) / (state.view.high - state.view.low);
    return top + (isDown() ? share : 1 - share) * height;
  }
  function fromX(x) {
    const { left, width } = plot();
    return state.view.begin_ns + ((x - left) / width) * (state.view.end_ns - state.view.begin_ns);
  }
  function fromY(y) {
    const { top, height } = plot();
    const share = isDown() ? (y - top) / height : 1 - (y - top) / height;
    return state.view.low + share * (state.view.high - state.view.low);
  }

  function zoomTime(factor, at) {
    const { begin_ns, end_ns } = state.view;
    const span = Math.min(Math.max((end_ns - begin_ns) * factor, 100), (state.about.end - state.about.begin) * 1.1 + 100);
    const share = (at - begin_ns) / (end_ns - begin_ns);
    state.view = { ...state.view, begin_ns: at - share * span, end_ns: at + (1 - share) * span };
    within();
  }

  function zoomValue(factor, at) {
    const { low, high } = state.view;
    const [least, most] = state.about.axes[state.view.of];
    const span = Math.min(Math.max((high - low) * factor, (most - least) * 1e-7), most - least);
    const start = Math.min(Math.max(at - ((at - low) / (high - low)) * span, least), most - span);
    state.view = { ...state.view, low: start, high: start + span };
    moved();
  }

  function pan(time, value) {
    const [least, most] = state.about.axes[state.view.of];
    const { begin_ns, end_ns, low, high } = state.view;
    const up = Math.min(Math.max(value, least - low), most - high);
    state.view = { ...state.view, begin_ns: begin_ns + time, end_ns: end_ns + time, low: low + up, high: high + up };
    within();
  }

  // Keep the middle of the window within the recording.
  function within() {
    const { begin_ns, end_ns } = state.view;
    const middle = (begin_ns + end_ns) / 2;
    const shift = Math.min(Math.max(middle, state.about.begin), state.about.end) - middle;
    state.view = { ...state.view, begin_ns: begin_ns + shift, end_ns: end_ns + shift };
    moved();
  }

  // -- drawing --------------------------------------------------------------------------------------------------------

  function schedule() {
    if (!frame) frame = requestAnimationFrame(draw);
  }

  function theme() {
    const [red, green, blue] = getComputedStyle(page.root).backgroundColor.match(/[\d.]+/g).map(Number);
    return 0.3 * red + 0.6 * green + 0.1 * blue < 128 ? COLOURS.dark : COLOURS.light;
  }

  function draw() {
    cancelAnimationFrame(frame);
    frame = 0;
    const { canvas } = page;
    if (!state.view || !canvas.clientWidth) return;
    const ratio = devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    const colours = theme();
    for (const swatch of page.legend.querySelectorAll(".swatch"))
      swatch.style.background = rgb(colours[swatch.dataset.plane]);
    const area = plot();
    context.font = `11px ${getComputedStyle(page.root).fontFamily}`;
    drawAxes(context, area, colours);
    context.save();
    context.beginPath();
    context.rect(area.left, area.top, area.width, area.height);
    context.clip();
    if (state.picture?.view.of === state.view.of) {
      if (state.picture.bitmap) drawCells(context, colours);
      else drawPoints(context, colours);
    }
    drawBox(context, area, colours);
    drawMark(context, area, colours);
    context.restore();
    tell();
  }

  function drawCells(context, colours) {
    const { view, bitmap } = state.picture;
    if (bitmap.colours !== colours) paint(bitmap, colours);
    const [top, bottom] = [toY(view.low), toY(view.high)].sort((a, b) => a - b);
    const left = toX(view.begin_ns);
    context.imageSmoothingEnabled = false;
    context.save();
    if (!isDown()) {
      context.translate(0, top + bottom);
      context.scale(1, -1);
    }
    context.drawImage(bitmap.canvas, left, top, toX(view.end_ns) - left, bottom - top);
    context.restore();
  }

  // Draw each request from begin to end. It is hollow if its duration is unknown.
  function drawPoints(context, colours) {
    const { begin, took, value, sectors, plane } = state.picture.points;
    const perUnit = Math.abs(toY(1) - toY(0));
    state.about.planes.forEach((name, number) => {
      context.fillStyle = context.strokeStyle = rgb(colours[name]);
      for (let i = 0; i < begin.length; i++) {
        if (plane[i] !== number) continue;
        const x = toX(begin[i]);
        const length = state.view.of === "sector" ? Math.max(sectors[i] * perUnit, 4) : 5;
        const y = state.view.of === "sector" ? toY(value[i]) - length : toY(value[i] + (isDown() ? 0.5 : 0)) - length / 2;
        if (Number.isNaN(took[i])) context.strokeRect(x - 2, y, 4, length);
        else context.fillRect(x, y, Math.max(toX(begin[i] + took[i]) - x, 3), length);
      }
    });
  }

  function drawBox(context, area, colours) {
    const box = state.drag?.box ?? state.box;
    if (!box || box.of !== state.view.of) return;
    const [left, right] = [toX(box.begin_ns), toX(box.end_ns)];
    const [top, bottom] = [toY(box.low), toY(box.high)].sort((a, b) => a - b);
    context.fillStyle = getComputedStyle(page.root).backgroundColor;
    context.globalAlpha = 0.65;
    context.beginPath();
    context.rect(area.left, area.top, area.width, area.height);
    context.rect(left, top, right - left, bottom - top);
    context.fill("evenodd");
    context.globalAlpha = 1;
    context.strokeStyle = colours.mark;
    context.lineWidth = 1.5;
    context.strokeRect(left, top, right - left, bottom - top);
  }

  function drawMark(context, area, colours) {
    const value = state.mark?.values[state.view.of];
    if (value === undefined || value === null) return;
    const [x, y] = [toX(state.mark.begin_ns), toY(value + (isDown() ? 0.5 : 0))];
    context.strokeStyle = colours.mark;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(x, y, 8, 0, 2 * Math.PI);
    context.moveTo(x, area.top);
    context.lineTo(x, y - 8);
    context.stroke();
  }

  function drawAxes(context, area, colours) {
    const { view } = state;
    context.strokeStyle = colours.line;
    context.fillStyle = colours.ink;
    context.lineWidth = 1;
    context.textBaseline = "top";
    context.textAlign = "center";
    const step = nice(((view.end_ns - view.begin_ns) / area.width) * 110);
    const digits = Math.max(0, 9 - Math.floor(Math.log10(step)));
    for (let ns = Math.ceil(view.begin_ns / step) * step; ns <= view.end_ns; ns += step) {
      line(context, toX(ns), area.top, toX(ns), area.top + area.height);
      context.fillText(`${(ns / 1e9).toFixed(digits)} s`, toX(ns), area.top + area.height + 6);
    }
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const [value, name] of ticks(view, area)) {
      const y = toY(value);
      if (y < area.top || y > area.top + area.height) continue;
      line(context, area.left, y, area.left + area.width, y);
      context.fillText(elide(context, name, area.left - 12), area.left - 6, y);
    }
  }

  function ticks(view, area) {
    if (view.of === "file") return state.picture?.view.of === "file" ? state.picture.names : [];
    const found = [];
    if (view.of === "latency") {
      for (let power = Math.ceil(view.low); power <= view.high; power++) found.push([power, duration(10 ** power)]);
      return found;
    }
    for (const { name, base, end } of state.about.devices) {
      const low = Math.max(view.low, base);
      const high = Math.min(view.high, end);
      if (low >= high) continue;
      const share = (view.high - view.low) / area.height;
      const step = binary(Math.max(share * 40, 1));
      const several = state.about.devices.length > 1 ? `${name}  ` : "";
      for (let sector = Math.ceil((low - base) / step) * step; sector <= high - base; sector += step)
        found.push([sector + base, `${several}${size(sector * 512, step * 512)}`]);
    }
    return found;
  }

  function tell() {
    const { picture } = state;
    const isNow = picture && !state.isAsked;
    page.canvas.dataset.shown = isNow ? JSON.stringify(picture.view) : "";
    if (!picture) return;
    const without = picture.without ? `; ${picture.without.toLocaleString("en")} ${WITHOUT[state.view.of]}` : "";
    page.density.textContent =
      picture.rows === undefined
        ? `darkest: ${picture.most.toLocaleString("en")} in ${CELL} × ${CELL} pixels${without}`
        : `${picture.rows.toLocaleString("en")} drawn one by one, from issue to completion`;
  }

  // -- lists and details ---------------------------------------------------------------------------------------------

  function onLists(message) {
    const box = state.box ? "in the box" : "in view";
    page.status.textContent = message.is_brushed
      ? `Selected: ${message.selected}; ${box}: ${message.shown}`
      : `${message.shown} in view, of ${message.selected}`;
    page.clear.disabled = !message.is_brushed;
    for (const [name, rows] of Object.entries(message.lists)) fill(name, rows);
  }

  function fill(name, rows) {
    const list = page.of[name];
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const most = Math.max(1, ...rows.map((row) => row.requests ?? 0));
    list.replaceChildren();
    for (const row of rows) {
      const item = add(list, "li", { style: `--depth: ${row.depth}` });
      if (row.more) {
        add(item, "span", { class: "more" }, `and ${row.more.toLocaleString("en")} with fewer requests`);
        continue;
      }
      const range = [row.first, row.last];
      const isChosen = (state.chosen[name] ?? []).some((one) => one[0] === range[0] && one[1] === range[1]);
      if (row.is_directory) {
        const fold = add(item, "button", { class: "fold", "aria-expanded": row.is_open, "data-key": `fold ${range}` });
        fold.textContent = row.is_open ? "▾" : "▸";
        fold.setAttribute("aria-label", `${row.is_open ? "close" : "open"} ${row.name}`);
        fold.onclick = () => toggleOpen(range);
      } else if (name === "file") add(item, "span", { class: "fold" });
      const button = add(item, "button", { class: "entry", "aria-pressed": isChosen, "data-key": `${range}` });
      button.style.setProperty("--share", `${(100 * row.requests) / most}%`);
      button.title = row.name;
      button.setAttribute("aria-label", `${row.name}: ${row.requests.toLocaleString("en")} requests, ${row.size}`);
      add(button, "bdi", { class: "name" }, row.name);
      add(button, "span", { class: "number" }, row.requests.toLocaleString("en"));
      add(button, "span", { class: "number" }, row.size);
      button.onclick = () => toggle(name, range);
    }
    if (focused) list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  const without = (ranges, [first, last]) => ranges.filter((one) => one[0] !== first || one[1] !== last);

  function toggle(dimension, range) {
    const chosen = state.chosen[dimension] ?? [];
    const rest = without(chosen, range);
    send({ kind: "brush", dimension, ranges: rest.length < chosen.length ? rest : [...chosen, range] });
  }

  function toggleOpen(range) {
    const rest = without(state.open, range);
    state.open = rest.length < state.open.length ? rest : [...state.open, range];
    send({ kind: "lists", view: state.view, open: state.open });
  }

  function onStory(message) {
    state.mark = message.mark ?? null;
    page.story.replaceChildren();
    if (!state.mark) {
      add(page.story, "p", {}, "No request here.");
    } else {
      for (const { title, lines } of message.sections) {
        add(page.story, "h3", {}, title);
        const told = add(page.story, "dl", {});
        for (const [name, text] of lines) {
          add(told, "dt", {}, name);
          const value = add(told, "dd", text.startsWith("unknown") ? { class: "unknown" } : {});
          add(value, "bdi", {}, text);
        }
      }
      const { begin_ns } = state.mark;
      if (begin_ns < state.view.begin_ns || begin_ns > state.view.end_ns)
        pan(begin_ns - (state.view.begin_ns + state.view.end_ns) / 2, 0);
    }
    schedule();
  }

  // -- mouse and keys -------------------------------------------------------------------------------------------------

  function at(event) {
    const box = page.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  page.canvas.addEventListener(
    "wheel",
    (event) => {
      if (!state.view) return;
      event.preventDefault();
      const [x, y] = at(event);
      const factor = Math.exp(event.deltaY * 0.0015);
      const { width } = plot();
      if (event.shiftKey) zoomValue(Math.exp((event.deltaY || event.deltaX) * 0.0015), fromY(y));
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
        pan((event.deltaX / width) * (state.view.end_ns - state.view.begin_ns), 0);
      else zoomTime(factor, fromX(x));
    },
    { passive: false },
  );

  page.canvas.addEventListener("pointerdown", (event) => {
    if (!state.view || event.button > 1) return;
    page.canvas.setPointerCapture(event.pointerId);
    page.canvas.focus();
    event.preventDefault();
    const [x, y] = at(event);
    state.drag = { x, y, isPan: event.shiftKey || event.button === 1, view: state.view, box: null };
  });

  page.canvas.addEventListener("pointermove", (event) => {
    const { drag } = state;
    if (!drag) return;
    const [x, y] = at(event);
    const isMoved = drag.box || Math.hypot(x - drag.x, y - drag.y) > 4;
    if (drag.isPan) {
      state.view = drag.view;
      pan(fromX(drag.x) - fromX(x), fromY(drag.y) - fromY(y));
    } else if (isMoved) {
      const times = [fromX(drag.x), fromX(x)].sort((a, b) => a - b);
      const values = [fromY(drag.y), fromY(y)].sort((a, b) => a - b);
      drag.box = { of: state.view.of, begin_ns: times[0], end_ns: times[1], low: values[0], high: values[1] };
      schedule();
    }
  });

  page.canvas.addEventListener("pointerup", (event) => {
    const { drag } = state;
    state.drag = null;
    if (!drag || drag.isPan) return;
    if (drag.box) {
      state.box = drag.box;
      send({ kind: "box", view: drag.box });
      return;
    }
    const [x, y] = at(event);
    const values = [fromY(y - NEAR), fromY(y + NEAR)].sort((a, b) => a - b);
    const middle = isDown() ? -0.5 : 0; // the requests of a file are in the middle of its row
    send({
      kind: "story",
      view: {
        of: state.view.of,
        begin_ns: fromX(x - NEAR),
        end_ns: fromX(x + NEAR),
        low: values[0] + middle,
        high: values[1] + middle,
      },
    });
  });

  const keys = {
    w: () => zoomTime(1 / ZOOM, (state.view.begin_ns + state.view.end_ns) / 2),
    s: () => zoomTime(ZOOM, (state.view.begin_ns + state.view.end_ns) / 2),
    a: () => pan(-STEP * (state.view.end_ns - state.view.begin_ns), 0),
    d: () => pan(STEP * (state.view.end_ns - state.view.begin_ns), 0),
    ArrowUp: () => pan(0, (isDown() ? -STEP : STEP) * (state.view.high - state.view.low)),
    ArrowDown: () => pan(0, (isDown() ? STEP : -STEP) * (state.view.high - state.view.low)),
    "+": () => zoomValue(1 / ZOOM, (state.view.low + state.view.high) / 2),
    "-": () => zoomValue(ZOOM, (state.view.low + state.view.high) / 2),
    Home: () => whole(state.view.of),
    f: () => {
      if (!state.box) return;
      state.view = { ...state.box };
      page.axis.value = state.view.of;
      moved();
    },
    Escape: () => send({ kind: "box", view: null }),
    "/": () => page.search.focus(),
    ".": () => step(1),
    ",": () => step(-1),
  };
  keys.ArrowLeft = keys.a;
  keys.ArrowRight = keys.d;

  function step(by) {
    send({ kind: "story", row: state.mark ? state.mark.row : null, begin_ns: state.view.begin_ns, by });
  }

  page.canvas.addEventListener("keydown", (event) => {
    const key = keys[event.key] ?? keys[event.key.toLowerCase()];
    if (!key || !state.view || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    key();
  });

  page.axis.onchange = () => whole(page.axis.value);
  page.whole.onclick = () => whole(state.view.of);
  page.clear.onclick = () => send({ kind: "clear" });
  page.search.oninput = () => {
    clearTimeout(typing);
    typing = setTimeout(() => send({ kind: "search", text: page.search.value }), REST_MS);
  };
  page.search.onkeydown = (event) => {
    event.stopPropagation();
    if (event.key === "Escape" && page.search.value) {
      page.search.value = "";
      page.search.oninput();
    }
  };
  const resized = new ResizeObserver(() => state.view && moved());
  resized.observe(page.canvas);
  const themed = new MutationObserver(schedule);
  themed.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"] });

  model.on("msg:custom", onMessage);
  send({ kind: "about" });
  return () => {
    model.off("msg:custom", onMessage);
    for (const timer of [resting, typing, lost]) clearTimeout(timer);
    cancelAnimationFrame(frame);
    resized.disconnect();
    themed.disconnect();
  };
}

const TITLES = {
  file: "Files",
  app: "Apps",
  process: "Processes",
  "block type": "Block types",
  operation: "Operations",
  size: "Sizes",
};

// The elements of the page. data-lm-suppress-shortcuts keeps JupyterLab (Lumino) from handling keys here.
function build(el) {
  const root = add(el, "div", { class: "androstep-explorer", "data-lm-suppress-shortcuts": "true" });
  const bar = add(root, "div", { class: "bar" });
  const title = add(bar, "strong", {});
  const label = add(bar, "label", {}, "Vertical axis ");
  const axis = add(label, "select", {});
  const whole = add(bar, "button", {}, "Whole recording");
  const clear = add(bar, "button", { disabled: "" }, "Clear selection");
  const found = add(bar, "label", {}, "Search ");
  const hint = "part of a file's, app's or process's name";
  const search = add(found, "input", { type: "search", placeholder: hint, disabled: "" });
  const status = add(bar, "span", { class: "status", role: "status" });
  const problem = add(root, "p", { class: "problem", role: "alert" });
  const canvas = add(root, "canvas", { tabindex: "0", role: "application" });
  canvas.setAttribute("aria-label", `Timeline of requests. ${KEYS} The lists below have the same data as text.`);
  const legend = add(root, "div", { class: "legend" });
  const density = add(legend, "span", { class: "density" });
  const help = add(root, "details", {});
  add(help, "summary", {}, "Mouse and keys");
  add(help, "p", {}, "The wheel zooms in time, with Shift in the vertical axis. Drag for a box that filters all lists; " +
    "drag with Shift to move. Click on a request for its details, on an entry of a list to see only that, once more for all.");
  add(help, "p", {}, KEYS);
  const below = add(root, "div", { class: "below" });
  const lists = add(below, "div", { class: "lists" });
  const story = add(below, "aside", { class: "story", "aria-label": "Details of a request", "aria-live": "polite" });
  add(story, "p", {}, "Click on a request to see its details.");
  return { root, title, axis, whole, clear, search, status, problem, canvas, legend, density, lists, story, of: {} };
}

function add(parent, tag, attributes, text) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return parent.appendChild(element);
}

// -- pictures ---------------------------------------------------------------------------------------------------------

function bitmap({ width, height, planes }, buffers) {
  const canvas = new OffscreenCanvas(width, height);
  const cells = buffers.map((buffer) => new Uint8Array(buffer.buffer, buffer.byteOffset, width * height));
  return { canvas, planes, cells, width, height, colours: null };
}

// Colour a cell by its operation, and more strongly for more requests. Reads and writes are mixed.
function paint(one, colours) {
  const names = ["read", "write", "other"];
  const hues = one.planes.map((plane) => colours[names[plane]]);
  const context = one.canvas.getContext("2d");
  const image = context.createImageData(one.width, one.height);
  for (let cell = 0; cell < one.width * one.height; cell++) {
    let [sum, most, red, green, blue] = [0, 0, 0, 0, 0];
    for (let plane = 0; plane < hues.length; plane++) {
      const weight = one.cells[plane][cell];
      if (!weight) continue;
      sum += weight;
      most = Math.max(most, weight);
      red += weight * hues[plane][0];
      green += weight * hues[plane][1];
      blue += weight * hues[plane][2];
    }
    if (!sum) continue;
    image.data.set([red / sum, green / sum, blue / sum, 140 + (115 * most) / 255], 4 * cell);
  }
  context.putImageData(image, 0, 0);
  one.colours = colours;
}

function points({ rows }, buffers) {
  const [begin, took, value, sectors, plane] = buffers.map((one, number) => {
    const type = [Float64Array, Float64Array, Float64Array, Uint32Array, Uint8Array][number];
    return new type(one.buffer.slice(one.byteOffset, one.byteOffset + rows * type.BYTES_PER_ELEMENT));
  });
  return { begin, took, value, sectors, plane };
}

function line(context, x, y, otherX, otherY) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(otherX, otherY);
  context.stroke();
}

// -- numbers and names ------------------------------------------------------------------------------------------------

const rgb = (colour) => `rgb(${colour.join(",")})`;

// Return the next greater number of 1, 2 and 5 times a power of ten.
function nice(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((one) => one * power >= least) ?? 10);
}

const binary = (least) => 2 ** Math.ceil(Math.log2(least));

function duration(ns) {
  const [unit, length] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3]].find((one) => ns >= one[1]) ?? ["ns", 1];
  return `${ns / length} ${unit}`;
}

// Use as many digits as neighbouring ticks need to differ.
function size(bytes, step) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(Math.max(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), 0), 4);
  const digits = Math.max(0, Math.ceil(-Math.log10(step / 1024 ** power)));
  return `${(bytes / 1024 ** power).toFixed(Math.min(digits, 6))} ${units[power]}`;
}

// Keep the end of a path: it is the most specific part.
function elide(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let from = Math.floor(text.length * (1 - width / context.measureText(text).width));
  while (from < text.length && context.measureText(`…${text.slice(from)}`).width > width) from++;
  return `…${text.slice(from)}`;
}

export default { render };
