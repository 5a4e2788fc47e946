import {
  changedRowsReply,
  databaseMigrationsReply,
  databaseNames,
  databaseQuery,
  databaseSchemaReply,
  databaseUsageReply,
  deleteRowInput,
  idParams,
  insertRowInput,
  insertRowReply,
  limits,
  queryInput,
  queryReply,
  tableCountReply,
  tableParams,
  tableRowsQuery,
  tableRowsReply,
  updateRowInput,
} from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint } from "../../endpoint.ts";
import { durabilityOf, readDurability } from "../copies/durability.ts";
import { BranchNotReady } from "../ready-branch.ts";
import { readOnlyWarning } from "../rules.ts";
import { getBranch, serverErrors } from "./ask.ts";

const rowErrors = [...serverErrors, "TABLE_NOT_FOUND", "COLUMN_NOT_FOUND"] as const;
const keyErrors = [...rowErrors, "INVALID_BODY", "NO_PRIMARY_KEY"] as const;
const tableRows = "/projects/:id/database/tables/:table/rows";
const read = { scope: "projects:read" } as const;
const write = { scope: "projects:write" } as const;

const query = endpoint({
  method: "POST",
  path: "/projects/:id/database/query",
  access: { scope: "database:query" },
  summary: "Run SQL on a branch, as its own role; a dry run is rolled back in any case.",
  params: idParams,
  query: databaseQuery,
  body: queryInput,
  reply: queryReply,
  badBody: "INVALID_BODY",
  errors: [...serverErrors, "DRY_RUN_UNAVAILABLE"],
  async handle(context, { caller, params, query: { channel }, body, address, reply }) {
    const { branch, ask } = await getBranch(context, { caller, reply }, params.id, channel);
    const { rollback = false, readOnly = false } = body;
    await recordAudit(context.db, {
      ...{ caller, address, action: "database.query", target: params.id, detail: { channel, rollback, readOnly } },
    });
    const { given, durationMs } = await ask("query", { sql: body.sql, rollback, readOnly });
    return { channel, engine: branch.engine, ...given, durationMs };
  },
});

/** A database that is not ready yet has no schema to look for. */
function asAbsent(error: unknown): never {
  throw error instanceof BranchNotReady ? new Refused("NOT_FOUND", error.message, { cause: error }) : error;
}

const schema = endpoint({
  method: "GET",
  path: "/projects/:id/database/schema",
  access: read,
  summary: "Tables and views of a branch, with columns, indexes and foreign keys.",
  params: idParams,
  query: databaseQuery,
  reply: databaseSchemaReply,
  errors: serverErrors.filter((code) => code !== "DATABASE_PROVISIONING"),
  async handle(context, { caller, params, query: { channel }, reply }) {
    const { branch, ask } = await getBranch(context, { caller, reply }, params.id, channel).catch(asAbsent);
    const { given } = await ask("schema", {});
    return { channel, engine: branch.engine, ...given };
  },
});

const readRows = endpoint({
  method: "GET",
  path: tableRows,
  access: read,
  summary: "A page of a table's rows, by primary key unless said otherwise.",
  params: tableParams,
  query: tableRowsQuery,
  reply: tableRowsReply,
  errors: rowErrors,
  async handle(context, { caller, params: { id, table }, query: { channel, orderBy = null, ...page }, reply }) {
    const { ask } = await getBranch(context, { caller, reply }, id, channel);
    const { given, durationMs } = await ask("rows", { table, orderBy, ...page });
    return { ...given, rowCount: given.rows.length, durationMs };
  },
});

const insertRow = endpoint({
  method: "POST",
  path: tableRows,
  access: write,
  summary: "Insert a row; what is not named gets the engine's default.",
  params: tableParams,
  query: databaseQuery,
  body: insertRowInput,
  reply: insertRowReply,
  badBody: "INVALID_BODY",
  errors: [...rowErrors, "INVALID_BODY"],
  async handle(context, { caller, params: { id, table }, query: { channel }, body, address, reply }) {
    const { ask } = await getBranch(context, { caller, reply }, id, channel);
    const { given, durationMs } = await ask("insert", { table, values: Object.entries(body.values) });
    const { row, rowCount } = given;
    const detail = { channel, table };
    await recordAudit(context.db, { caller, address, action: "database.row.insert", target: id, detail });
    return { ...(row !== null && { row: Object.fromEntries(row) }), rowCount, durationMs };
  },
});

const updateRow = endpoint({
  method: "PATCH",
  path: tableRows,
  access: write,
  summary: "Change the row that has the primary key.",
  params: tableParams,
  query: databaseQuery,
  body: updateRowInput,
  reply: changedRowsReply,
  badBody: "INVALID_BODY",
  errors: keyErrors,
  async handle(context, { caller, params: { id, table }, query: { channel }, body, address, reply }) {
    const { ask } = await getBranch(context, { caller, reply }, id, channel);
    const [pk, changes] = [Object.entries(body.pk), Object.entries(body.changes)];
    const { given, durationMs } = await ask("update", { table, pk, changes });
    const detail = { channel, table };
    await recordAudit(context.db, { caller, address, action: "database.row.update", target: id, detail });
    return { ...given, durationMs };
  },
});

const deleteRow = endpoint({
  method: "DELETE",
  path: tableRows,
  access: write,
  summary: "Delete the row that has the primary key.",
  params: tableParams,
  query: databaseQuery,
  body: deleteRowInput,
  reply: changedRowsReply,
  badBody: "INVALID_BODY",
  errors: keyErrors,
  async handle(context, { caller, params: { id, table }, query: { channel }, body, address, reply }) {
    const { ask } = await getBranch(context, { caller, reply }, id, channel);
    const { given, durationMs } = await ask("delete", { table, pk: Object.entries(body.pk) });
    const detail = { channel, table };
    await recordAudit(context.db, { caller, address, action: "database.row.delete", target: id, detail });
    return { ...given, durationMs };
  },
});

const countRows = endpoint({
  method: "GET",
  path: "/projects/:id/database/tables/:table/count",
  access: read,
  summary: "How many rows a table has, counted.",
  params: tableParams,
  query: databaseQuery,
  reply: tableCountReply,
  errors: [...serverErrors, "TABLE_NOT_FOUND"],
  async handle(context, { caller, params: { id, table }, query: { channel }, reply }) {
    const { ask } = await getBranch(context, { caller, reply }, id, channel);
    const { given, durationMs } = await ask("count", { table });
    return { ...given, durationMs };
  },
});

const migrations = endpoint({
  method: "GET",
  path: "/projects/:id/database/migrations",
  access: read,
  summary: "Which migrations the command line has applied to a branch.",
  params: idParams,
  query: databaseQuery,
  reply: databaseMigrationsReply,
  errors: serverErrors,
  async handle(context, { caller, params, query: { channel }, reply }) {
    const { branch, ask } = await getBranch(context, { caller, reply }, params.id, channel);
    const { given } = await ask("migrations", {});
    return { channel, engine: branch.engine, ...given };
  },
});

const usage = endpoint({
  method: "GET",
  path: "/projects/:id/database/usage",
  access: read,
  summary: "What a branch takes now and took before, and how many connections it has.",
  params: idParams,
  query: databaseQuery,
  reply: databaseUsageReply,
  errors: serverErrors,
  async handle(context, { caller, params, query: { channel }, reply }) {
    const { db, studio } = context;
    const { branch, address, ask } = await getBranch(context, { caller, reply }, params.id, channel);
    const { database, role } = databaseNames(address.databaseId);
    const { sizeBytes, activeConnections } = (await ask("usage", { database, role })).given;
    await studio.saveSize(db, address.databaseId, sizeBytes);
    const samples = await studio.listSizeSamples(db, address.databaseId, limits.databaseSamplesShown);
    const durability = await readDurability(db, [address.databaseId]);
    return {
      ...{ channel, engine: branch.engine, sizeBytes, sizeLimitMb: branch.sizeLimitMb, readOnly: branch.readOnly },
      warning: readOnlyWarning({ isReadOnly: branch.readOnly, isSoft: branch.readOnlySoft }),
      connections: { active: activeConnections, limit: branch.connectionLimit },
      offsiteAt: durabilityOf(durability, address.databaseId).offsiteAt,
      lastProvenRestore: durabilityOf(durability, address.databaseId).lastProvenRestore,
      history: samples.map((sample) => ({ ...sample, sampledAt: sample.sampledAt.toISOString() })),
    };
  },
});

export const studioEndpoints = [
  ...[query, schema, readRows, insertRow, updateRow, deleteRow, countRows, migrations, usage],
];
