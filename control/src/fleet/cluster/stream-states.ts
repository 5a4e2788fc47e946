import type { Change } from "../../stores/etcd/index.ts";
import type { EdgeEntry, NodeEntry } from "./entries.ts";
import { keyParts, keys, prefix } from "./keys.ts";
import { type SeenStream, type StreamState, seenStream, streamedSession, streamState } from "./node-links.ts";
import type { ClusterViews } from "./views.ts";

/** How each daemon's stream is, and since when: kept here because nobody writes that anywhere. */
export interface StreamStates extends Disposable {
  /** When this replica began to watch: nothing is known to be older. */
  lookingSince: Date;
  of(daemonId: string): SeenStream;
}

/** The most that a timer takes. */
const longestWaitMs = 2 ** 31 - 1;

/** What cannot be read tells nothing of a stream: it is as if the key were not there. */
const isRead = (entry: NodeEntry | EdgeEntry): boolean =>
  entry.session !== null || ("applied" in entry && entry.applied !== null);

/** Notes each change of a stream with the time by `now`; what the first snapshots say was so when it began to watch. */
export function followStreams(
  { servers, nodes, edges }: Pick<ClusterViews, "servers" | "nodes" | "edges">,
  now: () => Date,
): StreamStates {
  const lookingSince = now();
  const streams = new Map<string, SeenStream>();
  const stateOf = (id: string): StreamState => {
    const session = streamedSession(nodes.get(keys.nodeSession(id))?.session, edges.get(keys.edgeSession(id))?.session);
    return streamState(session, session !== null && servers.get(keys.server(session.serverId)) !== undefined);
  };
  let hasLooked = false;
  void Promise.all([servers, nodes, edges].map((view) => view.ready(longestWaitMs))).then(
    () => {
      hasLooked = true;
    },
    // Closed before.
    () => {},
  );
  const note = (key: string, under: string): void => {
    const [id = ""] = keyParts(key, under);
    streams.set(id, seenStream(streams.get(id), stateOf(id), hasLooked ? now() : lookingSince));
  };
  const noteChanges = (changes: readonly Change<NodeEntry | EdgeEntry>[], under: string): void => {
    for (const change of changes) {
      const { previous } = change;
      const isNews = (change.type === "put" && isRead(change.value)) || (previous !== undefined && isRead(previous));
      if (isNews) note(change.key, under);
    }
  };
  const noteAll = (): void => {
    for (const [key, entry] of nodes.entries()) if (isRead(entry)) note(key, prefix.nodes);
    for (const [key, entry] of edges.entries()) if (isRead(entry)) note(key, prefix.edges);
  };
  noteAll();
  const following = [
    nodes.subscribe((changes) => noteChanges(changes, prefix.nodes)),
    edges.subscribe((changes) => noteChanges(changes, prefix.edges)),
    servers.subscribe(noteAll),
  ];
  return {
    lookingSince,
    of: (id) => streams.get(id) ?? { state: stateOf(id), since: lookingSince },
    [Symbol.dispose]() {
      for (const each of following) each[Symbol.dispose]();
    },
  };
}
