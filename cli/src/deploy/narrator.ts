import { type Deployment, isOpen } from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { formatDuration } from "../format.ts";
import type { Activity } from "../terminal.ts";
import { createLogTail } from "./log-tail.ts";
import { type Phase, phaseOf, phases, waitOf } from "./phases.ts";
import type { Watcher } from "./wait.ts";

/** A turn that comes sooner is not worth a line. */
const waitWorthTellingMs = 1000;

/** Tells a person how a deployment gets on: each phase with its time, and the build log as it grows. */
export function createNarrator(context: Context, api: Api, { id, reuses }: { id: string; reuses: boolean }): Watcher {
  const { terminal } = context;
  // A key may deploy without being allowed to read logs.
  const tail = createLogTail(api, id, terminal.log, (why) => context.warn(`The build log is not shown: ${why}`));
  let phase: Phase | null = null;
  let since = 0;
  let activity: Activity | null = null;

  const leave = (left: Phase, { status }: Deployment, spentMs: number) => {
    const time = formatDuration(spentMs);
    if (status === "failed" || status === "canceled") {
      const how = status === "failed" ? "Failed" : "Canceled";
      const doing = `${left.doing.charAt(0).toLowerCase()}${left.doing.slice(1)}`;
      terminal.step(`${how} while ${doing}, after ${time}`, "failed");
    } else if (left !== phases.queued || spentMs >= waitWorthTellingMs) terminal.step(left.done(time), "done");
  };
  const move = (deployment: Deployment, elapsedMs: number) => {
    const next = phaseOf(deployment, reuses);
    if (next === phase) return;
    activity?.stop();
    // What has to wait is not over, but has not begun.
    if (phase !== null && (waitOf(deployment) !== next || next === null || phase === phases.queued))
      leave(phase, deployment, elapsedMs - since);
    phase = next;
    since = elapsedMs;
    activity = next === null ? null : terminal.activity(next.doing);
  };

  return {
    async see(deployment, elapsedMs) {
      const builds = deployment.status === "building";
      // What the log holds by now was written before the new phase, unless that is the one which writes it.
      if (!builds) await tail.read();
      if (!isOpen(deployment.status)) tail.flush();
      move(deployment, elapsedMs);
      if (builds) await tail.read();
    },
    close: () => activity?.stop(),
  };
}
