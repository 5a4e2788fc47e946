import { events } from "/events.js";
import { subscribe } from "/realtime/client.js";
import { createStore } from "/store.js";

const requestMs = 10_000;
/** What was told while nobody could hear is found by asking: once in a while, and whenever the page is looked at again. */
const refreshMs = 60_000;

const store = createStore();
const at = (id) => document.getElementById(id);

// What the page shows.

/** Elements of todos that are shown, by id. */
const rows = new Map();

function makeRow(id) {
  const row = at("todo").content.firstElementChild.cloneNode(true);
  row.querySelector("input").addEventListener("change", ({ target }) => change(id, { done: target.checked }));
  row.querySelector("button").addEventListener("click", () => remove(id));
  return row;
}

function show() {
  const todos = store.list();
  const ids = new Set(todos.map(({ id }) => id));
  for (const [id, row] of rows) {
    if (ids.has(id)) continue;
    // Whoever is at work with the keyboard goes on with the next one.
    if (row.contains(document.activeElement)) (row.nextElementSibling ?? at("add")).querySelector("input").focus();
    row.remove();
    rows.delete(id);
  }
  todos.forEach(({ id, title, done, isWaiting }, place) => {
    const row = rows.get(id) ?? makeRow(id);
    rows.set(id, row);
    row.querySelector("input").checked = done;
    row.querySelector(".title").textContent = title;
    row.querySelector("button").ariaLabel = `Remove ${title}`;
    row.toggleAttribute("data-waiting", isWaiting);
    if (at("todos").children[place] !== row) at("todos").insertBefore(row, at("todos").children[place] ?? null);
  });
  const done = todos.filter((todo) => todo.done).length;
  at("summary").textContent = !isLoaded
    ? "Loading"
    : todos.length === 0
      ? "Nothing yet"
      : `${done} of ${todos.length} done`;
  at("progress").value = todos.length === 0 ? 0 : done / todos.length;
  at("empty").hidden = !isLoaded || todos.length > 0;
  at("clear").hidden = done === 0;
}

/** Points out what somebody else has just changed. */
function pointOut(id) {
  const row = rows.get(id);
  if (row === undefined) return;
  row.classList.remove("fresh");
  // Read so that the animation begins anew.
  void row.offsetWidth;
  row.classList.add("fresh");
}

function complain(message) {
  at("problem").textContent = message;
  at("problem").hidden = message === "";
}

// What the server is asked for.

async function ask(method, path, body) {
  const response = await fetch(path, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    signal: AbortSignal.timeout(requestMs),
  }).catch(() => null);
  const reply = await response?.json().catch(() => null);
  if (response?.ok && reply) return reply;
  const message =
    response === null
      ? "The server cannot be reached. Try again in a moment."
      : response.status === 401
        ? "You are signed out here: load the page again."
        : (reply?.error ?? "The server is not well. Try again in a moment.");
  throw Object.assign(new Error(message), { status: response?.status });
}

let isLoaded = false;

async function load() {
  const list = store.beginList();
  try {
    const { todos } = await ask("GET", "/api/todos");
    list.end(todos);
    isLoaded = true;
    show();
  } catch (error) {
    list.fail();
    // A page that is shown already says enough by how it is connected.
    if (!isLoaded) complain(error.message);
  }
}

/** Ends of the last request about each todo: one follows the other, in the order in which they were made. */
const turns = new Map();

/** Shows a change at once, asks for it, and shows what became of it. False: it was refused, or nobody knows. */
async function perform(id, fields, request) {
  const decided = store.expect(id, fields);
  show();
  const turn = (turns.get(id) ?? Promise.resolve()).then(request);
  const ended = turn.catch(() => {});
  turns.set(id, ended);
  try {
    const { todo, removed } = await turn;
    if (todo !== undefined) store.changed(todo);
    if (removed !== undefined) store.removed(removed);
    complain("");
    return true;
  } catch (error) {
    if (error.status === 404) store.lost(id);
    if (error.status !== 404 || fields !== null) complain(error.message);
    return false;
  } finally {
    if (turns.get(id) === ended) turns.delete(id);
    decided();
    show();
  }
}

/** A random UUID, also where a page came without TLS: browsers have no `randomUUID` there. */
function makeId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

async function add(title) {
  // A 9 in front of the year sorts it above all that is confirmed, whatever this machine's clock says.
  const id = makeId();
  const fields = { title, createdAt: `9${new Date().toISOString()}` };
  if (await perform(id, fields, () => ask("POST", "/api/todos", { id, title }))) return;
  // It may have been added after all, or not: the list says. Nobody types it twice.
  if (at("title").value === "") at("title").value = title;
  await load();
}

async function change(id, fields) {
  if (!(await perform(id, fields, () => ask("PATCH", `/api/todos/${id}`, fields)))) await load();
}

async function remove(id) {
  if (!(await perform(id, null, () => ask("DELETE", `/api/todos/${id}`)))) await load();
}

// What people do.

at("add").addEventListener("submit", (event) => {
  event.preventDefault();
  const title = at("title").value.trim();
  if (title === "") return;
  at("title").value = "";
  add(title);
});

at("clear").addEventListener("click", () => {
  for (const { id, done } of store.list()) if (done) remove(id);
});

// What comes by itself.

const words = { connecting: "Connecting", open: "Live", reconnecting: "Reconnecting", closed: "Closed" };

subscribe({
  url: "/events",
  channels: Object.keys(events),
  events: Object.values(events).flat(),
  parseJson: true,
  // Also after each break: what happened meanwhile may not come.
  onOpen: load,
  onStatus(status) {
    at("connection").dataset.status = status;
    at("connection").textContent = words[status];
  },
  onEvent({ event, json }) {
    if (event === "removed") store.removed(json);
    const isNews = event === "changed" && store.changed(json);
    show();
    // What this page has asked for itself is no news to whoever looks at it.
    if (isNews && !turns.has(json.id)) pointOut(json.id);
  },
});

setInterval(() => {
  if (!document.hidden) load();
}, refreshMs);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) load();
});
