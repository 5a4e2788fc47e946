import { resolve } from "node:path";
import { exportFormats } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { branchFlags, databasePath, failureOf, findBranch, getBranch } from "../../database/branch.ts";
import { placeOf, saveWhole } from "../../database/saved-file.ts";
import { formatBytes } from "../../format.ts";

export const dbExport = command({
  name: "db export",
  summary: "Write all rows of a table to a file: CSV, JSON or SQL",
  details:
    "The file appears when it is whole, and only you can read it (mode 0600). A file of its name is replaced. SQL has the rows and no definition of the table. In CSV nothing between commas is null, and two quotes are an empty text.",
  flags: {
    ...branchFlags,
    format: flag.choice("--format <format>", "How rows are written; default: csv", exportFormats),
    output: flag.text(
      "-o, --output <path>",
      "The file to write, or a directory that is there (default: the table's name, here)",
    ),
  },
  arguments: { table: argument.required("table", "The table; see `svc db tables`") },
  examples: ["svc db export orders --output orders.csv", "svc db export orders --format sql --channel preview"],
  async run(context, { project: named, channel = "production", format = "csv", output = ".", table }) {
    const branch = await findBranch(context, named, channel);
    const { engine } = await getBranch(branch);
    const path = await placeOf(resolve(context.cwd, output), `${table.replaceAll(/[^\w-]/g, "_")}.${format}`);
    const from = databasePath(branch, `/tables/${encodeURIComponent(table)}/export`, { format });
    const activity = context.terminal.activity(`Exporting ${table}`);
    try {
      const sizeBytes = await branch.api.download(
        from,
        ({ chunks }) => saveWhole(path, chunks, { what: "The export" }),
        {
          failure: failureOf(branch),
        },
      );
      return { project: branch.project, channel, engine, table, format, path, sizeBytes };
    } finally {
      activity.stop();
    }
  },
  render: ({ path, sizeBytes }, { paint }) => `${paint("green", "✓")} Wrote ${path}, ${formatBytes(sizeBytes)}`,
});
