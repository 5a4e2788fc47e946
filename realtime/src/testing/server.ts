import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import type { Realtime } from "../realtime.ts";

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** The two ways in which an application may serve streams, each behind a real server. */
export const carriers: Readonly<Record<"node" | "handler", (realtime: Realtime) => Listener>> = {
  node: (realtime) => (request, response) => realtime.node(request, response),
  handler: (realtime) => (request, response) => void bridge(realtime, request, response),
};

/** What frameworks do for a Fetch handler on Node. */
async function bridge(realtime: Realtime, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const left = new AbortController();
  response.on("close", () => left.abort());
  const headers = Object.entries(request.headers).map(([name, value]): [string, string] => [name, String(value)]);
  const url = `http://${request.headers.host}${request.url}`;
  const asked = { method: request.method ?? "GET", headers, signal: left.signal };
  const answer = await realtime.handler(new Request(url, asked));
  response.writeHead(answer.status, Object.fromEntries(answer.headers)).flushHeaders();
  if (answer.body === null) response.end();
  else
    Readable.fromWeb(answer.body)
      .on("error", () => response.destroy())
      .pipe(response);
}

export interface TestServer extends AsyncDisposable {
  url: string;
  port: number;
  /** How many are open. */
  connections(): Promise<number>;
}

export async function serve(listener: Listener): Promise<TestServer> {
  const server = createServer(listener);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    connections: () =>
      new Promise((resolve, reject) => {
        server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
      }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
