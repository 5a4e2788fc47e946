import { createServer } from "node:http";
import type { Log } from "../log.ts";

/** Where balancers, and whatever moves addresses between edges, ask whether to send visitors here. */
export interface HealthListener extends AsyncDisposable {
  /** In use, where the setting left it to the system. */
  readonly port: number;
}

/** Longer than this nobody who asks for a health waits. */
const answerMs = 2_000;
const connectionsMax = 64;
const healthPath = "/_svc/edge";

/**
 * Answers `GET /_svc/edge`: 200 when visitors are to be sent here, else 503 and why. Nothing of a request but its method and
 * path is read.
 */
export async function serveHealth(
  { host, port }: { host: string; port: number },
  unready: () => string,
  log: Log,
): Promise<HealthListener> {
  const server = createServer(
    {
      maxHeaderSize: 4 * 1024,
      ...{ headersTimeout: answerMs, requestTimeout: answerMs, keepAliveTimeout: 5_000 },
      connectionsCheckingInterval: 1_000,
    },
    ({ method = "", url = "" }, response) => {
      const respond = (status: number, text: string, headers: Record<string, string> = {}): void => {
        const fixed = { "Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store" };
        response.writeHead(status, { ...fixed, ...headers, "Content-Length": Buffer.byteLength(text) });
        response.end(method === "HEAD" ? undefined : text);
      };
      if (method !== "GET" && method !== "HEAD") {
        return respond(405, "only GET and HEAD\n", { Allow: "GET, HEAD", Connection: "close" });
      }
      if (url.split("?")[0] !== healthPath) return respond(404, "not found\n");
      const reason = unready();
      return reason === "" ? respond(200, "ok\n") : respond(503, `${reason}\n`);
    },
  );
  server.maxConnections = connectionsMax;
  server.setTimeout(2 * answerMs, (socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port }, resolve);
  });
  server.on("error", (err) => log.warn({ err }, "the listener for health failed"));
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}
