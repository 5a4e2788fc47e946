import { databaseUsageReply } from "@svc/proto";
import { command } from "../../command.ts";
import { branchFlags, databasePath, failureOf, findBranch } from "../../database/branch.ts";
import { formatAge, formatBytes } from "../../format.ts";
import { listing } from "../../listing.ts";

export const dbUsage = command({
  name: "db usage",
  summary: "Show how large a database is and how many connections it has",
  flags: branchFlags,
  examples: ["svc db usage", "svc db usage --channel preview --json"],
  async run(context, { project: named, channel = "production" }) {
    const branch = await findBranch(context, named, channel);
    const reply = await branch.api.get(databasePath(branch, "/usage"), databaseUsageReply, {
      failure: failureOf(branch),
    });
    const { ok: _ok, ...usage } = reply;
    return { project: branch.project, ...usage };
  },
  render: ({ sizeBytes, sizeLimitMb, readOnly, warning, connections, offsiteAt, history }, screen) => {
    const { paint, now } = screen;
    const limitBytes = sizeLimitMb * 1024 * 1024;
    const share = limitBytes === 0 ? "" : ` (${Math.round((sizeBytes / limitBytes) * 100)} %)`;
    const lines = [
      `${formatBytes(sizeBytes)} of ${formatBytes(limitBytes)}${share}`,
      `${connections.active} of ${connections.limit} connections`,
      ...(typeof offsiteAt === "string" ? [`Off-site: everything until ${formatAge(offsiteAt, now)}`] : []),
      ...(readOnly ? [paint("red", warning ?? "It is full and can only be read: a larger plan lifts that")] : []),
    ];
    if (history.length === 0) return lines.join("\n");
    const rows = history
      .toReversed()
      .map((sample) => [formatAge(sample.sampledAt, now), formatBytes(sample.sizeBytes)]);
    return [...lines, "", listing(["MEASURED", "SIZE"], rows, screen, { alignRight: [1] })].join("\n");
  },
});
