import { addAbortSignal, type Duplex } from "node:stream";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { NodeService, type OpenTunnel, type TunnelRequestSchema, type TunnelResponse } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import type { Link } from "../link.ts";
import type { Log } from "../log.ts";

type Request = MessageInitShape<typeof TunnelRequestSchema>;

export interface TunnelDeps {
  clock: Clock;
  link(): Pick<Link, "replicas" | "connectTo">;
  /**
   * The server of a database on this node, as a stream of bytes. Rejects with a sentence for the owner of the database
   * when it does not run here under that epoch.
   */
  connect(database: { databaseId: string; epoch: bigint }, signal: AbortSignal): Promise<Duplex>;
  signal: AbortSignal;
  log: Log;
}

export interface Tunnels extends AsyncDisposable {
  /** Opens the tunnel, unless it is open already. Returns at once. */
  open(wish: OpenTunnel): void;
}

/** All at once; control keeps to less. */
const tunnelsMax = 64;
/** A server on the same machine answers at once or not at all. */
const connectTimeoutMs = 3_000;
/** For a replica to say whether the tunnel is its own. */
const answerTimeoutMs = 5_000;
const pieceBytes = 64 * 1024;

/** Joins databases of this node to the replicas of control that ask for them, each over a connection of its own. */
export function createTunnels(deps: TunnelDeps): Tunnels {
  const { clock, link, signal, log } = deps;
  const open = new Map<string, Promise<void>>();

  const carry = async ({ tunnelId, databaseId, epoch }: OpenTunnel): Promise<void> => {
    const connecting = deps.connect({ databaseId, epoch }, signal);
    const server = await within(clock, connectTimeoutMs, connecting, () => {
      connecting.then(
        (late) => hear(late).destroy(),
        () => {},
      );
      throw new Error("The database server does not answer.");
    }).then(hear, toReason);
    // A server that takes nothing more would keep the agent from ending.
    if (typeof server !== "string") addAbortSignal(signal, server);
    try {
      for (const replica of link().replicas()) {
        if (signal.aborted) return;
        const connection = link().connectTo(replica);
        try {
          if (await joinTo(createClient(NodeService, connection.transport), { ...deps, tunnelId, server })) return;
        } finally {
          connection.close();
        }
      }
    } finally {
      if (typeof server !== "string") server.destroy();
    }
  };

  return {
    open(wish) {
      const { tunnelId, databaseId } = wish;
      if (signal.aborted || open.has(tunnelId)) return;
      if (open.size >= tunnelsMax) return log.warn({ databaseId }, "too many tunnels are open: another is not opened");
      const done = carry(wish)
        .catch((cause: unknown) => log.warn({ databaseId, reason: String(cause) }, "a tunnel broke"))
        .finally(() => open.delete(tunnelId));
      open.set(tunnelId, done);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(open.values());
    },
  };
}

/** What an error of it means is seen by its reader or writer; without a listener it would end this process. */
const hear = (server: Duplex): Duplex => server.on("error", () => {});

const toReason = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/** Carries bytes until either end is over. False: the replica does not know the tunnel, or does not say. */
async function joinTo(
  client: { tunnel(requests: AsyncIterable<Request>, options: { signal: AbortSignal }): AsyncIterable<TunnelResponse> },
  {
    tunnelId,
    server,
    clock,
    signal,
    log,
  }: { tunnelId: string; server: Duplex | string } & Pick<TunnelDeps, "clock" | "signal" | "log">,
): Promise<boolean> {
  const over = new AbortController();
  const verdict = Promise.withResolvers<boolean>();
  const requests = async function* (): AsyncGenerator<Request> {
    const refusedBecause = typeof server === "string" ? server : "";
    yield { message: { case: "answer", value: { tunnelId, refusedBecause } } };
    // Not a byte is read before it is known whose tunnel it is: it would be lost for the next replica.
    if (!(await verdict.promise) || typeof server === "string") return;
    for await (const chunk of server as AsyncIterable<Uint8Array>) {
      for (let at = 0; at < chunk.length; at += pieceBytes) {
        yield { message: { case: "data", value: chunk.subarray(at, at + pieceBytes) } };
      }
    }
  };
  const responses = client
    .tunnel(requests(), { signal: AbortSignal.any([signal, over.signal]) })
    [Symbol.asyncIterator]();
  try {
    const first = await within(clock, answerTimeoutMs, responses.next(), () => null).catch((cause: unknown) => {
      if (!isElsewhere(cause)) log.warn({ reason: String(cause) }, "a replica of control does not take a tunnel");
      return null;
    });
    if (first === null || first.done === true) return false;
    verdict.resolve(true);
    for (let next = await responses.next(); next.done !== true; next = await responses.next()) {
      if (typeof server === "string") continue;
      const { data, end } = next.value;
      if (data.length > 0) await write(server, data);
      if (end) server.end();
    }
    return true;
  } finally {
    verdict.resolve(false);
    over.abort();
  }
}

const isElsewhere = (cause: unknown): boolean =>
  [Code.NotFound, Code.Unavailable, Code.Canceled].includes(ConnectError.from(cause).code);

/** Resolves when there is room for more. Rejects when the server is gone, of which a write under way may hear nothing. */
const write = (server: Duplex, data: Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => {
    const onClose = () => reject(new Error("the server is gone"));
    server.once("close", onClose);
    server.write(data, (error) => {
      server.off("close", onClose);
      if (error) reject(error);
      else resolve();
    });
  });
