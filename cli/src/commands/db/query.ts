import { plural, queryReply } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { branchFlags, databasePath, failureOf, findBranch } from "../../database/branch.ts";
import { cellText } from "../../database/cells.ts";
import { readSql } from "../../database/query-source.ts";
import { formatDuration } from "../../format.ts";
import { listing } from "../../listing.ts";

/** What is printed for a person; --json has all that came. */
const rowsShown = 100;

export const dbQuery = command({
  name: "db query",
  summary: "Run SQL in a database and show what it gives",
  details:
    'The SQL comes from the argument (`svc db query "select 1"`), from --file, or from stdin. Of several statements the last one\'s result is shown. It ends after 10 seconds.',
  flags: {
    ...branchFlags,
    file: flag.text("--file <path>", "Read the SQL from this file"),
    dryRun: flag.toggle("--dry-run", "Take back what it changed; Postgres only"),
  },
  arguments: { sql: argument.optional("sql", "The SQL") },
  examples: ["svc db query --file report.sql", "svc db query --file fix.sql --dry-run --channel preview --json"],
  async run(context, { project: named, channel = "production", file, dryRun, sql: given }) {
    const sql = await readSql(context, given, file);
    const branch = await findBranch(context, named, channel);
    const { ok: _ok, ...result } = await branch.api.post(databasePath(branch, "/query"), queryReply, {
      body: { sql, ...(dryRun && { rollback: true }) },
      failure: failureOf(branch),
    });
    if (result.truncated) context.warn(`The results were truncated to ${result.rows.length} rows`);
    return { project: branch.project, ...result };
  },
  render: ({ columns, rows, rowCount, durationMs, rolledBack }, screen) => {
    const { paint } = screen;
    const took = paint("dim", `in ${formatDuration(durationMs)}${rolledBack ? ", rolled back" : ""}`);
    if (columns.length === 0)
      return `${paint("green", "✓")} ${rowCount === null ? "Done" : plural(rowCount, "row")} ${took}`;
    const cells = rows.slice(0, rowsShown).map((row) => row.map((value) => cellOf(value, paint)));
    const rest = rows.length - cells.length;
    return [
      listing(columns, cells, screen),
      "",
      ...(rest > 0 ? [paint("yellow", `${plural(rest, "more row")} not shown; --json prints every one`)] : []),
      `${plural(rows.length, "row")} ${took}`,
    ].join("\n");
  },
});

/** NULL is told apart from a text of these letters, where there are colours. */
const cellOf = (value: unknown, paint: Parameters<Parameters<typeof command>[0]["render"]>[1]["paint"]): string =>
  value === null ? paint("dim", cellText(value)) : cellText(value);
