import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** True: handled here; false: passed on to the server behind. */
export type Intercept = (incoming: IncomingMessage, reply: ServerResponse, forward: () => void) => boolean;

export type Proxy = AsyncDisposable & {
  url: string;
  seen: { method: string; path: string; authorization: string | null }[];
};

/**
 * Stands in front of `upstream` and lets `intercept` break, delay or answer single requests. Location headers are
 * rewritten. `host` is an address of loopback.
 */
export async function startProxy(upstream: string, intercept: Intercept, host = "127.0.0.1"): Promise<Proxy> {
  const seen: Proxy["seen"] = [];
  const server = createServer((incoming, reply) => {
    const { method = "GET", url = "/", headers } = incoming;
    seen.push({ method, path: url, authorization: headers.authorization ?? null });
    const forward = (): void => {
      const { authorization, ...rest } = headers;
      const outgoing = request(new URL(url, upstream), { method, headers: rest }, (answer) => {
        const { location } = answer.headers;
        const moved = location === undefined ? {} : { location: location.replace(upstream, own()) };
        reply.writeHead(answer.statusCode ?? 502, { ...answer.headers, ...moved });
        answer.pipe(reply);
      });
      outgoing.on("error", () => reply.destroy());
      incoming.pipe(outgoing);
    };
    if (!intercept(incoming, reply, forward)) forward();
  });
  const own = (): string => `http://${host}:${(server.address() as AddressInfo).port}`;
  server.listen(0, host);
  await once(server, "listening");
  return {
    url: own(),
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
