import { createServer, connect as dial, type Socket } from "node:net";

/** The way from one browser to one edge. Disposing it closes it with all that is under way. */
export interface Way extends AsyncDisposable {
  /** Connections that the browser opened so far. */
  opened(): number;
}

/** A page has no need for more. */
const openMax = 64;
/** Of all that goes over it: whatever a page loads without an end ends here. */
const bytesMax = 64 * 1024 * 1024;

/**
 * Listens at the socket `path` and passes what comes there on to `edge`, whatever it asks for: there is no way to name another
 * place. A host that is none of the edge's gets from it what any visitor gets.
 */
export async function openWay(path: string, edge: { host: string; port: number }): Promise<Way> {
  const sockets = new Set<Socket>();
  let opened = 0;
  let bytes = 0;
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    return socket;
  };
  const server = createServer({ allowHalfOpen: true }, (browser) => {
    opened += 1;
    keep(browser);
    if (sockets.size > 2 * openMax || bytes > bytesMax) return void browser.destroy();
    const visited = keep(dial({ ...edge, allowHalfOpen: true }));
    const end = (): void => {
      browser.destroy();
      visited.destroy();
    };
    browser.once("error", end);
    visited.once("error", end);
    visited.on("data", (chunk: Buffer) => {
      bytes += chunk.byteLength;
      if (bytes > bytesMax) end();
    });
    browser.pipe(visited);
    visited.pipe(browser);
    browser.once("close", () => visited.destroy());
    visited.once("close", () => browser.destroy());
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
