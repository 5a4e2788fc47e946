import { createServer } from "node:http";
import { createRealtime } from "@svc/realtime";
import { createPostgresAdapter } from "@svc/realtime/postgres";
import { events } from "../public/events.js";
import { openDatabase } from "./database.js";
import { loadFiles, sendFile } from "./files.js";
import { Refusal, readObject, sendJson } from "./http.js";
import { createTodos, DatabaseAway } from "./todos.js";

const sql = openDatabase();
const todos = createTodos(sql);
const files = await loadFiles();

const realtime = createRealtime({
  channels: Object.keys(events),
  // What the plan allows for each replica.
  maxClients: Number(process.env.SVC_MAX_SSE_CONNECTIONS),
  heartbeatMs: 15_000,
  replay: { bufferSize: 200 },
  // Each change is one small event, and none may be left out.
  throttle: false,
  // Carries events to the visitors of other replicas, and of the deployment that follows while it takes over.
  adapter: createPostgresAdapter({ sql }),
  onAdapterError: (error, { op }) => console.error(`realtime: ${op} failed: ${error.message}`),
});

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const titleLengthMax = 200;

function readTitle(value) {
  // Control characters have no place in a line of text, and Postgres takes no NUL.
  const title = typeof value === "string" ? value.replace(/[\p{Cc}\s]+/gu, " ").trim() : "";
  if (title === "") throw new Refusal(422, "A todo needs a title.");
  if ([...title].length > titleLengthMax) throw new Refusal(422, `A title has ${titleLengthMax} characters at most.`);
  return title;
}

function readId(value) {
  if (typeof value !== "string" || !uuid.test(value))
    throw new Refusal(422, "A todo needs an id: a UUID in lower case.");
  return value;
}

function readChange({ done, title }) {
  const fields = {};
  if (title !== undefined) fields.title = readTitle(title);
  if (typeof done === "boolean") fields.done = done;
  else if (done !== undefined) throw new Refusal(422, "done is true or false.");
  if (Object.keys(fields).length === 0) throw new Refusal(422, "Nothing is to be changed.");
  return fields;
}

// Told after the statement is done, never in a transaction: see the documents of @svc/realtime.
const tellChanged = (todo) => realtime.publish("todos", { event: "changed", data: todo });
const tellRemoved = (removed) => realtime.publish("todos", { event: "removed", data: removed });

const gone = () => new Refusal(404, "Somebody has removed that todo.");

async function answerApi(request, response, id) {
  switch (`${request.method} ${id === null ? "all" : "one"}`) {
    case "GET all":
      return sendJson(response, 200, { todos: await todos.list() });
    case "POST all": {
      const body = await readObject(request);
      const todo = await todos.add({ id: readId(body.id), title: readTitle(body.title) });
      if (todo === null) throw new Refusal(409, "The list is full: remove something first.");
      tellChanged(todo);
      return sendJson(response, 201, { todo });
    }
    case "PATCH one": {
      const todo = await todos.change(readId(id), readChange(await readObject(request)));
      if (todo === null) throw gone();
      tellChanged(todo);
      return sendJson(response, 200, { todo });
    }
    case "DELETE one": {
      const removed = await todos.remove(readId(id));
      if (removed === null) throw gone();
      tellRemoved(removed);
      return sendJson(response, 200, { removed });
    }
    default:
      throw new Refusal(405, "That cannot be done here.");
  }
}

/** Streams that are open: nobody but us ends them. */
const streams = new Set();
let isLeaving = false;

function openStream(request, response) {
  if (isLeaving) throw new Refusal(503, "This process is about to end: connect again.");
  streams.add(response);
  response.once("close", () => streams.delete(response));
  realtime.node(request, response);
}

async function answer(request, response) {
  const path = request.url.split("?")[0];
  if (path === "/events") return openStream(request, response);
  // Says nothing of the database: an app is not cured by being replaced while that is away.
  if (path === "/healthz") return sendJson(response, 200, { ok: true });
  const [, id = null] = /^\/api\/todos(?:\/([^/]+))?$/.exec(path) ?? [];
  if (id !== null || path === "/api/todos") return answerApi(request, response, id);
  const file = files.get(path);
  if (file === undefined) throw new Refusal(404, "There is no such page.");
  if (request.method !== "GET" && request.method !== "HEAD") throw new Refusal(405, "That cannot be done here.");
  sendFile(request, response, file);
}

function fail(response, error) {
  const [status, message] =
    error instanceof Refusal
      ? [error.status, error.message]
      : error instanceof DatabaseAway
        ? [503, "The database is away just now. Try again in a moment."]
        : [500, "That went wrong. The app's log says why."];
  if (!(error instanceof Refusal)) console.error(error);
  if (response.headersSent) response.destroy();
  else sendJson(response, status, { error: message });
}

const server = createServer((request, response) => {
  // Whoever still comes, by a connection of before, takes another one the next time.
  if (isLeaving) response.shouldKeepAlive = false;
  answer(request, response).catch((error) => fail(response, error));
});
// Longer than the proxy keeps an idle connection, so that it is never the app that closes one in use.
server.keepAliveTimeout = 150_000;
server.listen(Number(process.env.PORT ?? 3000), "0.0.0.0", () =>
  console.log(`listening on port ${server.address().port}`),
);

// The platform sends no more requests by now. Those in flight are finished; streams would go on for ever, so they end, and browsers
// come back to the deployment that follows. Then nothing is left, and the process ends by itself.
process.once("SIGTERM", () => {
  console.log("draining");
  isLeaving = true;
  // A connection whose last answer is just going out is not idle yet.
  const closing = setInterval(() => server.closeIdleConnections(), 200);
  server.close(async () => {
    clearInterval(closing);
    await realtime.close();
    await sql.end({ timeout: 5 });
    console.log("drained");
  });
  for (const stream of streams) stream.end();
});
