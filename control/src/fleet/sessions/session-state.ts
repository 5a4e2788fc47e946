import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import { type NodeSessionValue, nodeSessionValue } from "../cluster/keys.ts";
import { bootTookAt, contestedForMs, isCloned, takeoversAfter } from "./clones/rules.ts";
import type { SessionKey } from "./session-key.ts";

/** Two machines use this identity: neither may speak. */
export class IdentityCloned extends Error {
  override readonly name = "IdentityCloned";
}

/** What the session key of a node says of its stream, kept in step with the stream. */
export interface SessionState {
  /** The value with which the key is taken from whoever has it. @throws IdentityCloned */
  opened(before: string | null): string;
  isMine(value: string): boolean;
  /** How long another machine, if it has this identity, may still need to take the session back. */
  contestedForMs(leaseTtlMs: number): number;
  /** Writes that the inventory was compared with what is desired. */
  reconcile(key: SessionKey): Promise<void>;
  /** Writes that the node is silent, or that it is not any more; once each. */
  noteSilence(key: SessionKey, isSilent: boolean): void;
  /** The value for the time between the end of the stream and the end of the lease. */
  detached(): string;
}

export function createSessionState(
  base: Pick<
    NodeSessionValue,
    "serverId" | "instanceId" | "bootId" | "address" | "capacity" | "platform" | "version" | "labels" | "connectedAt"
  >,
  { clock, log, nodeId }: { clock: Clock; log: Log; nodeId: string },
): SessionState {
  let value: NodeSessionValue = {
    ...base,
    ...{ reconciled: false, suspect: false, detached: false, takeovers: [], bootTookAt: null },
  };
  let silenceUnderWay = false;
  /** As the store has it; null while nobody knows. What could not be written, or may not have been, is tried again. */
  let isKnownSilent: boolean | null = false;
  const write = async (key: SessionKey, change: Partial<NodeSessionValue>): Promise<void> => {
    value = { ...value, ...change };
    const { suspect } = value;
    isKnownSilent = null;
    await key.update(JSON.stringify(value));
    isKnownSilent = suspect;
  };
  return {
    opened(before) {
      const holder = before === null ? null : parse(before);
      const takeovers = takeoversAfter(holder, base, clock.now());
      if (isCloned(takeovers, base)) throw new IdentityCloned("two machines use this identity");
      value = { ...value, takeovers, bootTookAt: bootTookAt(holder, base, clock.now()) };
      return JSON.stringify(value);
    },
    isMine(text) {
      const other = parse(text);
      return (
        other?.serverId === base.serverId &&
        other.instanceId === base.instanceId &&
        other.connectedAt === base.connectedAt
      );
    },
    contestedForMs: (leaseTtlMs) => contestedForMs(value.bootTookAt, leaseTtlMs, clock.now()),
    reconcile: (key) => write(key, { reconciled: true }),
    noteSilence(key, isSilent) {
      if (silenceUnderWay) return;
      value = { ...value, suspect: isSilent };
      if (isSilent === isKnownSilent) return;
      silenceUnderWay = true;
      write(key, {})
        .then(() => log.info({ nodeId, suspect: isSilent }, "node silence"))
        // Whoever may not write any more is superseded, and hears so elsewhere; the rest is tried again at the next look.
        .catch((error: unknown) => log.warn({ err: error, nodeId }, "a node's silence was not recorded"))
        .finally(() => {
          silenceUnderWay = false;
        });
    },
    detached: () => JSON.stringify({ ...value, detached: true } satisfies NodeSessionValue),
  };
}

function parse(text: string): NodeSessionValue | null {
  try {
    return nodeSessionValue.parse(JSON.parse(text));
  } catch {
    return null;
  }
}
