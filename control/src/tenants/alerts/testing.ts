import { createServer, type IncomingHttpHeaders, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { insertWebhook } from "./change.ts";
import { newSecret } from "./sign.ts";
import type { Webhook } from "./store.ts";

/** A webhook of the project, as a call of the API would have made it but for its first delivery. Returns its secret, too. */
export async function newWebhook(
  { db, context: { secrets } }: { db: Db; context: { secrets: Secrets } },
  projectId: string,
  url = "https://hooks.svc.test/alerts",
): Promise<{ webhook: Webhook; secret: string }> {
  const secret = newSecret();
  return { webhook: await insertWebhook(db, secrets, { projectId, url, secret }), secret };
}

/** What a receiver was sent. */
export interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

export interface Receiver {
  url: string;
  received: Received[];
  /** Of the answers to come, one each; 204 once there is none left. Null: it never answers. */
  answers: (number | null)[];
}

/** A real server at 127.0.0.1, over TLS where it has a certificate, until the test is over. */
export async function startReceiver(tls?: { key: string; cert: string }, name = "127.0.0.1"): Promise<Receiver> {
  const [received, answers]: [Received[], (number | null)[]] = [[], []];
  const listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const status = answers.length > 0 ? answers.shift() : 204;
      received.push({
        path: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks).toString("utf8"),
      });
      if (typeof status === "number") response.writeHead(status, { location: "/elsewhere" }).end();
    });
  };
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => server.close(() => resolve()));
  });
  const { port } = server.address() as AddressInfo;
  return { url: `${tls === undefined ? "http" : "https"}://${name}:${port}/hook`, received, answers };
}
