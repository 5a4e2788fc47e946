import { createHash } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** A small app behind the edge. */
export interface Upstream extends AsyncDisposable {
  /** host:port */
  address: string;
  /** What it was asked last. */
  last(): { method: string; url: string; headers: IncomingHttpHeaders; rawHeaders: string[]; body: string } | null;
  requests(): number;
}

/**
 * Answers with its name; `/events` streams a line every 20 ms, `/page` is
 * the first part of a page whose second never comes, `/echo` is a WebSocket-like upgrade that
 * sends back what it gets, `/slow` never answers, `/cookie` sets the cookies given in the query, `/headers` the headers,
 * and with `bytes` an answer of that length.
 */
export async function startUpstream(name: string, port = 0): Promise<Upstream> {
  let last: ReturnType<Upstream["last"]> = null;
  let requests = 0;
  const sockets = new Set<Socket>();
  const server: Server = createServer((request, response) => {
    requests += 1;
    const url = request.url ?? "";
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { method = "", headers, rawHeaders } = request;
      last = { method, url, headers, rawHeaders, body: Buffer.concat(chunks).toString() };
      if (url === "/slow") return;
      if (url === "/events") {
        response.writeHead(200, { "Content-Type": "text/event-stream", "X-Name": name });
        const timer = setInterval(() => response.write(`data: ${name}\n\n`), 20);
        response.once("close", () => clearInterval(timer));
        return;
      }
      if (url === "/page") {
        response.writeHead(200, { "Content-Type": "text/html" });
        response.write("first".repeat(1000));
        return;
      }
      if (url.startsWith("/cookie?")) {
        response.setHeader("Set-Cookie", new URL(url, "http://app.test").searchParams.getAll("set"));
      }
      let body = name;
      if (url.startsWith("/headers?")) {
        for (const [header, value] of new URL(url, "http://app.test").searchParams) {
          if (header === "bytes") body = "x".repeat(Number(value));
          else response.appendHeader(header, value);
        }
      }
      response.setHeader("X-Name", name);
      response.end(body);
    });
  });
  server.on("upgrade", (request, socket) => {
    const accept = createHash("sha1")
      .update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    socket.on("data", (chunk: Buffer) => socket.write(chunk));
    socket.on("error", () => {});
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  const bound = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${bound.port}`,
    last: () => last,
    requests: () => requests,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
