import { tableCountReply } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { branchFlags, databasePath, failureOf, findBranch, nameOf } from "../../database/branch.ts";
import { getSchema, renderTable } from "../../database/schema.ts";
import { CliError } from "../../errors.ts";
import { formatBytes } from "../../format.ts";
import { listing } from "../../listing.ts";

export const dbTables = command({
  name: "db tables",
  summary: "List the tables of a database, or show one of them",
  details: "Numbers of rows are the engine's estimate; --count counts the rows of one table.",
  flags: { ...branchFlags, count: flag.toggle("--count", "Count the rows of the table that is named") },
  arguments: { table: argument.optional("table", "The table to show") },
  examples: ["svc db tables", "svc db tables orders --count", "svc db tables orders --channel preview --json"],
  async run(context, { project: named, channel = "production", count: counts, table: name }) {
    if (counts && name === undefined)
      throw new CliError("CLI_INVALID_USAGE", "--count needs a table to count", {
        hint: "Name it: `svc db tables <table> --count`",
      });
    const branch = await findBranch(context, named, channel);
    const { tables, engine } = await getSchema(context, branch);
    const facts = { project: branch.project, channel, engine };
    if (name === undefined)
      return {
        ...facts,
        tables: tables.map(({ name, approxRowCount, sizeBytes }) => ({ name, approxRowCount, sizeBytes })),
      };
    const table = tables.find((each) => each.name === name);
    if (table === undefined)
      throw new CliError("CLOUD_NOT_FOUND", `There is no table "${name}" in ${nameOf(branch)}`, {
        hint: `See the tables with \`svc db tables --channel ${channel}\``,
      });
    if (!counts) return { ...facts, table };
    const path = databasePath(branch, `/tables/${encodeURIComponent(name)}/count`);
    const { count } = await branch.api.get(path, tableCountReply, { failure: failureOf(branch) });
    return { ...facts, table, count };
  },
  render: (payload, screen) => {
    const { paint } = screen;
    if ("table" in payload) {
      const counted = !("count" in payload) ? "" : `\n  ${paint("dim", "Rows")}  ${payload.count}`;
      return `${renderTable(payload.table, paint)}${counted}`;
    }
    if (payload.tables.length === 0) return "It has no tables yet. Make some with `svc db migrate` or `svc db query`";
    const rows = payload.tables.map(({ name, approxRowCount, sizeBytes }) => [
      name,
      `${approxRowCount}`,
      formatBytes(sizeBytes),
    ]);
    return listing(["TABLE", "ROWS", "SIZE"], rows, screen, { alignRight: [1, 2] });
  },
});
