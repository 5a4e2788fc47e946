// @pure
import { failureMessage } from "@svc/proto";
import type { DatabaseSpec } from "@svc/proto/node";
import { entryFailure, isWorthAnotherStart } from "../../databases/exit.ts";
import { nextCrash, type Pace } from "../crash.ts";
import { nameOfExit, parseTime } from "../end.ts";
import type { Step, View } from "../view.ts";
import { nextContainerStep } from "./container.ts";
import type { PlacementKind } from "./kind.ts";

/** The first start makes the data, on a disk that others use too. */
const answerMs = 120_000;
/** What restoring a copy may take: an hour, and a second for each MiB that there may be of it and of its log. */
const restoreMs = (sizeMb: number): number => 3_600_000 + sizeMb * 1_000;
/** To end its sessions and to write what is only in memory. */
const stopGraceSeconds = 60;
/**
 * Nobody else has its data, and what ends it is mostly over by itself: a disk that was full, a query that took all memory. So
 * one that has served is started until it serves again, and soon.
 */
const pace: Pace = { delayMsMax: 5_000, crashesMax: Number.POSITIVE_INFINITY };

/** The server of a managed database. What it keeps stays on the node, whatever becomes of the placement. */
export const database: PlacementKind<DatabaseSpec> = {
  container: ({ image }) => ({
    image,
    mayBeLocal: true,
    command: [],
    env: {},
    databaseId: "",
    port: 0,
    stopGraceSeconds,
  }),
  isVisited: true,
  // While the machine was off, its data may have been given to another server.
  rebootsWith: "grant",
  next: nextDatabaseStep,
  healthTimeoutMs: ({ restore, sizeMb }) => answerMs + (restore === undefined ? 0 : restoreMs(sizeMb)),
  images: ({ image }) => (image === undefined ? [] : [image.reference]),
  redact: ({ adminVerifier }) => (adminVerifier === "" ? [] : [adminVerifier]),
};

function nextDatabaseStep(view: View): Step {
  const step =
    afterRefusal(view) ??
    nextContainerStep(
      view,
      ({ memory, healthTimeoutMs }, startedMs) =>
        memory.wasHealthy
          ? { do: "watch-database" }
          : { do: "prove-database", startedMs, untilMs: startedMs + healthTimeoutMs },
      pace,
    );
  if (step.do === "create") return { do: "create-database" };
  return step.do === "start" ? { do: "start-database" } : step;
}

/** After an end that the entry point of the image chose, so that there was no server at all; null after any other. */
export function afterRefusal({ container, memory, nowMs }: View): Step | null {
  if (container?.state !== "exited") return null;
  const code = entryFailure(container.exitCode);
  if (code === null) return null;
  const end = { code, message: failureMessage(code), exitCode: container.exitCode, oomKilled: false };
  if (!isWorthAnotherStart(code)) return { do: "fail", ...end };
  const exit = nameOfExit(container);
  // Counted before, and the wait is over.
  if (memory.countedExit === exit) return { do: "start" };
  const crash = nextCrash(memory.crashes, 0, exit);
  if (crash === null) return { do: "fail", ...end };
  const sinceMs = Math.max(0, nowMs - parseTime(container.finishedAt, nowMs));
  return { do: "count-crash", crash: { ...crash, delayMs: Math.max(0, crash.delayMs - sinceMs) }, ...end };
}
