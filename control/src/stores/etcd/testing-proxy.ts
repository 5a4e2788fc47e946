import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/**
 * Where a connection is cut, counted in what the server sends: after `bytes` in all, or `into` bytes into the
 * `frame`-th HTTP/2 frame (from 0) of a kind that carries a call (HEADERS or DATA).
 */
export type CutPoint = { readonly bytes: number } | { readonly frame: number; readonly into: number };

/** A TCP proxy that fails in chosen ways. */
export interface TcpProxy extends AsyncDisposable {
  readonly endpoint: string;
  /** Connections open now. */
  readonly open: number;
  /** How often a connection was cut at a chosen point. */
  readonly cuts: number;
  /** Breaks all connections now. */
  cut(): void;
  /** Breaks the next connection, or the present one from now on, at `point`; once. */
  cutAt(point: CutPoint): void;
  /** Nothing passes and nobody is told. New connections are accepted and get nothing. */
  blackHole(): void;
  /** Connections are accepted and closed at once. */
  refuse(): void;
  /** Passes everything again, also what was held back. */
  heal(): void;
}

const frameHeaderBytes = 9;
const dataFrame = 0;
const headersFrame = 1;

/** How many of the next `chunk`'s bytes may pass before `point`; null for all. Keeps its place between chunks. */
function cutCounter(point: CutPoint): (chunk: Buffer) => number | null {
  if ("bytes" in point) {
    let left = point.bytes;
    return (chunk) => {
      if (chunk.length < left) {
        left -= chunk.length;
        return null;
      }
      return left;
    };
  }
  // Frames may span chunks: what is known of the current one is kept here.
  let header = Buffer.alloc(0);
  let payloadLeft = 0;
  let carried = -1;
  let intoFrame = 0;
  return (chunk) => {
    for (let at = 0; at < chunk.length; at++) {
      const inPoint = carried === point.frame;
      if (inPoint && intoFrame === point.into) return at;
      if (payloadLeft > 0) {
        payloadLeft -= 1;
        intoFrame += 1;
        if (payloadLeft === 0 && inPoint) return at + 1;
        continue;
      }
      header = Buffer.concat([header, chunk.subarray(at, at + 1)]);
      if (header.length < frameHeaderBytes) continue;
      payloadLeft = header.readUIntBE(0, 3);
      const kind = header[3];
      const carries = kind === dataFrame || kind === headersFrame;
      header = Buffer.alloc(0);
      intoFrame = 0;
      if (carries) carried += 1;
      if (carries && carried === point.frame && point.into === 0) return Math.max(0, at + 1 - frameHeaderBytes);
    }
    return null;
  };
}

/** Starts a proxy to `target`: a port on the loopback address, or the path of a socket. */
export async function startProxy(target: number | string): Promise<TcpProxy> {
  const pairs = new Set<{ client: Socket; server: Socket }>();
  let mode: "pass" | "hole" | "refuse" = "pass";
  let counter: ((chunk: Buffer) => number | null) | null = null;
  let cuts = 0;

  const cut = () => {
    for (const { client, server } of pairs) {
      client.resetAndDestroy();
      server.destroy();
    }
    pairs.clear();
  };
  const listener = createServer((client) => {
    client.on("error", () => {});
    if (mode === "refuse") return void client.resetAndDestroy();
    const server = typeof target === "number" ? connect(target, "127.0.0.1") : connect(target);
    server.on("error", () => {});
    const pair = { client, server };
    pairs.add(pair);
    const over = () => {
      pairs.delete(pair);
      client.destroy();
      server.destroy();
    };
    client.on("close", over);
    server.on("close", over);
    client.on("data", (chunk) => server.write(chunk));
    server.on("data", (chunk: Buffer) => {
      const passes = counter?.(chunk) ?? null;
      if (passes === null) return void client.write(chunk);
      counter = null;
      cuts += 1;
      // `end` and not a reset: what may pass must arrive.
      client.end(chunk.subarray(0, passes));
      server.destroy();
    });
    if (mode === "hole") {
      client.pause();
      server.pause();
    }
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  const ownPort = address !== null && typeof address === "object" ? address.port : 0;
  return {
    endpoint: `http://127.0.0.1:${ownPort}`,
    get open() {
      return pairs.size;
    },
    get cuts() {
      return cuts;
    },
    cut,
    cutAt(point) {
      counter = cutCounter(point);
    },
    blackHole() {
      mode = "hole";
      for (const { client, server } of pairs) {
        client.pause();
        server.pause();
      }
    },
    refuse() {
      mode = "refuse";
      cut();
    },
    heal() {
      mode = "pass";
      for (const { client, server } of pairs) {
        client.resume();
        server.resume();
      }
    },
    async [Symbol.asyncDispose]() {
      cut();
      listener.close();
      await once(listener, "close");
    },
  };
}
