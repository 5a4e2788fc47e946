import type { Visit } from "./line.ts";

/** What one project's channel got within one hour. */
export interface Count {
  projectId: string;
  channel: string;
  /** Since 1970, UTC. */
  hour: number;
  requests: number;
  bytesIn: number;
  bytesOut: number;
  status2xx: number;
  status3xx: number;
  status4xx: number;
  status5xx: number;
  /** The project was suspended: of no account for its owner's quota. */
  unmetered: boolean;
}

type Site = Pick<Count, "projectId" | "channel" | "unmetered">;

/** Counts by project, channel and hour, and by whether they are metered. */
export type Counts = Map<string, Count>;

const keyOf = ({ projectId, channel, hour, unmetered }: Site & Pick<Count, "hour">): string =>
  `${hour} ${channel} ${projectId} ${unmetered}`;

/** Adds a request for the site to `counts`. */
export function addVisit(counts: Counts, site: Site, visit: Omit<Visit, "method" | "said" | "seconds">): void {
  const { projectId, channel, unmetered } = site;
  const { hour, status, bytesIn, bytesOut } = visit;
  addCount(counts, {
    ...{ projectId, channel, hour, bytesIn, bytesOut, unmetered },
    requests: 1,
    status2xx: Number(status >= 200 && status < 300),
    status3xx: Number(status >= 300 && status < 400),
    status4xx: Number(status >= 400 && status < 500),
    status5xx: Number(status >= 500 && status < 600),
  });
}

/** Adds `more` to `counts`; it becomes part of them. */
export function addCount(counts: Counts, more: Count): void {
  const key = keyOf(more);
  const known = counts.get(key);
  if (known === undefined) {
    counts.set(key, more);
    return;
  }
  known.requests += more.requests;
  known.bytesIn += more.bytesIn;
  known.bytesOut += more.bytesOut;
  known.status2xx += more.status2xx;
  known.status3xx += more.status3xx;
  known.status4xx += more.status4xx;
  known.status5xx += more.status5xx;
}
