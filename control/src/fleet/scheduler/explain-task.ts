// @pure
import type { NodeAxes } from "@svc/proto";
import { type CrashingValue, hasEnded, type ObservationValue } from "../cluster/keys.ts";
import { explainRefusal } from "./placement.ts";

/** What somebody does about a deployment's containers. */
export type Errand =
  /** The keeper keeps what it serves. */
  | "serves"
  | "deploys"
  | "starts"
  | "resumes"
  /** Nobody brings any up: it is stopped, suspended, or over. */
  | "leaves";

/** A task as it stands. */
export interface TaskSituation {
  kind: "serve" | "other";
  errand: Errand;
  /** Null while it waits for one. */
  node: { link: NodeAxes["link"]; since: Date } | null;
  refused: Readonly<Record<string, unknown>> | null;
  crashing: CrashingValue | null;
  said: Pick<ObservationValue, "observed" | "failure"> | null;
  /** It answers, and edges can reach it. */
  serving: boolean;
  retiring: boolean;
  /** Of what has ended and is kept: from when on another one is made in its place; null: at once. */
  nextTryAt: Date | null;
}

/** Why a task waits, is down, is about to go, or keeps other limits than the plan's; null when all is well. */
export function explainTask(task: TaskSituation): string | null {
  if (task.node === null) {
    const { refused } = task;
    const why = refused as Readonly<Record<string, number>>;
    return refused === null ? "No scheduler has looked at it yet." : `No node takes it: ${explainRefusal(why)}.`;
  }
  const parts = [
    whereItIs(task),
    task.crashing && crashText(task.crashing),
    task.refused && `It keeps its limits: ${Object.keys(task.refused).join("; ")}.`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : parts.join(" ");
}

function whereItIs({ kind, errand, node, said, serving, retiring, nextTryAt }: TaskSituation): string | null {
  if (said !== null && hasEnded(said.observed)) {
    if (said.observed === "completed") return null;
    const why = said.failure === null ? "It has ended." : `It has ended: ${said.failure.message}`;
    return kind === "serve" ? `${why} ${whatFollows(errand, nextTryAt)}` : why;
  }
  if (node !== null && node.link !== "connected") {
    const since = `Its node has been ${node.link} since ${node.since.toISOString()}`;
    return errand === "leaves" || kind === "other"
      ? `${since}.`
      : `${since}: when it does not come back, another one is made elsewhere.`;
  }
  if (kind === "other") return null;
  if (retiring) return "Another one has taken its place: it goes once no edge sends visitors to it.";
  if (errand === "leaves") return "It goes once no edge sends visitors to it.";
  return serving ? waitsFor[errand] : null;
}

const waitsFor: Readonly<Record<Exclude<Errand, "leaves">, string | null>> = {
  serves: null,
  deploys: "It answers, and waits for the others, or for the edges to send visitors to it.",
  starts: "It answers, and waits for the others, or for the edges to send visitors to it.",
  resumes: "It answers, and waits until all that the project serves does.",
};

function whatFollows(errand: Errand, nextTryAt: Date | null): string {
  if (errand === "leaves") return "None is made in its place.";
  if (errand !== "serves") return "Where that was its node's doing, another one is made, three for each replica.";
  return nextTryAt === null ? "Another one is made." : `Another one is made at ${nextTryAt.toISOString()}.`;
}

/** What its agent does about it: see `nextCrash` there. */
const crashText = ({ since, count, reason, nextStartAt }: CrashingValue): string =>
  `It ended ${count} ${count === 1 ? "time" : "times"} in a row since ${since}: ${reason} ${
    nextStartAt === null
      ? "After ten in a row it is not started any more."
      : `Started again at ${nextStartAt}: at once the first time, then a second later and twice as long each time, until it has run for a minute.`
  }`;
