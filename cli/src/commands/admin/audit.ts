import { auditReply, limits } from "@svc/proto";
import { command, flag } from "../../command.ts";
import { CliError } from "../../errors.ts";
import { formatAge } from "../../format.ts";
import { listing } from "../../listing.ts";
import { parseSince } from "../../logs/since.ts";

export const adminAudit = command({
  name: "admin audit",
  summary: "Show who changed what, newest first",
  flags: {
    user: flag.text("--user <email or id>", "Only what this account did"),
    action: flag.text("--action <action>", "Only actions that begin so, as in project or project.delete"),
    target: flag.text("--target <id>", "Only what was done to this"),
    since: flag.text("--since <duration or timestamp>", "Only from then on, as in 2h or 2030-01-31"),
    limit: flag.integer(
      "--limit <n>",
      `How many lines, 1 to ${limits.auditListMax}; default: ${limits.auditListDefault}`,
    ),
    cursor: flag.text("--cursor <cursor>", "Go on where an earlier list ended: its nextCursor"),
  },
  examples: ["svc admin audit --since 1d", "svc admin audit --action project.delete"],
  async run(context, { since, limit, ...filters }) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(filters)) if (value !== undefined) query.set(name, value);
    if (limit !== undefined) query.set("limit", String(limit));
    if (since !== undefined) query.set("since", moment(since, context.clock.now()).toISOString());
    const { entries, nextCursor } = await (await context.api()).get(`/admin/audit?${query}`, auditReply);
    return { entries, nextCursor };
  },
  render: ({ entries, nextCursor }, screen) => {
    const { paint, now } = screen;
    if (entries.length === 0) return "Nothing was done";
    const header = ["WHEN", "WHO", "ACTION", "TARGET", "FROM"];
    const rows = entries.map(({ at, userEmail, userId, credential, action, target, address }) => [
      formatAge(at, now),
      `${userEmail ?? userId ?? "svc"}${credential === "key" ? paint("dim", " (key)") : ""}`,
      action,
      target ?? "-",
      address || "-",
    ]);
    const more = nextCursor === null ? [] : ["", paint("dim", `Older ones: --cursor ${nextCursor}`)];
    return [listing(header, rows, screen), ...more].join("\n");
  },
});

function moment(text: string, now: Date): Date {
  const at = parseSince(text, now);
  if (at !== null) return at;
  throw new CliError("CLI_INVALID_USAGE", `--since is a time like 2h or 2030-01-31, not "${text}"`, {
    hint: "Write a span before now, or an ISO 8601 timestamp",
  });
}
