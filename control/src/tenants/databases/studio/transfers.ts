import type { IncomingMessage } from "node:http";
import { databaseNames, databaseQuery, exportQuery, importReply, limits, tableParams } from "@svc/proto";
import type { FastifyRequest } from "fastify";
import { recordAudit } from "../../../http/audit.ts";
import { ApiError, refusalOf } from "../../../http/errors.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint, fileEndpoint } from "../../endpoint.ts";
import { readOnlyWarning } from "../rules.ts";
import type { ExportFormat } from "../sql/requests.ts";
import { getBranch, serverErrors } from "./ask.ts";
import { freeBytes } from "./room.ts";

const table = "/projects/:id/database/tables/:table";

const mediaTypes: Record<ExportFormat, string> = {
  csv: "text/csv; charset=utf-8",
  json: "application/json; charset=utf-8",
  sql: "application/sql; charset=utf-8",
};

const exportTable = fileEndpoint({
  method: "GET",
  path: `${table}/export`,
  access: { scope: "projects:read" },
  summary: "All rows of a table as one file: CSV, a list in JSON, or statements of SQL.",
  params: tableParams,
  query: exportQuery,
  file: "application/octet-stream",
  errors: [...serverErrors, "TABLE_NOT_FOUND"],
  async handle(context, { caller, params: { id, table }, query: { channel, format }, reply }) {
    const { target, gone } = await getBranch(context, { caller, reply }, id, channel);
    const stream = await context.studio.transfers.exportTable(target, { table, format }, gone);
    return { stream, sizeBytes: null, filename: filenameOf(table, format), type: mediaTypes[format] };
  },
});

/** Of characters that no shell, disk or header takes for its own. */
const filenameOf = (table: string, format: ExportFormat): string =>
  `${table.replaceAll(/[^A-Za-z0-9_-]/g, "_")}.${format}`;

const importTable = endpoint({
  method: "POST",
  path: `${table}/import`,
  access: { scope: "projects:write" },
  summary: "Insert the rows of a CSV, whose first line names columns; all of them, or none.",
  params: tableParams,
  query: databaseQuery,
  upload: true,
  uploadType: "text/csv",
  badBody: "INVALID_BODY",
  reply: importReply,
  errors: [...serverErrors, "TABLE_NOT_FOUND", "COLUMN_NOT_FOUND", "INVALID_BODY", "QUOTA_EXCEEDED"],
  async handle(context, { caller, params: { id, table }, query: { channel }, address, request, reply }) {
    try {
      const { branch, address: where, target, ask } = await getBranch(context, { caller, reply }, id, channel);
      // Before there is a transaction that its server would refuse by and by.
      const problem = readOnlyWarning({ isReadOnly: branch.readOnly, isSoft: branch.readOnlySoft });
      if (problem !== null) throw new Refused("QUERY_ERROR", problem);
      const { database, role } = databaseNames(where.databaseId);
      const { sizeBytes } = (await ask("usage", { database, role })).given;
      const bytesMax = freeBytes({ sizeBytes, sizeLimitMb: branch.sizeLimitMb });
      const csv = bodyOf(request, bytesMax);
      const { given, durationMs } = await context.studio.transfers.importTable(target, { table }, csv);
      const detail = { channel, table, rowCount: given.rowCount };
      await recordAudit(context.db, { caller, address, action: "database.import", target: id, detail });
      return { channel, engine: branch.engine, ...given, durationMs };
    } catch (error) {
      throw closing(error);
    }
  },
});

/** The bytes of a body, of which nobody else reads any. Throws QUOTA_EXCEEDED past `bytesMax`, and BAD_REQUEST where it breaks off. */
async function* bodyOf({ raw }: FastifyRequest, bytesMax: number): AsyncGenerator<Buffer> {
  const tooLarge = () =>
    new Refused("QUOTA_EXCEEDED", `The file is larger than the ${bytesMax} bytes that the plan leaves this database.`);
  if (Number(raw.headers["content-length"] ?? 0) > bytesMax) throw tooLarge();
  let bytes = 0;
  for await (const chunk of chunksOf(raw)) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLarge();
    yield chunk;
  }
  // With all of it here nothing moves until there is an answer, which may be long: what the engine checks at the end, say.
  raw.socket.setTimeout(limits.tableTransferMs);
}

async function* chunksOf(raw: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    // Whoever does not want the rest has an answer to send by the same connection.
    yield* raw.iterator({ destroyOnReturn: false });
  } catch (cause) {
    throw new Refused("BAD_REQUEST", "The upload was cut short.", { cause });
  }
  // What breaks off may end as well, and has told its length or its end before.
  if (!raw.complete) throw new Refused("BAD_REQUEST", "The upload was cut short.");
}

/** The rest of the body is not waited for. */
function closing(error: unknown): Error {
  const refusal = refusalOf(error);
  if (refusal === null) return error instanceof Error ? error : new Error(String(error));
  const { code, message, status, cause, retryAfterSeconds } = refusal;
  return new ApiError(code, {
    ...{ message, status, cause, closesConnection: true },
    ...(retryAfterSeconds !== null && { retryAfterSeconds }),
  });
}

export const transferEndpoints = [exportTable, importTable];
