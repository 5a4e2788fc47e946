import type { Etcd } from "../../stores/etcd/index.ts";
import type { Fleet } from "./fleet.ts";
import { edgeSessionValue, keys, nodeSessionValue } from "./keys.ts";
import { nodeLink, type StreamedSession, streamedSession, streamState } from "./node-links.ts";

/**
 * The link of a daemon by etcd itself at this moment: whoever gives a machine up for good asks here, since a replica's view may stand
 * still for seconds without its noticing. For how long a daemon without a session is away only the view knows.
 */
export async function readLink(
  etcd: Etcd,
  fleet: Pick<Fleet, "nodeLink" | "now">,
  id: string,
): Promise<ReturnType<Fleet["nodeLink"]>> {
  const [node, edge] = await Promise.all([
    read(etcd, keys.nodeSession(id), nodeSessionValue),
    read(etcd, keys.edgeSession(id), edgeSessionValue),
  ]);
  const session: StreamedSession | null = streamedSession(node, edge);
  const isAlive = session !== null && (await etcd.get(keys.server(session.serverId))) !== null;
  const state = streamState(session, isAlive);
  const now = fleet.now();
  return state === "absent" || state === "orphaned" ? fleet.nodeLink(id) : nodeLink(state, now, now);
}

/** Null also of what another version of control has written in a shape of its own. */
async function read<T>(
  etcd: Etcd,
  key: string,
  schema: { safeParse(value: unknown): { success: true; data: T } | { success: false } },
): Promise<T | null> {
  const entry = await etcd.get(key);
  const parsed = entry === null ? null : schema.safeParse(JSON.parse(entry.value));
  return parsed?.success === true ? parsed.data : null;
}
