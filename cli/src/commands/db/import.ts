import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { importReply, limits, plural } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";
import { argument, command } from "../../command.ts";
import { branchFlags, databasePath, failureOf, findBranch } from "../../database/branch.ts";
import { CliError } from "../../errors.ts";

export const dbImport = command({
  name: "db import",
  summary: "Insert the rows of a CSV into a table: all of them, or none",
  details:
    "The first line names columns, in any order; others get their defaults. Nothing between commas is null, and two quotes are an empty text. What is refused is told with its line.",
  flags: branchFlags,
  arguments: {
    table: argument.required("table", "The table; see `svc db tables`"),
    file: argument.required("file", "The CSV, in UTF-8"),
  },
  examples: ["svc db import orders orders.csv", "svc db import orders orders.csv --channel preview --json"],
  async run(context, { project: named, channel = "production", table, file }) {
    const path = resolve(context.cwd, file);
    const sizeBytes = await sizeOf(path, file);
    const branch = await findBranch(context, named, channel);
    const activity = context.terminal.activity(`Importing into ${table}`);
    try {
      const to = databasePath(branch, `/tables/${encodeURIComponent(table)}/import`);
      const content = { sizeBytes, stream: () => createReadStream(path) };
      const { ok: _ok, ...told } = await branch.api.post(to, importReply, {
        ...{ body: { type: "text/csv", content }, timeoutMs: limits.tableTransferMs, failure: failureOf(branch) },
      });
      return { project: branch.project, table, ...told };
    } finally {
      activity.stop();
    }
  },
  render: ({ table, rowCount }, { paint }) =>
    `${paint("green", "✓")} Inserted ${plural(rowCount, "row")} into ${table}`,
});

async function sizeOf(path: string, shown: string): Promise<number> {
  const found = await stat(path).catch((thrown: unknown) => {
    if (isFileError(thrown, "ENOENT", "ENOTDIR", "ENAMETOOLONG")) return null;
    throw thrown;
  });
  if (found?.isFile()) return found.size;
  throw new CliError("CLI_INVALID_USAGE", `There is no file ${shown}`, { hint: "Name a CSV that is here" });
}
