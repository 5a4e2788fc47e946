import type { Duplex } from "node:stream";
import { clip, limits, stripControl } from "@svc/proto";
import type { DaemonIdentity } from "@svc/proto/daemon-identity";
import type { TunnelRequest } from "@svc/proto/node";
import { type Clock, every } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { sql } from "kysely";
import { z } from "zod";
import type { Listener } from "../../stores/db/listen.ts";
import type { Db } from "../../stores/db/pool.ts";
import { LinkError } from "../sessions/errors.ts";
import type { Roster } from "../sessions/roster.ts";
import { bytesOf, type TunnelCall } from "./bytes.ts";

/** What a tunnel leads to: a server, by the epoch of its instance, or the files of a copy. */
export type TunnelTarget = { nodeId: string } & ({ databaseId: string; epoch: string } | { copyId: string });

type TunnelProblem = "silent" | "refused" | "busy" | "stopping";

/** There is no tunnel. */
export class TunnelUnavailable extends Error {
  override readonly name = "TunnelUnavailable";
  /** `silent`: the node did not answer in time. `refused`: it said why not, in the message. `busy`: too many are open. `stopping`: this replica ends. */
  readonly why: TunnelProblem;
  constructor(why: TunnelUnavailable["why"], message: string) {
    super(message);
    this.why = why;
  }
}

/** The tunnels of this replica. */
export interface Tunnels {
  /**
   * Bytes to and from the server. Rejects with `TunnelUnavailable`, or with the reason of the signal, which also ends a
   * tunnel that is open.
   */
  open(target: TunnelTarget, signal: AbortSignal): Promise<Duplex>;
  /**
   * Takes a node's call for what it is the answer to. Throws `LinkError` NOT_FOUND when this replica did not ask, UNAVAILABLE
   * when the call is over.
   */
  accept(holder: TunnelHolder, answer: TunnelAnswer, call: TunnelCall): void;
  /** Whose tunnels are open, each as often as it has one. */
  holders(): TunnelHolder[];
  /** Ends the open tunnels of one holder. Their users see an error with the reason. */
  endOf(holder: TunnelHolder, reason: string): void;
  /** Ends all tunnels, also those that are not open yet. Their users see an error with the reason. */
  endAll(reason: string): void;
}
/** The node at the other end, by the certificate of its call. */
export type TunnelHolder = Pick<DaemonIdentity, "id" | "role" | "incarnation">;
type TunnelAnswer = Extract<TunnelRequest["message"], { case: "answer" }>["value"];

const topic = "svc_node_tunnel";
const openTimeoutMs = 5_000;
/** A notification may be lost while the listening connection reconnects. */
const askEveryMs = 1_000;
const perNodeMax = 32;
const inAllMax = 256;

const wish = z.strictObject({
  tunnelId: z.uuid(),
  nodeId: z.string(),
  databaseId: z.string(),
  epoch: z.string().regex(/^[0-9]{1,19}$/),
  /** Absent of a server: replicas of before know no other. */
  copyId: z.string().exactOptional(),
});

interface Waiting {
  nodeId: string;
  settle(answer: Taken | { refused: string }): void;
  giveUp(reason: unknown): void;
}
interface Taken {
  call: TunnelCall;
  holder: TunnelHolder;
}

/**
 * Tunnels from this replica into nodes. The wish goes to all replicas; that which holds the node's stream passes it on, and
 * the node calls each replica until it finds the one that asked.
 */
export function createTunnels({ clock, random, db }: { clock: Clock; random: Random; db: Db }): Tunnels {
  const waiting = new Map<string, Waiting>();
  const opened = new Map<Duplex, TunnelHolder>();
  const taken = new Map<string, number>();
  let inAll = 0;

  const take = (nodeId: string): Disposable => {
    const ofNode = taken.get(nodeId) ?? 0;
    if (ofNode >= perNodeMax || inAll >= inAllMax) {
      throw new TunnelUnavailable("busy", "Too many tools use databases of this node now. Try again in a moment.");
    }
    taken.set(nodeId, ofNode + 1);
    inAll += 1;
    let given = false;
    return {
      [Symbol.dispose]: () => {
        if (given) return;
        given = true;
        inAll -= 1;
        const left = (taken.get(nodeId) ?? 1) - 1;
        if (left === 0) taken.delete(nodeId);
        else taken.set(nodeId, left);
      },
    };
  };

  return {
    async open(target, signal) {
      const { nodeId } = target;
      signal.throwIfAborted();
      const place = take(nodeId);
      const tunnelId = random.uuid();
      const { promise, resolve, reject } = Promise.withResolvers<Taken>();
      // An answer that comes after this is told that nobody asked.
      const giveUp = (reason: unknown) => {
        waiting.delete(tunnelId);
        reject(reason);
      };
      const onAbort = () => giveUp(signal.reason);
      waiting.set(tunnelId, {
        nodeId,
        settle: (answer) =>
          "call" in answer ? resolve(answer) : reject(new TunnelUnavailable("refused", answer.refused)),
        giveUp,
      });
      signal.addEventListener("abort", onAbort, { once: true });
      const payload = JSON.stringify({ databaseId: "", epoch: "0", ...target, tunnelId });
      const ask = () =>
        // Asked again soon, and given up in time.
        void sql`select pg_notify(${topic}, ${payload})`.execute(db).catch(() => {});
      ask();
      using _again = every(clock, askEveryMs, ask);
      using _late = clock.after(openTimeoutMs, () =>
        giveUp(new TunnelUnavailable("silent", "The database's node did not answer in time.")),
      );
      try {
        const { call, holder } = await promise;
        const stream = bytesOf(call);
        opened.set(stream, holder);
        stream.once("close", () => {
          opened.delete(stream);
          place[Symbol.dispose]();
        });
        const onEnd = () => void stream.destroy(signal.reason);
        signal.addEventListener("abort", onEnd, { once: true });
        stream.once("close", () => signal.removeEventListener("abort", onEnd));
        if (signal.aborted) onEnd();
        signal.throwIfAborted();
        return stream;
      } catch (error) {
        place[Symbol.dispose]();
        throw error;
      } finally {
        waiting.delete(tunnelId);
        signal.removeEventListener("abort", onAbort);
      }
    },

    accept(holder, { tunnelId, refusedBecause }, call) {
      const asked = waiting.get(tunnelId);
      // What another node says about a tunnel of this one is not heard.
      if (asked === undefined || asked.nodeId !== holder.id) {
        throw new LinkError("NOT_FOUND", "this replica did not ask for that tunnel");
      }
      // It says so only once; whoever took it would wait for it for ever.
      if (call.destroyed) throw new LinkError("UNAVAILABLE", "the call ended");
      waiting.delete(tunnelId);
      call.write({});
      if (refusedBecause === "") return asked.settle({ call, holder });
      asked.settle({ refused: clip(stripControl(refusedBecause), limits.errorTextBytesMax) });
      call.end();
      // What still comes must be read for the call to end.
      call.resume();
    },

    holders: () => [...opened.values()],
    endOf({ id, incarnation }, reason) {
      for (const [stream, holder] of opened) {
        if (holder.id === id && holder.incarnation === incarnation) stream.destroy(new Error(reason));
      }
    },
    endAll(reason) {
      for (const { giveUp } of [...waiting.values()]) giveUp(new TunnelUnavailable("stopping", reason));
      for (const stream of opened.keys()) stream.destroy(new Error(reason));
    },
  };
}

/** Passes wishes on to the agents whose streams this replica holds. */
export function forwardTunnels(listen: Listener, roster: Roster): Disposable {
  return listen.on(topic, (payload) => {
    const asked = parseWish(payload);
    if (asked === null) return;
    const { nodeId, epoch, ...wanted } = asked;
    roster.find(nodeId)?.openTunnel?.({ ...wanted, epoch: BigInt(epoch) });
  });
}

/** Null for anything else, also for the empty notification after a reconnection. */
function parseWish(payload: string): z.output<typeof wish> | null {
  try {
    return wish.parse(JSON.parse(payload));
  } catch {
    return null;
  }
}
