import type { MessageInitShape } from "@bufbuild/protobuf";
import type { OpenTunnelSchema } from "@svc/proto/node";
import type { Change } from "../../stores/etcd/index.ts";
import type { SessionClaim } from "../cluster/entries.ts";
import { keyParts } from "../cluster/keys.ts";
import type { Peer } from "./peer.ts";
import type { SessionKey } from "./session-key.ts";
import type { Ending } from "./stream.ts";

/** What a node is asked to open. */
export type TunnelWish = MessageInitShape<typeof OpenTunnelSchema>;

/** A daemon whose stream this replica holds. */
export interface LiveSession {
  identity: Peer;
  key: SessionKey;
  /** Whether a value of the session key is one that this stream wrote. */
  isMine(value: string): boolean;
  close(ending: Ending): void;
  readonly renewedAtMs: number | null;
  /** Looks after a stream that is stuck or silent; called about once a second. */
  check(nowMs: number): void;
  /** Asks for a container's last lines; null for routers, which have none. */
  queryLog: ((query: { requestId: string; placementId: string; lines: number }) => void) | null;
  /** Asks for a tunnel to a database of the node, or to a copy that it has; null for routers, which have none. */
  openTunnel: ((wish: TunnelWish) => void) | null;
  /** Tells that projects are gone; null for routers, which see that in the table. */
  tidy: (() => void) | null;
  /** Asks for a renewal of the certificate before its time. */
  askToRenew(): void;
}

/** The sessions of this replica by daemon id. */
export interface Roster {
  /** Puts a session in, and ends an older one of the same daemon. Disposing takes out this one only. */
  enter(session: LiveSession): Disposable;
  find(id: string): LiveSession | undefined;
  all(): IterableIterator<LiveSession>;
  readonly size: number;
}

export function createRoster(): Roster {
  const sessions = new Map<string, LiveSession>();
  return {
    enter(session) {
      const { id } = session.identity;
      sessions.get(id)?.close({ why: "superseded" });
      sessions.set(id, session);
      return {
        [Symbol.dispose]: () => {
          if (sessions.get(id) === session) sessions.delete(id);
        },
      };
    },
    find: (id) => sessions.get(id),
    all: () => sessions.values(),
    get size() {
      return sessions.size;
    },
  };
}

/** Ends the sessions of this replica whose key another stream took, or somebody deleted. */
export function endLostSessions(
  roster: Roster,
  under: string,
  changes: readonly Change<SessionClaim>[],
  revision: bigint,
): void {
  for (const change of changes) {
    const [id = "", part] = keyParts(change.key, under);
    const session = roster.find(id);
    if (part !== "session" || session === undefined) continue;
    if (change.type === "put") {
      const { value, modRevision } = change.value;
      if (modRevision > session.key.epoch && !session.isMine(value)) session.close({ why: "superseded" });
    } else if (
      revision > session.key.epoch &&
      !changes.some((later) => later.key === change.key && later.type === "put")
    ) {
      session.close({ why: "go away", reconnectAfterMs: 0, reason: "the session key was deleted" });
    }
  }
}
