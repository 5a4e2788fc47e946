import { isCloned, takeoversAfter } from "@svc/control/fleet/sessions/clones/rules";
import { defaultTimings } from "@svc/control/fleet/sessions/timings";
import type { Work } from "../../kernel/kernel.ts";
import type { SessionValue } from "../fleet.ts";
import type { Replica } from "../replica.ts";
import type { SessionKey } from "./session-key.ts";

/** How many renewals may stay away before a node gets nothing new. */
const suspectAfterRenewals = 1.5;

/** Two machines use this identity. */
export class IdentityCloned extends Error {
  override readonly name = "IdentityCloned";
}

/** What the session key of a node says of its stream: mirrors `control/src/fleet/sessions/session-state.ts`. */
interface SessionState {
  /** The value with which the key is taken from whoever has it. @throws IdentityCloned */
  opened(before: string | null): string;
  isMine(value: SessionValue): boolean;
  /** Writes that the inventory was compared with what is desired. */
  reconcile(key: SessionKey): Work;
  /** Writes that the node is silent, or that it is not any more; once each. */
  noteSilence(key: SessionKey, silentMs: number): void;
  /** The value for the time between the end of the stream and the end of the lease. */
  detached(): string;
}

export function createSessionState(
  replica: Replica,
  base: Pick<SessionValue, "serverId" | "instanceId" | "bootId" | "memoryMb" | "connectedAt">,
): SessionState {
  const { process, scope, world } = replica;
  let value: SessionValue = { ...base, reconciled: false, suspect: false, detached: false, takeovers: [] };
  let isNotingSilence = false;
  /** As the store has it; null while nobody knows. */
  let isKnownSilent: boolean | null = false;
  const text = (change: Partial<SessionValue>) => {
    value = { ...value, ...change };
    return world.values.textOf(value);
  };
  /** Whatever is written tells of the silence as well: what the store has is known after each write. */
  const write = function* (key: SessionKey, change: Partial<SessionValue>): Work {
    const told = text(change);
    const { suspect } = value;
    isKnownSilent = null;
    yield* key.update(told);
    isKnownSilent = suspect;
  };
  return {
    opened(before) {
      const holder = before === null ? null : world.values.of<SessionValue>(before);
      const takeovers = takeoversAfter(holder, base, process.now());
      if (isCloned(takeovers, base)) throw new IdentityCloned();
      return text({ takeovers });
    },
    isMine: (other) =>
      other.serverId === base.serverId &&
      other.instanceId === base.instanceId &&
      other.connectedAt === base.connectedAt,
    reconcile: (key) => write(key, { reconciled: true }),
    noteSilence(key, silentMs) {
      const isSilent = silentMs >= defaultTimings.renewEveryMs * suspectAfterRenewals;
      if (isNotingSilence) return;
      value = { ...value, suspect: isSilent };
      if (isSilent === isKnownSilent) return;
      isNotingSilence = true;
      const over = () => {
        isNotingSilence = false;
      };
      scope.spawn(write(key, {}), over, over);
    },
    detached: () => world.values.textOf({ ...value, detached: true }),
  };
}
