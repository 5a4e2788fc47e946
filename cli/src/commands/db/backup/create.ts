import { createBackupReply } from "@svc/proto";
import { command, flag } from "../../../command.ts";
import { awaitBackup } from "../../../database/backups.ts";
import { branchFlags, databasePath, failureOf, findBranch } from "../../../database/branch.ts";
import { formatBytes } from "../../../format.ts";
import { postOnce } from "../../../post-once.ts";

export const dbBackupCreate = command({
  name: "db backup create",
  summary: "Back a database up on the platform",
  details: "A project has one backup under way at a time. It stays until it is deleted, also when its database goes.",
  flags: { ...branchFlags, wait: flag.toggle("--no-wait", "Return once it is under way") },
  examples: ["svc db backup create", "svc db backup create --channel preview --no-wait --json"],
  async run(context, { project: named, channel = "production", wait }) {
    const branch = await findBranch(context, named, channel);
    const { ok: _ok, ...made } = await postOnce(
      context,
      branch.api,
      databasePath(branch, "/backups"),
      createBackupReply,
      {
        failure: failureOf(branch),
      },
    );
    if (!wait) return { project: branch.project, ...made };
    const { status, sizeBytes } = await awaitBackup(context, branch, made.backupId);
    return { project: branch.project, ...made, status, sizeBytes };
  },
  render: (payload, { paint }) => {
    const { backupId, channel } = payload;
    const done = paint("green", "✓");
    if (!("sizeBytes" in payload))
      return `${done} The backup ${backupId} is under way\n  See it with \`svc db backup list --channel ${channel}\``;
    return `${done} Backed up the ${channel} database: ${backupId}, ${formatBytes(payload.sizeBytes)}\n  Get it with \`svc db backup download ${backupId}\``;
  },
});
