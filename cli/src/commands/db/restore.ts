import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Channel, channels, type DatabaseEngine } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";
import { argument, command, flag } from "../../command.ts";
import { confirmLoss, requireAnswerable } from "../../confirm.ts";
import { getBackup, saveBackup } from "../../database/backups.ts";
import { type Branch, findBranch, getBranch, nameOf, notReady } from "../../database/branch.ts";
import { withReachable } from "../../database/credentials.ts";
import { dumpEngine } from "../../database/dump-file.ts";
import { restore } from "../../database/restore.ts";
import { CliError } from "../../errors.ts";
import { isId } from "../../ids.ts";

export const dbRestore = command({
  name: "db restore",
  summary: "Put a backup in the place of all that a database holds",
  details:
    "Takes a dump in a file here, or the id of a backup, also of another channel. Runs it with psql or mariadb, which has to be on this machine. There is no undo. On Postgres a restore that fails leaves the data as it was; on MariaDB what was there is gone with the first statement.",
  flags: {
    project: flag.project,
    channel: flag.choice("--channel <channel>", "Whose database is overwritten; default: production", channels),
  },
  arguments: { source: argument.required("backupId or file", "What to restore; see `svc db backup list`") },
  examples: [
    "svc db restore 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f",
    "svc db restore shop.sql.gz --channel preview --yes",
  ],
  async run(context, { project: named, channel = "production", source }) {
    const file = await findFile(resolve(context.cwd, source));
    if (file === null && !isId(source))
      throw new CliError("CLI_INVALID_USAGE", `"${source}" is neither a file nor the id of a backup`, {
        hint: "See the backups with `svc db backup list --all-channels`",
      });
    requireAnswerable(context, `This overwrites the ${channel} database. There is no undo.`);
    const branch = await findBranch(context, named, channel);
    const { status, engine, reason } = await getBranch(branch);
    if (status !== "ready" || engine === null) throw notReady(branch, { status, reason });
    const from = file === null ? await findBackup(branch, source, engine) : await findDump(file, source, engine);
    await confirmLoss(context, { loss: lossOf(branch, engine, from), name: channel });
    const facts = {
      project: branch.project,
      channel,
      engine,
      ...("backupId" in from
        ? { sourceChannel: from.channel, source: "backup" as const }
        : { source: "file" as const }),
    };
    await using place = "path" in from ? { path: from.path, ...keeps } : await download(branch, from.backupId);
    const psqlExitCode = await withReachable(context, branch, (address) => restore(context, address, place.path));
    return { ...facts, psqlExitCode };
  },
  render: ({ channel, engine }, { paint }) =>
    `${paint("green", "✓")} Restored the ${channel} database (${engine})\n  What runs may hold connections from before: \`svc status\``,
});

type Source = { path: string } | { backupId: string; channel: Channel };

const keeps = { [Symbol.asyncDispose]: async () => {} };

async function findFile(path: string): Promise<string | null> {
  try {
    return (await stat(path)).isFile() ? path : null;
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT", "ENOTDIR", "ENAMETOOLONG")) return null;
    throw thrown;
  }
}

async function findBackup({ api, target }: Branch, text: string, engine: DatabaseEngine): Promise<Source> {
  const backupId = text.toLowerCase();
  const found = await getBackup(api, { projectId: target.id, backupId, channel: undefined });
  if (found.status !== "complete")
    throw new CliError("CLOUD_REQUEST_FAILED", `BACKUP_NOT_READY: The backup ${backupId} is ${found.status}`, {
      hint: `See it with \`svc db backup list --channel ${found.channel}\``,
    });
  requireEngine(found.engine, engine, `The backup ${backupId}`);
  return { backupId, channel: found.channel };
}

async function findDump(path: string, shown: string, engine: DatabaseEngine): Promise<Source> {
  const written = await dumpEngine(path);
  if (written === null)
    throw new CliError("CLI_INVALID_USAGE", `${shown} does not begin as a dump of Postgres or MariaDB does`, {
      hint: "Make one with pg_dump (plain format) or mariadb-dump; other SQL runs with `svc db query --file <path>`",
    });
  requireEngine(written, engine, shown);
  return { path };
}

function requireEngine(written: DatabaseEngine, engine: DatabaseEngine, what: string): void {
  if (written === engine) return;
  throw new CliError("CLI_INVALID_USAGE", `${what} is of ${written}, and the database of ${engine}`, {
    hint: `Restore a dump of ${engine}`,
  });
}

function lossOf(branch: Branch, engine: DatabaseEngine, from: Source): string {
  const what = "path" in from ? "what is in the file" : `the backup of ${from.channel}`;
  const failure = engine === "postgres" ? "" : " What is there is gone also if it fails half-way.";
  return `This replaces all that ${nameOf(branch)} holds with ${what}. There is no undo.${failure}`;
}

/** A backup in a file of its own that only its owner can read, gone when disposed. */
async function download({ api, target }: Branch, backupId: string): Promise<AsyncDisposable & { path: string }> {
  const directory = await mkdtemp(join(tmpdir(), "svc-restore-"));
  const remove = () => rm(directory, { recursive: true, force: true });
  try {
    const path = join(directory, "backup.sql.gz");
    await saveBackup(api, { projectId: target.id, backupId }, path);
    return { path, [Symbol.asyncDispose]: remove };
  } catch (thrown) {
    await remove();
    throw thrown;
  }
}
