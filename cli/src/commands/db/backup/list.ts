import { backupsReply } from "@svc/proto";
import { command, flag } from "../../../command.ts";
import { renderProblem } from "../../../database/backups.ts";
import { branchFlags, databasePath, findBranch, getBranch } from "../../../database/branch.ts";
import { CliError } from "../../../errors.ts";
import { formatAge, formatBytes } from "../../../format.ts";
import { listing } from "../../../listing.ts";

export const dbBackupList = command({
  name: "db backup list",
  summary: "List the backups of a database, newest first",
  flags: {
    ...branchFlags,
    allChannels: flag.toggle("--all-channels", "Those of every channel, also of databases that are gone"),
  },
  examples: ["svc db backup list", "svc db backup list --all-channels --json"],
  async run(context, { project: named, channel, allChannels }) {
    if (allChannels && channel !== undefined)
      throw new CliError("CLI_INVALID_USAGE", "--channel and --all-channels exclude each other", {
        hint: "Give one of them",
      });
    const branch = await findBranch(context, named, channel ?? "production");
    const { api, project, target } = branch;
    if (allChannels) {
      const found = await api.get(`/projects/${target.id}/database/backups?allChannels=true`, backupsReply);
      return { project, allChannels: true as const, backups: found.backups, problems: found.problems ?? [] };
    }
    const [{ backups, problems = [] }, { engine }] = await Promise.all([
      api.get(databasePath(branch, "/backups"), backupsReply),
      getBranch(branch),
    ]);
    return { project, channel: branch.channel, engine, backups, problems };
  },
  render: ({ backups, problems, ...payload }, screen) => {
    const { paint, now } = screen;
    const left = problems.map((problem) => `\n${renderProblem(problem, paint)}`).join("");
    if (backups.length === 0)
      return `No backups yet. Make one with \`svc db backup create${"channel" in payload && payload.channel !== "production" ? ` --channel ${payload.channel}` : ""}\`${left}`;
    // An installation without a bucket has none off-site.
    const showsOffsite = backups.some(({ offsiteAt }) => typeof offsiteAt === "string");
    const rows = backups.map(({ id, channel, engine, status, sizeBytes, error, createdAt, scheduled, offsiteAt }) => [
      id,
      channel,
      engine,
      error === null ? status : `${paint("red", status)}: ${error}`,
      status === "complete" ? formatBytes(sizeBytes) : "-",
      formatAge(createdAt, now),
      scheduled === true ? "schedule" : "-",
      ...(showsOffsite ? [offsiteAt == null ? "-" : formatAge(offsiteAt, now)] : []),
    ]);
    const titles = ["BACKUP", "CHANNEL", "ENGINE", "STATUS", "SIZE", "CREATED", "BY"];
    return `${listing(showsOffsite ? [...titles, "OFF-SITE"] : titles, rows, screen, { alignRight: [4] })}${left}`;
  },
});
