// @pure
import { limits } from "@svc/proto";
import type { OneShot } from "../../../fleet/tasks/one-shot.ts";

/** What a node said of the picture that it pushed. */
export interface CaptureFile {
  digest: string;
  sizeBytes: number;
}

/** The task that takes a picture. */
interface CaptureTaskFacts extends OneShot {
  /** Null before it is completed. */
  file: CaptureFile | null;
}

/** Everything that decides what is next for a screenshot. */
export interface ScreenshotFacts {
  /** A capture is asked for and not over. */
  pending: boolean;
  /** Tries of it that came to nothing. */
  failures: number;
  /** Since it was asked for, by the database's clock. */
  ageMs: number;
  /** Its deployment is what visitors of a channel see that has pictures. */
  live: boolean;
  /** Of its owner's sites as many are captured as may be at once. */
  crowded: boolean;
  /** Where it is to be seen, and what takes the picture; null: nowhere, or nothing does. */
  site: { image: string; url: string; edge: string } | null;
  /** The newest; null before there was one. */
  task: CaptureTaskFacts | null;
}

export type ScreenshotStep =
  | { do: "startTask"; site: NonNullable<ScreenshotFacts["site"]> }
  /** Look in the registry for what the node says that it pushed; if it is there, it is the picture from now on. */
  | { do: "accept"; taskId: string; file: CaptureFile }
  /** It came to nothing; another try may follow. */
  | { do: "countFailure"; taskId: string; reason: string }
  | { do: "giveUp"; reason: string }
  | { do: "removeTask"; taskId: string }
  | { do: "wait"; for: string }
  | { do: "end" };

/** A site that shows nothing now may do so in a moment, and then it is left alone until somebody asks again. */
const triesMax = 3;
/** Between tries, counted from when it was asked for. */
const pauseMs = 45_000;
/** Whoever asks after that asks for another. */
const stuckMs = limits.screenshotCooldownSeconds * 1000;

/**
 * The next thing to do for a screenshot. Each step may be repeated, and what it writes is written only while the capture is
 * still asked for. That it fails is told to operators and to nobody else: what there was stays.
 */
export function nextScreenshotStep(facts: ScreenshotFacts): ScreenshotStep {
  const { failures, ageMs } = facts;
  const task = facts.task?.wanted ? facts.task : null;
  if (!facts.pending) return task === null ? { do: "end" } : { do: "removeTask", taskId: task.taskId };
  if (!facts.live) return { do: "giveUp", reason: "The deployment is not live any more." };
  if (ageMs >= stuckMs) return { do: "giveUp", reason: "No machine has taken a picture in time." };
  if (task === null) {
    if (failures >= triesMax) return { do: "giveUp", reason: `It came to nothing ${triesMax} times.` };
    if (ageMs < failures * pauseMs) return { do: "wait", for: "the next try" };
    if (facts.crowded) return { do: "wait", for: "the owner's others" };
    return facts.site === null ? { do: "wait", for: "an edge" } : { do: "startTask", site: facts.site };
  }
  if (task.file !== null) return { do: "accept", taskId: task.taskId, file: task.file };
  if (task.state === "waiting" || task.state === "running") return { do: "wait", for: "the node to be done" };
  const reason = task.problem ?? "Nobody knows what the machine has made.";
  return { do: "countFailure", taskId: task.taskId, reason };
}
