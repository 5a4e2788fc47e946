import { keys, prefix } from "@svc/control/fleet/cluster/keys";
import type { Guard } from "@svc/control/stores/etcd/txn";
import type { Txn, Writer } from "./etcd.ts";

type Asked = Omit<Txn, "writer">;

/** The daemon whose session a key is: `/svc/nodes/<id>/session` and `/svc/edges/<id>/session`. */
function daemonOf(key: string): string | null {
  const [, , , id, part] = key.split("/");
  return part === "session" && (key.startsWith(prefix.nodes) || key.startsWith(prefix.edges)) ? (id ?? null) : null;
}

/** Whose reports are under a key. */
function reporterOf(key: string): string | null {
  const isReport = key.startsWith(prefix.observations) || (key.startsWith(prefix.edges) && key.endsWith("/applied"));
  return isReport ? (key.split("/")[3] ?? null) : null;
}

const keyOf = (op: Asked["ops"][number]): string | null =>
  "put" in op ? op.put.key : "delete" in op ? op.delete.key : null;

/** Says for the checks who writes, by what one life of a replica asks of etcd: the product tells nobody. */
export class Writers {
  private readonly serverId: string;
  /** The newest session of a daemon that this replica has taken: the revision at which it did. */
  private readonly sessionOf: (serverId: string, daemonId: string) => bigint;
  private named: Writer | null = null;

  constructor(serverId: string, sessionOf: (serverId: string, daemonId: string) => bigint) {
    this.serverId = serverId;
    this.sessionOf = sessionOf;
  }

  /** While `begin` asks, it is `writer` who does. */
  as<T>(writer: Writer, begin: () => T): T {
    this.named = writer;
    try {
      return begin();
    } finally {
      this.named = null;
    }
  }

  readonly of = ({ guards, ops, orElse = [] }: Asked): Writer => {
    if (this.named !== null) return this.named;
    const { serverId } = this;
    const isRead = (key: string): boolean => orElse.some((op) => "get" in op && op.get.key === key);
    for (const guard of guards) {
      if (guard.key === keys.leader && guard.compare === "createRevision")
        return { by: "leader", serverId, epoch: guard.value };
    }
    // Whoever takes a session has no use for who else has: it tries again.
    const guarded = guards.find((guard: Guard) => daemonOf(guard.key) !== null && isRead(guard.key));
    const reporter = ops.map((op) => reporterOf(keyOf(op) ?? "")).find((id) => id !== null);
    const taken = ops.find((op) => "put" in op && daemonOf(op.put.key) !== null);
    const daemonId = guarded === undefined ? (taken === undefined ? reporter : null) : daemonOf(guarded.key);
    if (daemonId == null) return { by: taken === undefined ? "worker" : "server", serverId };
    return { by: "session", serverId, daemonId, epoch: this.sessionOf(serverId, daemonId) };
  };
}
