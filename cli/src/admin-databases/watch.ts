import { adminDatabaseReply, type DatabaseChange } from "@svc/proto";
import type { Api } from "../api.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { formatDuration } from "../format.ts";
import { poll, pollDelay } from "../poll.ts";

/** What each state means to whoever looks on. */
const doing: Readonly<Record<DatabaseChange["state"], string>> = {
  copying: "copying it while it serves",
  freezing: "keeping everybody out",
  draining: "waiting for the copy to have everything",
  stopping: "ending its server",
  restoring: "bringing its server up over the copy",
  done: "done",
  failed: "failed",
};

/** Looks on until the change is over. Fails when that came to nothing. */
export async function watchChange(
  context: Context,
  api: Api,
  { databaseId, changeId, name }: { databaseId: string; changeId: string; name: string },
): Promise<DatabaseChange> {
  context.onInterrupt(
    `It goes on without you. See it with \`svc admin db show ${name}\`, end it with \`svc admin db cancel ${name}\``,
  );
  const startedAtMs = context.clock.steadyMs();
  const activity = context.terminal.activity(name);
  let told = "";
  try {
    return await poll(context, async () => {
      const { database } = await api.get(`/admin/databases/${databaseId}`, adminDatabaseReply);
      const change = database.changes.find(({ id }) => id === changeId);
      if (change === undefined) throw new CliError("CLOUD_NOT_FOUND", `Nobody knows any more what became of ${name}`);
      const elapsedMs = context.clock.steadyMs() - startedAtMs;
      if (change.state === "done") return { done: change };
      if (change.state === "failed")
        throw new CliError("CLOUD_REQUEST_FAILED", `The ${change.kind} of ${name} failed: ${change.problem}`, {
          hint: `See how it is with \`svc admin db show ${name}\``,
        });
      const text = `${name}: ${doing[change.state]}`;
      activity.update(text);
      if (!context.terminal.animated && text !== told) context.terminal.step(`${text} (${formatDuration(elapsedMs)})`);
      told = text;
      return { delayMs: pollDelay(elapsedMs) };
    });
  } finally {
    activity.stop();
  }
}

/** Control says within five minutes why one does not come up, unless its machine is away or its project off the air. */
const readyMsMax = 600_000;

/** Looks on until the database is ready. Fails when it cannot be brought up, or not within ten minutes. */
export async function watchReady(
  context: Context,
  api: Api,
  { databaseId, name }: { databaseId: string; name: string },
): Promise<void> {
  context.onInterrupt(`It goes on without you. See it with \`svc admin db show ${name}\``);
  const startedAtMs = context.clock.steadyMs();
  const activity = context.terminal.activity(`${name}: bringing its server up`);
  try {
    await poll(context, async () => {
      const { database } = await api.get(`/admin/databases/${databaseId}`, adminDatabaseReply);
      if (database.status === "ready") return { done: true };
      const elapsedMs = context.clock.steadyMs() - startedAtMs;
      if (database.status === "provisioning" && elapsedMs < readyMsMax) return { delayMs: pollDelay(elapsedMs) };
      throw new CliError("CLOUD_REQUEST_FAILED", `${name} did not come up: ${database.reason ?? database.status}`, {
        hint: `See how it is with \`svc admin db show ${name}\``,
      });
    });
  } finally {
    activity.stop();
  }
}

/** How it went, in words. */
export const blockedText = ({ blockedMs }: Pick<DatabaseChange, "blockedMs">): string =>
  blockedMs === null ? "" : `Nobody could write for ${formatDuration(blockedMs)}`;
