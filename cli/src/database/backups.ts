import { type Backup, type BackupProblem, backupReply, backupsReply, type Channel, channels } from "@svc/proto";
import type { Api } from "../api.ts";
import { flag } from "../command.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { isId } from "../ids.ts";
import type { Paint } from "../paint.ts";
import { poll } from "../poll.ts";
import { type Branch, databasePath } from "./branch.ts";
import { saveWhole } from "./saved-file.ts";

/** A little longer than the platform lets one take. */
const completeMsMax = 130 * 60_000;
const pollMs = 1000;

/** Of the commands about one backup, which its id says alone. */
export const assertedChannel = flag.choice(
  "--channel <channel>",
  "Only if the backup is of this channel's database",
  channels,
);

export function backupIdOf(text: string): string {
  if (isId(text)) return text.toLowerCase();
  throw new CliError("CLI_INVALID_USAGE", `"${text}" is not the id of a backup`, {
    hint: "See the backups with `svc db backup list --all-channels`",
  });
}

/** Where a backup is. `channel` only asserts what it is of. */
export const backupPath = (projectId: string, backupId: string, channel: Channel | undefined, below = ""): string =>
  `/projects/${projectId}/database/backups/${backupId}${below}${channel === undefined ? "" : `?channel=${channel}`}`;

export async function getBackup(
  api: Api,
  { projectId, backupId, channel }: { projectId: string; backupId: string; channel: Channel | undefined },
): Promise<Backup> {
  const { backup } = await api.get(backupPath(projectId, backupId, channel), backupReply).catch((thrown: unknown) => {
    if (!(thrown instanceof CliError) || thrown.code !== "CLOUD_NOT_FOUND") throw thrown;
    throw new CliError("CLOUD_NOT_FOUND", `There is no backup ${backupId}`, {
      hint: "See the backups with `svc db backup list --all-channels`",
      ...(thrown.server && { server: thrown.server }),
    });
  });
  return backup;
}

/** That a channel has no backup of a night. */
export const renderProblem = ({ channel, night, problem }: BackupProblem, paint: Paint): string =>
  `${paint("yellow", "!")} No scheduled backup of ${channel} in the night of ${night.slice(0, 10)}: ${problem}`;

/** Waits until a backup is complete. */
export async function awaitBackup(context: Context, branch: Branch, backupId: string): Promise<Backup> {
  const startedAtMs = context.clock.steadyMs();
  context.onInterrupt(`It is made without you. See with \`svc db backup list --channel ${branch.channel}\``);
  const activity = context.terminal.activity("Backing up");
  try {
    return await poll(context, async () => {
      const { backups } = await branch.api.get(databasePath(branch, "/backups"), backupsReply);
      const found = backups.find(({ id }) => id === backupId);
      if (found === undefined) throw failed(`The backup ${backupId} is gone`);
      if (found.status === "failed")
        throw failed(`The backup failed: ${found.error ?? "the platform does not say why"}`);
      if (found.status === "complete") return { done: found };
      if (context.clock.steadyMs() - startedAtMs > completeMsMax) throw failed("The backup takes too long");
      return { delayMs: pollMs };
    });
  } finally {
    activity.stop();
  }
}

const failed = (message: string): CliError =>
  new CliError("CLOUD_REQUEST_FAILED", message, { hint: "Try again with `svc db backup create`" });

/**
 * Puts a backup in place, whole or not at all, readable by its owner only. Returns its size in bytes, which is what the
 * platform said that it is.
 */
export function saveBackup(
  api: Api,
  { projectId, backupId }: { projectId: string; backupId: string },
  path: string,
): Promise<number> {
  const from = backupPath(projectId, backupId, undefined, "/download");
  return api.download(from, ({ chunks, sizeBytes }) =>
    saveWhole(path, chunks, {
      what: "The backup",
      check(written) {
        if (written === sizeBytes) return;
        const wanted = sizeBytes ?? "an unknown number of";
        throw new CliError("CLOUD_UNAVAILABLE", `The download ended after ${written} of ${wanted} bytes`, {
          hint: "Run the command again",
        });
      },
    }),
  );
}
