import { type NodeBlocker, type NodeDetail, nodeReply } from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { poll, pollDelay } from "../poll.ts";
import { blockerText, isStuck, judgeDrain } from "./judge.ts";

/** Blockers named in an error; the rest is counted by `svc admin nodes show`. */
const blockersTold = 10;

/**
 * Looks on until the machine is empty. Fails when time is up or somebody has to help; the drain itself goes on. `drain`
 * as it was before: one whose time was up by then is looked at until it is stuck.
 */
export async function watchDrain(
  context: Context,
  api: Api,
  { id, name, drain }: { id: string; name: string; drain: { state: string } },
): Promise<NodeDetail> {
  context.onInterrupt(
    `The drain goes on without you. See it with \`svc admin nodes show ${name}\`, end it with \`svc admin nodes cancel-drain ${name}\``,
  );
  const startedAtMs = context.clock.steadyMs();
  const activity = context.terminal.activity(`Draining ${name}`);
  let stuckSinceMs: number | null = null;
  let told = "";
  const named = new Set<string>();
  const wasLate = drain.state === "deadline";
  try {
    return await poll(context, async () => {
      const { node } = await api.get(`/admin/nodes/${id}`, nodeReply);
      const nowMs = context.clock.steadyMs();
      stuckSinceMs = isStuck(node) ? (stuckSinceMs ?? nowMs) : null;
      const verdict = judgeDrain(node, { stuckMs: stuckSinceMs === null ? 0 : nowMs - stuckSinceMs, wasLate });
      if (verdict.over) {
        if (verdict.how === "drained") return { done: node };
        throw ended(node, verdict.text, verdict.how !== "ended");
      }
      activity.update(verdict.text);
      for (const blocker of node.drain.blockers) {
        const key = blockerKey(blocker);
        if (blocker.code === null || named.has(key)) continue;
        named.add(key);
        context.terminal.step(blockerText(blocker));
      }
      // Where no line changes, each news is a line of its own.
      if (!context.terminal.animated && verdict.text !== told) context.terminal.step(verdict.text);
      told = verdict.text;
      return { delayMs: pollDelay(nowMs - startedAtMs) };
    });
  } finally {
    activity.stop();
  }
}

/** The same as long as the same thing is kept by the same obstacle, whatever the numbers in its sentence. */
const blockerKey = ({ kind, project, channel, prNumber, replica, code }: NodeBlocker): string =>
  JSON.stringify([kind, project, channel, prNumber, replica, code]);

function ended({ name, drain }: NodeDetail, text: string, goesOn: boolean): CliError {
  const blockers = drain.blockers.slice(0, blockersTold).map((blocker) => `  ${blockerText(blocker)}`);
  const hint = goesOn
    ? `The drain goes on. Help with what is named and see it with \`svc admin nodes show ${name}\`, or end it with \`svc admin nodes cancel-drain ${name}\``
    : `See how it is with \`svc admin nodes show ${name}\``;
  return new CliError("CLOUD_REQUEST_FAILED", [text, ...(goesOn ? blockers : [])].join("\n"), { hint });
}
