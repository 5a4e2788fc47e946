import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import Fastify from "fastify";
import { departures } from "./departures.js";
import { page } from "./page.js";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const startedAt = new Date();

const app = Fastify({
  logger: true,
  disableRequestLogging: true,
  // Longer than the proxy keeps an idle connection, so that it is never the app that closes one in use.
  keepAliveTimeout: 150_000,
  // While shutting down, requests that still arrive are answered; the platform sends none any more.
  return503OnClosing: false,
});

/** What the platform told this process, and what the process knows about itself. */
const facts = () => ({
  version,
  hostname: hostname(),
  startedAt: startedAt.toISOString(),
  uptimeSeconds: Math.round(process.uptime()),
  memoryMb: Math.round(process.memoryUsage.rss() / 1024 ** 2),
  platform: Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith("SVC_"))),
});

app.get("/", async (_request, reply) => reply.type("text/html; charset=utf-8").send(page(departures(new Date()), facts())));
app.get("/api/facts", async () => facts());
app.get("/healthz", async () => ({ ok: true }));

await app.listen({ host: "0.0.0.0", port: Number(process.env.PORT ?? 3000) });

// Stops accepting, lets requests in flight finish, closes idle connections, then the process ends by itself.
process.once("SIGTERM", () => {
  app.log.info("draining");
  app.close().then(() => app.log.info("drained"));
});
