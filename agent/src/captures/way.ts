import { createServer, connect as dial, type Socket } from "node:net";
import { askedServer } from "./client-hello.ts";

/** The way from one browser to one edge. Disposing it closes it with all that is under way. */
export interface Way extends AsyncDisposable {
  /** Connections that the browser opened so far. */
  opened(): number;
}

/** A page has no need for more. */
const openMax = 64;
/** Of all that goes over it, in both directions: whatever a page loads or sends without an end ends here. */
const bytesMax = 64 * 1024 * 1024;

/**
 * Listens at the socket `path` and passes what comes there on to `edge`: there is no way to name another place. With a
 * `serverName` only TLS connections to that name are; an edge serves nothing else over one. Null: what goes over it is not TLS, and
 * whatever host is asked for gets what any visitor gets.
 */
export async function openWay(
  path: string,
  edge: { host: string; port: number },
  serverName: string | null,
): Promise<Way> {
  const sockets = new Set<Socket>();
  let opened = 0;
  let bytes = 0;
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    return socket;
  };
  const lead = (browser: Socket, begun: Buffer): void => {
    const visited = keep(dial({ ...edge, allowHalfOpen: true }));
    const end = (): void => {
      browser.destroy();
      visited.destroy();
    };
    const count = (chunk: Buffer): void => {
      bytes += chunk.byteLength;
      if (bytes > bytesMax) end();
    };
    visited.once("error", end);
    browser.once("close", end);
    visited.once("close", end);
    visited.on("data", count);
    browser.on("data", count);
    if (begun.byteLength > 0) visited.write(begun);
    browser.pipe(visited);
    visited.pipe(browser);
  };
  /** Leads it on once it has said where to, and has said so rightly. */
  const judge = (browser: Socket, name: string): void => {
    let begun = Buffer.alloc(0);
    const end = (): void => void browser.destroy();
    const read = (chunk: Buffer): void => {
      begun = Buffer.concat([begun, chunk]);
      const asked = askedServer(begun);
      if (asked.kind === "more") return;
      browser.off("data", read).off("end", end);
      if (asked.kind === "name" && asked.name === name) lead(browser, begun);
      else end();
    };
    browser.on("data", read).once("end", end);
  };
  const server = createServer({ allowHalfOpen: true }, (browser) => {
    opened += 1;
    keep(browser).on("error", () => browser.destroy());
    if (sockets.size > 2 * openMax || bytes > bytesMax) browser.destroy();
    else if (serverName === null) lead(browser, Buffer.alloc(0));
    else judge(browser, serverName);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, resolve);
  });
  return {
    opened: () => opened,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
