import { Agent as HttpAgent, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { type AddressInfo, createServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createWebSocketStream, WebSocket } from "ws";
import { serverError } from "../api.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { lookup, networkError } from "../http.ts";
import { parseJson } from "../json.ts";
import { isLoopback } from "../origin.ts";
import { type Branch, databasePath, failureOf } from "./branch.ts";

/** What both ends speak: binary messages, whose bytes are the connection's. */
const protocol = "svc-database";
const messageBytesMax = 64 * 1024;
const openMsMax = 30_000;
const refusalBytesMax = 64 * 1024;
/** At least as many as a branch has for its owner. */
const connectionsMax = 64;

/** A way to a database that only the platform reaches: a port on this machine, until it is disposed. */
export interface Tunnel extends AsyncDisposable {
  port: number;
  /** Rejects with what went wrong when a connection could not be carried; for who cannot see it otherwise. */
  readonly trouble: () => CliError | null;
}

/**
 * Listens on the loopback address and carries each connection to the database of `branch`. `port`: 0 takes any that is
 * free. `onConnection` is told of each, with how it ended.
 */
export async function openTunnel(
  context: Context,
  branch: Branch,
  { port = 0, onTrouble = () => {} }: { port?: number; onTrouble?: (error: CliError) => void } = {},
): Promise<Tunnel> {
  let trouble: CliError | null = null;
  const carried = new Set<Promise<void>>();
  const ended = new AbortController();
  const signal = AbortSignal.any([context.signal, ended.signal]);
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    socket.on("error", () => {});
    const carrying = carry(context, branch, socket, signal)
      .catch((thrown: unknown) => {
        if (signal.aborted) return;
        trouble = thrown instanceof CliError ? thrown : cut(thrown);
        onTrouble(trouble);
      })
      .finally(() => {
        socket.destroy();
        carried.delete(carrying);
      });
    carried.add(carrying);
  });
  server.maxConnections = connectionsMax;
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => reject(cannotListen(port, cause)));
    server.listen(port, "127.0.0.1", resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    trouble: () => trouble,
    async [Symbol.asyncDispose]() {
      ended.abort();
      const closed = new Promise((resolve) => server.close(resolve));
      await Promise.all(carried);
      await closed;
    },
  };
}

async function carry(context: Context, branch: Branch, socket: Socket, signal: AbortSignal): Promise<void> {
  const line = await dial(context, branch, signal);
  const stop = () => {
    line.destroy();
    socket.destroy();
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    await Promise.all([pipeline(socket, line), pipeline(line, socket)]);
  } finally {
    signal.removeEventListener("abort", stop);
    line.destroy();
  }
}

/** Opens one connection by the platform. An answer that is no upgrade is told as any other of the API. */
async function dial(context: Context, branch: Branch, signal: AbortSignal): Promise<Duplex> {
  const { url, headers } = branch.api.socketAt(databasePath(branch, "/tunnel"));
  const socket = new WebSocket(url, protocol, {
    headers,
    agent: agentFor(url, context),
    maxPayload: messageBytesMax,
    perMessageDeflate: false,
    handshakeTimeout: openMsMax,
    followRedirects: false,
  });
  // From the start: the first bytes may come together with the answer.
  const stream = createWebSocketStream(socket, { allowHalfOpen: true });
  // Who waits for the opening is told of what fails until then.
  stream.on("error", () => {});
  const give = () => socket.terminate();
  signal.addEventListener("abort", give, { once: true });
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once("open", resolve);
      socket.once("error", (cause) => reject(networkError(url.replace(/^ws/, "http"), cause)));
      socket.once("unexpected-response", (request, response) => {
        refusal(branch, response)
          .then(reject, reject)
          .finally(() => request.destroy());
      });
    });
  } finally {
    signal.removeEventListener("abort", give);
  }
  signal.throwIfAborted();
  // 1000 is how it ends; anything else is a failure, with its reason.
  socket.once("close", (code, reason) => {
    if (code !== 1000 && code !== 1005) stream.destroy(new Error(reason.toString("utf8") || `closed with ${code}`));
  });
  return stream;
}

async function refusal(branch: Pick<Branch, "channel" | "api">, response: IncomingMessage): Promise<CliError> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > refusalBytesMax) break;
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks).toString("utf8");
  const header = (name: string) => [response.headers[name.toLowerCase()]].flat()[0] ?? null;
  const answer = { status: response.statusCode ?? 0, header, body };
  return failureOf(branch)(serverError(branch.api.apiUrl, answer, parseJson(body)));
}

/** Goes by a proxy where the environment names one, as every other request does. */
function agentFor(url: string, { env }: Context): HttpAgent {
  const { protocol: scheme, hostname } = new URL(url);
  const options = { lookup, ...(isLoopback(hostname) ? {} : { proxyEnv: { ...env } }) };
  return scheme === "wss:" ? new HttpsAgent(options) : new HttpAgent(options);
}

const cut = (cause: unknown): CliError =>
  new CliError(
    "DATABASE_NOT_READY",
    `The connection to the database was cut: ${cause instanceof Error ? cause.message : String(cause)}`,
    {
      cause,
      hint: "See how the database is with `svc db status`, then run the command again",
    },
  );

function cannotListen(port: number, cause: Error): CliError {
  const isTaken = "code" in cause && cause.code === "EADDRINUSE";
  return new CliError(
    "CLI_INVALID_USAGE",
    isTaken ? `Port ${port} is in use on this machine` : `Port ${port} cannot be used: ${cause.message}`,
    {
      cause,
      hint: "Name another one with --port, or leave it out",
    },
  );
}
