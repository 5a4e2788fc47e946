import Fastify from "fastify";
import { DatabaseAway, openBooks } from "./books.js";
import { databaseUrl } from "./connection.js";
import { readForm } from "./form.js";
import { page } from "./page.js";

const deploymentId = process.env.SVC_DEPLOYMENT_ID ?? "unknown";
const formBytesMax = 8 * 1024;

const app = Fastify({
  logger: true,
  disableRequestLogging: true,
  bodyLimit: formBytesMax,
  // Longer than the proxy keeps an idle connection, so that it is never the app that closes one in use.
  keepAliveTimeout: 150_000,
  // While shutting down, requests that still arrive are answered; the platform sends none any more.
  return503OnClosing: false,
});
const books = openBooks(databaseUrl(), { onLost: (error) => app.log.warn(`lost a connection to the database: ${error.message}`) });

app.removeAllContentTypeParsers();
app.addContentTypeParser("application/x-www-form-urlencoded", { parseAs: "string" }, async (_request, body) => new URLSearchParams(body));

const html = (reply, status, content) =>
  reply
    .code(status)
    .type("text/html; charset=utf-8")
    // Nothing on the page comes from elsewhere or is a script, whatever somebody writes into the list.
    .header("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
    .header("cache-control", "no-store")
    .send(page({ deploymentId, ...content }));

const awayProblem = {
  reading: { heading: "The database is away", text: "The list is safe, but cannot be read just now. Try again in a moment." },
  writing: { heading: "The database is away", text: "Your book may not have been kept. Look at the list in a moment, before you send it again." },
};

app.get("/", async (_request, reply) => html(reply, 200, { list: await books.list() }));

app.post("/books", async (request, reply) => {
  const { values, problem } = readForm(request.body ?? new URLSearchParams());
  if (problem !== null) return html(reply, 422, { list: await books.list(), problem: { heading: "That cannot be put on the list", text: problem }, values });
  try {
    if (await books.add(values)) return reply.redirect("/", 303);
  } catch (error) {
    if (!(error instanceof DatabaseAway)) throw error;
    request.log.error(error);
    return html(reply.header("retry-after", "5"), 503, { list: null, problem: awayProblem.writing, values });
  }
  return html(reply, 409, { list: await books.list(), problem: { heading: "The list is full", text: "It takes no more books." }, values });
});

// Says nothing of the database: an app is not cured by being replaced while that is away, and it has a page for it.
app.get("/healthz", async () => ({ ok: true }));

app.setNotFoundHandler((_request, reply) => html(reply, 404, { list: null, problem: { heading: "There is no such page", text: "The list is on the first one." } }));

app.setErrorHandler((error, request, reply) => {
  if (error.statusCode >= 400 && error.statusCode < 500)
    return html(reply, error.statusCode, { list: null, problem: { heading: "That cannot be put on the list", text: error.message } });
  request.log.error(error);
  if (error instanceof DatabaseAway) return html(reply.header("retry-after", "5"), 503, { list: null, problem: awayProblem.reading });
  return html(reply, 500, { list: null, problem: { heading: "That went wrong", text: "The app's log says why." } });
});

await app.listen({ host: "0.0.0.0", port: Number(process.env.PORT ?? 3000) });

// Stops accepting, lets requests in flight finish, closes idle connections and those to the database, then the process
// ends by itself.
process.once("SIGTERM", async () => {
  app.log.info("draining");
  await app.close();
  await books.close();
  app.log.info("drained");
});
