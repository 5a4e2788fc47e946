import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";

/** One call on its way to the engine. */
export interface EngineCall {
  method: string;
  path: string;
}

/** What becomes of a call: it goes on as it is, or with another body, or never reaches the engine. */
export type Play = "pass" | { rewrite(body: unknown): unknown } | { answer: number; message?: string };

/**
 * A door to the machine's own engine that counts what comes through, and that can play an engine which refuses, or
 * takes a call and does less than it says.
 */
export type EngineProxy = AsyncDisposable & {
  socketPath: string;
  /** How many calls of a method went to a path, whatever became of them. */
  count(method: string, path: RegExp): number;
  /** For the calls from here on. One waits for as long as what becomes of it is not decided. */
  play(decide: (call: EngineCall) => Play | Promise<Play>): void;
};

export async function startEngineProxy(target = "/var/run/docker.sock"): Promise<EngineProxy> {
  const dir = await mkdtemp(join(tmpdir(), "svc-engine-proxy-"));
  const socketPath = join(dir, "sock");
  const calls: EngineCall[] = [];
  let decide: (call: EngineCall) => Play | Promise<Play> = () => "pass";

  const pass = (incoming: IncomingMessage, reply: ServerResponse, body: Buffer | null): void => {
    const { method, url, headers } = incoming;
    const length = body !== null && { "content-length": String(body.length) };
    const onward = request(
      { socketPath: target, method, path: url, headers: { ...headers, ...length }, agent: false },
      (answer) => {
        reply.writeHead(answer.statusCode ?? 502, answer.headers);
        reply.flushHeaders();
        answer.pipe(reply);
        answer.on("error", () => reply.destroy());
      },
    );
    onward.on("error", () => reply.destroy());
    reply.on("close", () => onward.destroy());
    if (body === null) incoming.pipe(onward);
    else onward.end(body);
  };
  const handle = async (incoming: IncomingMessage, reply: ServerResponse): Promise<void> => {
    const path = (incoming.url ?? "").replace(/^\/v[\d.]+/, "").replace(/\?.*$/, "");
    const call = { method: incoming.method ?? "", path };
    calls.push(call);
    const play = await decide(call);
    if (play === "pass") return pass(incoming, reply, null);
    const body = await buffer(incoming);
    if ("rewrite" in play) {
      return pass(incoming, reply, Buffer.from(JSON.stringify(play.rewrite(JSON.parse(body.toString("utf8"))))));
    }
    reply.writeHead(play.answer, { "content-type": "application/json" });
    reply.end(JSON.stringify({ message: play.message ?? "the engine would rather not" }));
  };

  const server = createServer((incoming, reply) => {
    handle(incoming, reply).catch(() => reply.destroy());
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  return {
    socketPath,
    count: (method, path) => calls.filter((call) => call.method === method && path.test(call.path)).length,
    play: (next) => {
      decide = next;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await rm(dir, { recursive: true, force: true });
    },
  };
}
