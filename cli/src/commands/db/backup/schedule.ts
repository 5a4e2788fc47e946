import { databaseChannels, databaseSettingsReply } from "@svc/proto";
import { argument, command, flag } from "../../../command.ts";
import { renderProblem } from "../../../database/backups.ts";
import { failureOf, findBranch } from "../../../database/branch.ts";
import { CliError } from "../../../errors.ts";

export const dbBackupSchedule = command({
  name: "db backup schedule",
  summary: "Have databases backed up every night, or show how they are",
  details:
    "With --keep they are, after 3:00 UTC, and the newest of each channel stay; `off` ends it, and leaves the backups that are there. Only backups that the schedule made are ever replaced. While the plan's backups are used up there is none, and `svc db backup list` says so.",
  flags: {
    project: flag.project,
    keep: flag.integer("--keep <n>", "How many backups of each channel stay"),
    channel: flag.choices("--channel <channel...>", "Whose databases; default: production", databaseChannels),
  },
  arguments: { off: { ...argument.optional("off", "No more of them"), choices: ["off"] } },
  examples: [
    "svc db backup schedule",
    "svc db backup schedule --keep 7",
    "svc db backup schedule --keep 3 --channel production --channel preview",
    "svc db backup schedule off",
  ],
  async run(context, { project: named, keep, channel: channels, off }) {
    const wanted = readWanted({ keep, channels, off });
    const branch = await findBranch(context, named, "production");
    const path = `/projects/${branch.target.id}/database/settings`;
    const { ok: _ok, ...settings } =
      wanted === undefined
        ? await branch.api.get(path, databaseSettingsReply)
        : await branch.api.put(path, databaseSettingsReply, { body: { backups: wanted }, failure: failureOf(branch) });
    return { project: branch.project, ...settings };
  },
  render: ({ backups, backupProblems }, { paint }) => {
    if (backups === null) return "Nothing is backed up by itself. Change that with `svc db backup schedule --keep <n>`";
    const head = `${paint("green", "✓")} ${backups.channels.join(", ")}, every night, the newest ${backups.keep}`;
    return [head, ...backupProblems.map((problem) => renderProblem(problem, paint))].join("\n");
  },
});

type Channel = (typeof databaseChannels)[number];

/** What is to be from now on; null: nothing; undefined: as it is. */
function readWanted({
  keep,
  channels,
  off,
}: {
  keep: number | undefined;
  channels: readonly Channel[];
  off: string | undefined;
}): { channels: readonly Channel[]; keep: number } | null | undefined {
  if (off !== undefined && off !== "off")
    throw new CliError("CLI_INVALID_USAGE", `"${off}" is no schedule: they are made every night, or not`, {
      hint: "End them with `svc db backup schedule off`",
    });
  if (off !== undefined && (keep !== undefined || channels.length > 0))
    throw new CliError("CLI_INVALID_USAGE", "off ends it for all channels, and goes with no flag", {
      hint: "Give either: `svc db backup schedule off`",
    });
  if (off !== undefined) return null;
  if (keep === undefined && channels.length === 0) return undefined;
  if (keep === undefined || keep < 1)
    throw new CliError("CLI_INVALID_USAGE", "--keep says how many backups of each channel stay, 1 at least", {
      hint: "Give it: `svc db backup schedule --keep 7`",
    });
  return { channels: channels.length === 0 ? ["production"] : channels, keep };
}
