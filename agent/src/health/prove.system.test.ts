import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { systemClock } from "@svc/runtime/system";
import { afterEach, expect, test } from "vitest";
import { probe } from "./probe.ts";
import { proveHealthy } from "./prove.ts";
import { tcpTablesOf } from "./sockets.ts";

let servers = new AsyncDisposableStack();
afterEach(async () => {
  await servers.disposeAsync();
  servers = new AsyncDisposableStack();
});

async function listen(app: RequestListener): Promise<string> {
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  servers.defer(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const machine = { tcpTables: tcpTablesOf, probe: probe.bind(null, systemClock) };

/** Looks at an app whose time of so many seconds ends so much after now. */
const prove = (upstream: string, seconds: number, leftMs: number): Promise<string | null> => {
  const untilMs = Date.now() + leftMs;
  const subject = { upstream, path: "/", port: 3000, pid: null, startedMs: untilMs - seconds * 1000, untilMs };
  return proveHealthy(systemClock, machine, subject, AbortSignal.timeout(30_000));
};

/** The machine was busy from the start of the app on. */
const overMs = -20_000;

test.each<{ when: string; app: RequestListener; seconds?: number; says: string }>([
  {
    when: "answers with an error",
    app: (_, reply) => reply.writeHead(500).end(),
    says: "within 10 s: it answered / with 500.",
  },
  { when: "never answers", app: () => {}, seconds: 1, says: "within 1 s: it did not answer / within 1 s." },
])("an app that $when is looked at also when its time was over before", async ({ app, seconds = 10, says }) => {
  expect(await prove(await listen(app), seconds, overMs)).toContain(says);
});

test("an app that answers well is healthy also when its time was over before anybody looked", async () => {
  expect(await prove(await listen((_, reply) => reply.end("ok")), 10, overMs)).toBeNull();
});

test("a look that began in time is let finish", async () => {
  const leftMs = 500;
  const upstream = await listen((_, reply) => void setTimeout(() => reply.end("ok"), 2 * leftMs));
  expect(await prove(upstream, 60, leftMs)).toBeNull();
});
