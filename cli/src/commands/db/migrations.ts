import { databaseMigrationsReply } from "@svc/proto";
import { command } from "../../command.ts";
import { branchFlags, databasePath, failureOf, findBranch } from "../../database/branch.ts";
import { formatAge } from "../../format.ts";
import { listing } from "../../listing.ts";

export const dbMigrations = command({
  name: "db migrations",
  summary: "List the migrations that a database has had",
  flags: branchFlags,
  examples: ["svc db migrations", "svc db migrations --channel preview --json"],
  async run(context, { project: named, channel = "production" }) {
    const branch = await findBranch(context, named, channel);
    const { ok: _ok, ...found } = await branch.api.get(databasePath(branch, "/migrations"), databaseMigrationsReply, {
      failure: failureOf(branch),
    });
    return { project: branch.project, ...found };
  },
  render: ({ channel, migrations }, screen) => {
    if (migrations.length === 0)
      return `No migrations yet. Apply those of this directory with \`svc db migrate --channel ${channel}\``;
    const rows = migrations.map(({ name, appliedAt }) => [name, formatAge(appliedAt, screen.now)]);
    return listing(["MIGRATION", "APPLIED"], rows, screen);
  },
});
