import { databaseTable, databaseView, queryReply } from "@svc/proto";
import { z } from "zod";
import type { Branch } from "../../database/branch.ts";
import { databasePath, failureOf } from "../../database/branch.ts";
import { schemaReply } from "../../database/schema.ts";
import { CliError } from "../../errors.ts";
import { targetFacts } from "../../target.ts";
import type { Call } from "../call.ts";
import { cleanRows } from "../clean.ts";
import { countFitting } from "../fit.ts";
import { tool, untrusted } from "../tool.ts";
import { takes } from "./fields.ts";

const channelInput = takes.channel.describe("Whose database; default: production");

async function branchOf(call: Call, channel: Branch["channel"] = "production"): Promise<Branch> {
  const target = await call.target();
  return { api: call.api, target, channel, project: targetFacts(target) };
}

const dbSchema = tool({
  name: "db_schema",
  title: "Show a database's tables",
  description: "Tables with their columns, indexes and foreign keys, and views, of the database of a channel.",
  effect: "reads",
  input: {
    channel: channelInput,
    table: z.string().max(200).optional().describe("Only this table or view"),
    cursor: takes.cursor,
  },
  output: {
    nextCursor: z.string().nullable(),
    untrusted: untrusted({ tables: z.array(databaseTable), views: z.array(databaseView) }),
  },
  async run(call, { channel, table, cursor }) {
    const branch = await branchOf(call, channel);
    const reply = await call.api.get(databasePath(branch, "/schema"), schemaReply, {
      failure: failureOf(branch),
    });
    const isMeant = ({ name }: { name: string }) => table === undefined || name === table;
    const tables = reply.tables.filter(isMeant);
    const views = reply.views.filter(isMeant);
    if (table !== undefined && tables.length + views.length === 0)
      throw new CliError("CLOUD_NOT_FOUND", "There is no table or view of that name", {
        hint: "Leave table out to see all",
      });
    const from = Number(cursor ?? 0);
    const page = [...tables, ...views].slice(from);
    const count = countFitting(page);
    const isShown = (at: number) => at >= from && at < from + count;
    return {
      nextCursor: count < page.length ? String(from + count) : null,
      untrusted: {
        tables: tables.filter((_, at) => isShown(at)),
        views: views.filter((_, at) => isShown(tables.length + at)),
      },
      ...(reply.truncated && { cut: "There are more tables than the platform lists" }),
    };
  },
});

const dbQueryReadonly = tool({
  name: "db_query_readonly",
  title: "Ask a database",
  description:
    "Runs SQL in a transaction that may not write and is rolled back, and tells the rows. Texts of columns that are called like a secret are kept back. Ask for few rows: LIMIT, and OFFSET for more.",
  effect: "reads",
  input: { sql: z.string().min(1).max(100_000), channel: channelInput },
  output: {
    rowCount: z.number().nullable(),
    durationMs: z.number(),
    rolledBack: z.boolean(),
    untrusted: untrusted({ columns: z.array(z.string()), rows: z.array(z.array(z.unknown())) }),
  },
  async run(call, { sql, channel }) {
    const branch = await branchOf(call, channel);
    const ask = (body: object) =>
      call.api.post(databasePath(branch, "/query"), queryReply, { body: { sql, ...body }, failure: failureOf(branch) });
    const reply = await ask({ readOnly: true, rollback: true }).catch((thrown: unknown) => {
      // MariaDB cannot take everything back; in a transaction that may not write there is nothing to take back.
      if (thrown instanceof CliError && thrown.server?.code === "DRY_RUN_UNAVAILABLE") return ask({ readOnly: true });
      throw thrown;
    });
    const rows = cleanRows(reply.columns, reply.rows);
    const count = countFitting(rows);
    const isCut = reply.truncated || count < rows.length;
    return {
      rowCount: reply.rowCount,
      durationMs: reply.durationMs,
      rolledBack: reply.rolledBack,
      untrusted: { columns: reply.columns, rows: rows.slice(0, count) },
      ...(isCut && { cut: `Only the first ${count} rows are here: ask for more with OFFSET, or for fewer columns` }),
    };
  },
});

export const databaseTools = [dbSchema, dbQueryReadonly];
