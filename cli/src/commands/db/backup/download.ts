import { resolve } from "node:path";
import { argument, command, flag } from "../../../command.ts";
import { assertedChannel, backupIdOf, getBackup, saveBackup } from "../../../database/backups.ts";
import { findBranch } from "../../../database/branch.ts";
import { placeOf } from "../../../database/saved-file.ts";
import { formatBytes } from "../../../format.ts";

export const dbBackupDownload = command({
  name: "db backup download",
  summary: "Write a backup to a file: SQL, compressed with gzip",
  details: "The file appears when it is whole, and only you can read it (mode 0600). A file of its name is replaced.",
  flags: {
    project: flag.project,
    channel: assertedChannel,
    output: flag.text(
      "--output <path>",
      "The file to write, or a directory that is there (default: the backup's own name, here)",
    ),
  },
  arguments: { backupId: argument.required("backupId", "The backup; see `svc db backup list`") },
  examples: [
    "svc db backup download 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f",
    "svc db backup download 7b0f6c1e-58a1-4f0e-9d6c-3a1b2c4d5e6f --output backups/",
  ],
  async run(context, { project: named, channel, output = ".", backupId: text }) {
    const backupId = backupIdOf(text);
    const branch = await findBranch(context, named, channel ?? "production");
    const asked = { projectId: branch.target.id, backupId, channel };
    const found = await getBackup(branch.api, asked);
    const path = await placeOf(resolve(context.cwd, output), fileName(found.filename, backupId));
    const activity = context.terminal.activity(`Downloading ${formatBytes(found.sizeBytes)}`);
    try {
      const sizeBytes = await saveBackup(branch.api, asked, path);
      return { project: branch.project, channel: found.channel, engine: found.engine, backupId, path, sizeBytes };
    } finally {
      activity.stop();
    }
  },
  render: ({ path, sizeBytes, channel }, { paint }) =>
    `${paint("green", "✓")} Wrote ${path}, ${formatBytes(sizeBytes)}\n  Load it with \`svc db restore ${path} --channel ${channel}\``,
});

/** A name that the platform gave, unless it could lead elsewhere. */
const fileName = (given: string, backupId: string): string =>
  /^[a-z0-9][a-z0-9._-]{0,200}\.sql\.gz$/i.test(given) ? given : `${backupId}.sql.gz`;
