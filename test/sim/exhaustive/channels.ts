import { type Bridge, proxyEntries } from "@svc/agent/databases/table";
import { type ReachableBranch, tableOf } from "@svc/control/fleet/database-tables/table";
import { branchOf } from "@svc/control/fleet/databases/ready";
import type { Branch } from "@svc/control/stores/db/tables";
import { createCancelKeys } from "@svc/dbproxy/sessions/cancel-keys";
import { admitLogin } from "@svc/dbproxy/table/admission";
import { findEntry, indexTable } from "@svc/dbproxy/table/lookup";
import { type Channel, channels, databaseNames } from "@svc/proto";
import type { Model } from "./explore.ts";

/**
 * Containers of two projects on one machine, each channel with a bridge of its own: which branch they are told the password of, which one the
 * proxy lets them in to, whatever they say, and whose query they can cancel. Real `branchOf`, `tableOf`, `proxyEntries`, `findEntry` and
 * cancel keys. Branches come and go; servers count their processes each by itself, so that sessions have equal keys.
 */
interface State {
  /** Of each place, whether it has a branch that is ready. */
  has: readonly boolean[];
  /** Places whose container has a session, in the order of their beginnings, and whether it is over. */
  sessions: readonly { at: number; isOver: boolean }[];
}

export type ChannelMutant = "cancels by the key alone" | "falls back to another channel" | "lets in by the user alone";

const projects = ["p", "q"] as const;
const places = projects.flatMap((projectId) =>
  channels.map((channel, at) => ({
    ...{ projectId, channel, bridge: `10.${projectId === "p" ? 1 : 2}.${at}.1` },
    id: `${projectId === "p" ? "1" : "2"}${at}000000-0000-4000-8000-000000000000`,
  })),
);
type Place = (typeof places)[number];
const key = { pid: 42, secret: "0badcafe" };
const sessionsMax = 3;

export function channelsOf(mutant: ChannelMutant | null): Model<State> {
  const found = (has: readonly boolean[]): Place[] => places.filter((_, at) => has[at]);

  /** Whose password a container of that place is told; null: nobody's. */
  function told(has: readonly boolean[], { projectId, channel }: Place): string | null {
    const branches = found(has).map(
      (place): Pick<Branch, "id" | "project_id" | "channel"> => ({
        ...{ id: place.id, project_id: place.projectId, channel: place.channel },
      }),
    ) as Branch[];
    const asked: { project_id: string; channel: Channel } = { project_id: projectId, channel };
    const own = branchOf(branches, asked);
    const other =
      mutant === "falls back to another channel" ? branchOf(branches, { ...asked, channel: "production" }) : null;
    return (own ?? other)?.id ?? null;
  }

  const indices = new Map<string, ReturnType<typeof indexTable>>();
  function indexOf(has: readonly boolean[]) {
    const name = String(has);
    const known = indices.get(name);
    if (known !== undefined) return known;
    const branches = found(has).map(
      ({ id, projectId, channel }): ReachableBranch => ({
        ...{
          id,
          projectId,
          channel,
          engine: "postgres",
          status: "ready",
          isOff: false,
          nodeId: "n",
          connectionLimit: 9,
        },
        ...{ readOnly: false, isHeld: false, copies: [] },
        server: { epoch: 1, readOnly: false, at: { nodeId: "n", address: "10.0.0.1" } },
      }),
    );
    const bridges: Bridge[] = places.map(({ projectId, channel, bridge }) => ({ projectId, channel, address: bridge }));
    const here = { nodeId: "n", peerPort: 1, bridges, socketOf: () => "/socket", doorOf: () => "/door" };
    const entries = proxyEntries(tableOf(branches), here);
    const all = bridges.map(({ address }) => address);
    const open =
      mutant === "lets in by the user alone" ? entries.map((entry) => ({ ...entry, bridges: all })) : entries;
    const index = indexTable({ generation: "1", entries: open });
    indices.set(name, index);
    return index;
  }

  /** What a container gets to that says it is the tenant of `other`; null: nothing. */
  function reached(has: readonly boolean[], own: Place, other: Place): string | null {
    const { role, database } = databaseNames(other.id);
    const entry = findEntry(indexOf(has), { engine: "postgres", bridge: own.bridge, user: role, database });
    return typeof entry === "object" && admitLogin(entry) === "pass" ? entry.databaseId : null;
  }

  /** Whose query a cancel reaches that comes in by each bridge, after all that was. */
  function cancelled(sessions: State["sessions"]): (string | null)[] {
    const keys = createCancelKeys();
    const bridgeOf = ({ bridge }: Place) => (mutant === "cancels by the key alone" ? "" : bridge);
    const forgets = sessions.map(({ at }) => {
      const place = places[at];
      return place === undefined ? () => {} : keys.keep(bridgeOf(place), key, place.id);
    });
    for (const [at, { isOver }] of sessions.entries()) if (isOver) forgets[at]?.();
    return places.map((place) => keys.find(bridgeOf(place), key));
  }

  return {
    initial: { has: places.map(() => false), sessions: [] },
    *next({ has, sessions }) {
      for (const [at, place] of places.entries()) {
        if (sessions.length === 0)
          yield [`a branch of ${place.projectId} ${place.channel}`, { has: has.with(at, !has[at]), sessions }];
        // One server gives no two sessions that are there the same key.
        const isIn = sessions.some((session) => session.at === at && !session.isOver);
        if (has[at] && !isIn && sessions.length < sessionsMax)
          yield [
            `a session of ${place.projectId} ${place.channel}`,
            { has, sessions: [...sessions, { at, isOver: false }] },
          ];
      }
      for (const [at, session] of sessions.entries())
        if (!session.isOver)
          yield [`session ${at} ends`, { has, sessions: sessions.with(at, { ...session, isOver: true }) }];
    },
    key: (state) => JSON.stringify(state),
    problem({ has, sessions }) {
      const ends = cancelled(sessions);
      for (const [at, own] of places.entries()) {
        const secret = told(has, own);
        if (secret !== null && secret !== own.id) return "a container is told another channel's password";
        if (places.some((other) => reached(has, own, other) !== (other === own && has[at] ? own.id : null)))
          return "a container gets in to another channel's database, or not to its own";
        const isOpen = sessions.some((session) => session.at === at && !session.isOver);
        if (ends[at] !== null && (ends[at] !== own.id || !isOpen)) return "a cancel ends another channel's query";
        if (ends[at] === null && isOpen) return "a cancel that reaches nobody";
      }
      return null;
    },
  };
}
