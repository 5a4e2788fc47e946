import { command } from "../../command.ts";
import { branchFlags, findBranch, getBranch } from "../../database/branch.ts";
import { formatBytes, table } from "../../format.ts";

const protections = {
  local: "on the disk of its node alone",
  keeper: "on another node, too",
  offsite: "off site, too",
} as const;

export const dbStatus = command({
  name: "db status",
  summary: "Show whether a channel has a database, and how it is",
  flags: branchFlags,
  examples: ["svc db status", "svc db status --channel preview --json"],
  async run(context, { project: named, channel = "production" }) {
    const branch = await findBranch(context, named, channel);
    const { ok: _ok, ...found } = await getBranch(branch);
    return { project: branch.project, ...found };
  },
  render: ({ channel, engine, enabled, status, reason, ...facts }, { paint }) => {
    if (!enabled)
      return `There is no ${channel} database${engine === null ? "" : ` (the project's engine is ${engine})`}\n  Create it with \`svc db branch ${channel}\``;
    const state =
      status === "ready" ? paint("green", status) : paint(status === "error" ? "red" : "yellow", `${status}`);
    const rows = [
      ["Database", `${channel}, ${engine ?? "no engine"}`],
      ["Status", reason === null ? state : `${state}: ${reason}`],
      [
        "Size",
        `${formatBytes(facts.sizeBytes)} of ${formatBytes(facts.sizeLimitMb * 1024 * 1024)}${facts.readOnly ? paint("red", ", full: it can only be read") : ""}`,
      ],
      ["Connections", `at most ${facts.connectionLimit}`],
      ...(facts.protection === null ? [] : [["Data is", protections[facts.protection]]]),
      ...(facts.lastProvenRestore == null ? [] : [["Restore proven", facts.lastProvenRestore.at]]),
    ];
    return table(rows.map(([title = "", text = ""]) => [paint("dim", title), text]));
  },
});
