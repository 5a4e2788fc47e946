import { type NodeBlocker, type NodeDetail, plural } from "@svc/proto";

/** How long what is left may wait for a person before nobody waits with it. */
export const stuckMsMax = 60_000;

/** What a look at a machine that is being emptied says: it goes on, or how it ended. */
export type DrainVerdict =
  | { over: false; text: string }
  | { over: true; how: "drained" }
  /** Time is up, or what is left will not go by itself; the drain itself goes on. */
  | { over: true; how: "deadline" | "blocked"; text: string }
  /** Somebody cancelled it, fenced the machine, or removed it. */
  | { over: true; how: "ended"; text: string };

type Look = Pick<NodeDetail, "name" | "status" | "drain" | "edge">;

/** Whether all that moves, or is to move next, waits for a person: what waits for its turn waits for that. */
export function isStuck({ drain }: Look): boolean {
  const next = drain.blockers.filter(({ waitsFor }) => waitsFor !== "turn");
  return next.length > 0 && next.every(({ code }) => code !== null);
}

/**
 * `stuckMs`: for how long it has been stuck. `wasLate`: its time was up before anybody looked, so that is no news and
 * no end.
 */
export function judgeDrain(node: Look, { stuckMs, wasLate }: { stuckMs: number; wasLate: boolean }): DrainVerdict {
  const { name, status, drain } = node;
  if (status === "fenced" || status === "removed")
    return { over: true, how: "ended", text: `${name} was ${status} meanwhile` };
  if (drain.state === "none") return { over: true, how: "ended", text: `The drain of ${name} was cancelled meanwhile` };
  if (drain.state === "drained") return { over: true, how: "drained" };
  const left = `${plural(drain.remaining, "thing")} left`;
  const isLate = drain.state === "deadline";
  if (isLate && !wasLate) return { over: true, how: "deadline", text: `Time is up, and ${name} has ${left}` };
  if (isStuck(node) && stuckMs >= stuckMsMax)
    return { over: true, how: "blocked", text: `${name} has ${left}, and waits for somebody to help` };
  return {
    over: false,
    text: `Draining ${name}${isLate ? " past its deadline" : ""}: ${edgeText(node) ?? `${left}${waitsFor(drain.blockers)}`}`,
  };
}

/** An edge holds nothing that could be left: it waits for its visitors. Null for nodes. */
function edgeText({ edge }: Look): string | null {
  if (edge == null) return null;
  switch (edge.phase) {
    case "leaving":
      return "its health tells visitors to go elsewhere";
    case "closing":
      return "its connections are being closed";
    default:
      return "it is being told";
  }
}

const words: Readonly<Record<NodeBlocker["waitsFor"], string>> = {
  turn: "waiting for their turn",
  node: "looking for a node",
  start: "starting elsewhere",
  edges: "waiting for edges",
  requests: "ending requests",
  build: "building",
  release: "running a command",
  job: "running a job",
  deploy: "being deployed",
  stop: "stopping",
  move: "waiting to be moved by somebody",
  fence: "on a machine that does not answer",
};

/** ", 3 starting elsewhere, 1 building": the most first. */
function waitsFor(blockers: readonly NodeBlocker[]): string {
  const counts = new Map<NodeBlocker["waitsFor"], number>();
  for (const { waitsFor } of blockers) counts.set(waitsFor, (counts.get(waitsFor) ?? 0) + 1);
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .map(([kind, count]) => `, ${count} ${words[kind]}`)
    .join("");
}

/** One thing that is left, and why, on one line. */
export function blockerText({ kind, project, channel, prNumber, replica, why }: NodeBlocker): string {
  const where = `${channel}${prNumber === null ? "" : ` of pull request ${prNumber}`}`;
  const what = kind === "build" ? ", build" : kind === "release" ? ", release command" : `, replica ${replica ?? 0}`;
  return `${project} (${where}${what}): ${why}`;
}
