import { addAbortSignal, type Duplex } from "node:stream";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { NodeService, type OpenTunnel, type TunnelRequestSchema } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import type { Link } from "../link.ts";
import type { Log } from "../log.ts";

type Request = MessageInitShape<typeof TunnelRequestSchema>;

type TunnelConnections = Pick<Link, "replicas" | "connectTo">;

export interface TunnelDeps {
  clock: Clock;
  link(): TunnelConnections;
  /**
   * The server of a database on this node, as a stream of bytes. Rejects with a sentence for the owner of the database
   * when it does not run here under that epoch. With a `copyId` the files of that copy.
   */
  connect(wish: Pick<OpenTunnel, "databaseId" | "epoch" | "copyId">, signal: AbortSignal): Promise<Duplex>;
  signal: AbortSignal;
  log: Log;
}

export interface Tunnels extends AsyncDisposable {
  /** Opens the tunnel, unless it is open already. Returns at once. */
  open(wish: OpenTunnel): void;
}

/** All at once; control keeps to less. */
const tunnelsMax = 64;
/** Refusals for want of room that are under way at once; wishes beyond these are not answered. */
const refusalsMax = 64;
const noRoom = "Too many tools use databases of this node now. Try again in a moment.";
/** A server on the same machine answers at once or not at all. */
const connectTimeoutMs = 3_000;
/** For a replica to say whether the tunnel is its own. */
const answerTimeoutMs = 5_000;
const pieceBytes = 64 * 1024;

/** Joins databases of this node to the replicas of control that ask for them, each over connections of its own. */
export function createTunnels(deps: TunnelDeps): Tunnels {
  const { clock, link, signal, log } = deps;
  const open = new Map<string, Promise<void>>();
  const refusing = new Map<string, Promise<void>>();

  const reach = async (wish: OpenTunnel): Promise<Duplex | string> => {
    const connecting = deps.connect(wish, signal);
    const server = await within(clock, connectTimeoutMs, connecting, () => {
      connecting.then(
        (late) => hear(late).destroy(),
        () => {},
      );
      throw new Error("The database server does not answer.");
    }).then(hear, toReason);
    // A server that takes nothing more would keep the agent from ending.
    if (typeof server !== "string") addAbortSignal(signal, server);
    return server;
  };

  const carry = async (tunnelId: string, server: Duplex | string): Promise<void> => {
    const asked: Asked[] = [];
    try {
      if (signal.aborted) return;
      for (const replica of link().replicas())
        asked.push(ask(link().connectTo(replica), { ...deps, tunnelId, server }));
      // All at once: control gives up before a replica that hangs has been waited for.
      const owner = await Promise.any(asked.map(({ taken }) => taken)).catch(() => null);
      for (const each of asked) if (each !== owner) each.callOff();
      await owner?.carry();
    } finally {
      for (const each of asked) each.callOff();
      if (typeof server !== "string") server.destroy();
    }
  };

  const keep = (tunnels: Map<string, Promise<void>>, { tunnelId, databaseId }: OpenTunnel, carried: Promise<void>) => {
    const done = carried
      .catch((cause: unknown) => log.warn({ databaseId, reason: String(cause) }, "a tunnel broke"))
      .finally(() => tunnels.delete(tunnelId));
    tunnels.set(tunnelId, done);
  };

  return {
    open(wish) {
      const { tunnelId, databaseId } = wish;
      if (signal.aborted || open.has(tunnelId) || refusing.has(tunnelId)) return;
      if (open.size < tunnelsMax) {
        keep(
          open,
          wish,
          reach(wish).then((server) => carry(tunnelId, server)),
        );
        return;
      }
      log.warn({ databaseId }, "too many tunnels are open: another is not opened");
      if (refusing.size < refusalsMax) keep(refusing, wish, carry(tunnelId, noRoom));
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...open.values(), ...refusing.values()]);
    },
  };
}

/** What an error of it means is seen by its reader or writer; without a listener it would end this process. */
const hear = (server: Duplex): Duplex => server.on("error", () => {});

const toReason = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/** A replica that was asked whether the tunnel is its own. */
interface Asked {
  /** This one, once the replica has taken the tunnel. Rejects when it does not know it, or does not say in time. */
  taken: Promise<Asked>;
  /** Carries bytes until either end is over. */
  carry(): Promise<void>;
  /** Ends the call and its connection; again does nothing. */
  callOff(): void;
}

function ask(
  connection: ReturnType<TunnelConnections["connectTo"]>,
  {
    tunnelId,
    server,
    clock,
    signal,
    log,
  }: { tunnelId: string; server: Duplex | string } & Pick<TunnelDeps, "clock" | "signal" | "log">,
): Asked {
  const over = new AbortController();
  const verdict = Promise.withResolvers<boolean>();
  const requests = async function* (): AsyncGenerator<Request> {
    const refusedBecause = typeof server === "string" ? server : "";
    yield { message: { case: "answer", value: { tunnelId, refusedBecause } } };
    // Not a byte is read before it is known whose tunnel it is: it would be lost for the replica that asked.
    if (!(await verdict.promise) || typeof server === "string") return;
    for await (const chunk of server as AsyncIterable<Uint8Array>) {
      for (let at = 0; at < chunk.length; at += pieceBytes) {
        yield { message: { case: "data", value: chunk.subarray(at, at + pieceBytes) } };
      }
    }
  };
  const responses = createClient(NodeService, connection.transport)
    .tunnel(requests(), { signal: AbortSignal.any([signal, over.signal]) })
    [Symbol.asyncIterator]();
  const accept = async (): Promise<Asked> => {
    const first = await within(clock, answerTimeoutMs, responses.next(), () => null).catch((cause: unknown) => {
      if (!isElsewhere(cause)) log.warn({ reason: String(cause) }, "a replica of control does not take a tunnel");
      return null;
    });
    if (first === null || first.done === true) throw new Error("the tunnel is not of this replica");
    return asked;
  };
  const taken = accept();
  // It may have been called off before anybody waits for it.
  taken.catch(() => {});
  const asked: Asked = {
    taken,
    async carry() {
      verdict.resolve(true);
      for (let next = await responses.next(); next.done !== true; next = await responses.next()) {
        if (typeof server === "string") continue;
        const { data, end } = next.value;
        if (data.length > 0) await write(server, data);
        if (end) server.end();
      }
    },
    callOff() {
      if (over.signal.aborted) return;
      verdict.resolve(false);
      over.abort();
      connection.close();
    },
  };
  return asked;
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
