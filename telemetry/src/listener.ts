import { createServer, type ServerResponse } from "node:http";
import type { Clock } from "@svc/runtime/clock";

/** The part of a pino logger that this package writes to. */
export interface OperatorsLog {
  warn(fields: object, message: string): void;
}

/** What operators' tools ask a program. */
export interface OperatorsSource {
  /** Metrics in the text format of Prometheus. */
  metrics(): Promise<string>;
  /** Null when the program's loops turn; else which does not. */
  stuck(): string | null;
  /** Null when it can do its work; else what it cannot reach. */
  unready(): Promise<string | null>;
}

export interface OperatorsAddress {
  host: string;
  port: number;
  /** Whether another process of the program may listen there at the same time, to take over. */
  reusePort?: boolean;
}

export interface OperatorsListener extends AsyncDisposable {
  /** In use, where the setting left it to the system. */
  readonly port: number;
}

const answerMs = 5_000;
const checkMs = 1_000;
const connectionsMax = 32;
const headerBytesMax = 4 * 1024;
/** Reading costs more than asking, so what was read is good for whoever asks a moment later. */
const keepMs = 1_000;
const everyAddress: readonly string[] = ["0.0.0.0", "::"];

/**
 * Serves /metrics, /healthz and /readyz to whoever reaches the address, which is why it must be a private one. Nothing
 * of a request but its method and path is read, every answer comes within five seconds, and metrics and readiness are read
 * once a second at most, however many ask.
 */
export async function startOperatorsListener(
  clock: Clock,
  { host, port, reusePort = false }: OperatorsAddress,
  source: OperatorsSource,
  log: OperatorsLog,
): Promise<OperatorsListener> {
  const kept = {
    ...source,
    metrics: keepFor(keepMs, () => source.metrics(), clock.steadyMs),
    unready: keepFor(keepMs, () => source.unready(), clock.steadyMs),
  };
  const server = createServer(
    {
      maxHeaderSize: headerBytesMax,
      headersTimeout: answerMs,
      requestTimeout: answerMs,
      keepAliveTimeout: answerMs,
      connectionsCheckingInterval: checkMs,
    },
    (request, response) => {
      const method = request.method ?? "";
      const respond = (status: number, text: string, type = "text/plain; charset=utf-8") => {
        if (response.headersSent) return;
        response.writeHead(status, {
          ...{ "content-type": type, "content-length": Buffer.byteLength(text), "cache-control": "no-store" },
          ...(status === 405 && { allow: "GET, HEAD" }),
          // Whoever sends a body is not read to its end.
          ...(method !== "GET" && method !== "HEAD" && { connection: "close" }),
        });
        response.end(method === "HEAD" ? undefined : text);
      };
      request.resume();
      if (method !== "GET" && method !== "HEAD") return respond(405, "only GET and HEAD\n");
      answer(clock, kept, pathOf(request.url), respond, response).catch((error: unknown) => {
        log.warn({ err: error }, "operators could not be answered");
        respond(503, "not now\n");
      });
    },
  );
  server.maxConnections = connectionsMax;
  server.setTimeout(2 * answerMs, (socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, reusePort }, resolve);
  });
  server.on("error", (error) => log.warn({ err: error }, "the operators' listener failed"));
  const address = server.address();
  const bound = typeof address === "object" && address !== null ? address : { address: host, port };
  if (everyAddress.includes(bound.address)) {
    log.warn({ host }, "metrics are shown on every address of this machine: give it a private one to listen on");
  }
  return {
    port: bound.port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * Shares what was read less than `ms` ago, or is being read for less than an asker waits. What could not be read is read
 * again.
 */
function keepFor<T>(ms: number, read: () => Promise<T>, nowMs: () => number): () => Promise<T> {
  let kept: { value: Promise<T>; untilMs: number } | null = null;
  return () => {
    if (kept !== null && nowMs() < kept.untilMs) return kept.value;
    const own = { value: read(), untilMs: nowMs() + answerMs };
    kept = own;
    own.value.then(
      () => {
        own.untilMs = nowMs() + ms;
      },
      () => {
        own.untilMs = 0;
      },
    );
    return own.value;
  };
}

const pathOf = (target = "/"): string => target.split("?")[0] ?? "/";

type Respond = (status: number, text: string, type?: string) => void;

async function answer(
  clock: Clock,
  source: OperatorsSource,
  path: string,
  respond: Respond,
  response: ServerResponse,
): Promise<void> {
  if (path === "/healthz") {
    const stuck = source.stuck();
    return stuck === null ? respond(200, "ok\n") : respond(503, `${stuck}\n`);
  }
  if (path !== "/metrics" && path !== "/readyz") return respond(404, "not found\n");
  const late = clock.after(answerMs, () => respond(503, "no answer in time\n"));
  response.once("close", () => late[Symbol.dispose]());
  if (path === "/metrics") return respond(200, await source.metrics(), "text/plain; version=0.0.4; charset=utf-8");
  const missing = await source.unready();
  return missing === null ? respond(200, "ok\n") : respond(503, `${missing}\n`);
}
