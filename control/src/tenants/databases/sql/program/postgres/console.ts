import { limits } from "@svc/proto/limits";
import { Refused } from "../../../../../stores/refused.ts";
import type { Asked, Given } from "../../requests.ts";
import type { Connection, Portion } from "./connection.ts";
import { postgresRefusal } from "./failure.ts";
import { parseStatements, type Statement } from "./parse.ts";
import { statementProblem } from "./statements.ts";

const nothing: Portion = { columns: [], rows: [], rowCount: null, isTruncated: false };

/**
 * Runs what somebody typed, statement by statement, and gives what the last one gave. A dry run and a read-only query are one
 * transaction, which is rolled back in any case: what tries to end it is refused before anything runs, and that it is still open
 * is asked of the server after each statement.
 */
export async function runQuery(connection: Connection, asked: Asked<"query">): Promise<Given<"query">> {
  const statements = await parseStatements(asked.sql.toWellFormed());
  const guarded = asked.rollback || asked.readOnly;
  for (const statement of statements) {
    const problem = statementProblem(statement, guarded);
    if (problem !== null) throw new Refused("QUERY_ERROR", problem);
  }
  const { columns, rows, rowCount, isTruncated } = await (guarded
    ? runGuarded(connection, statements, asked.readOnly)
    : runAll(connection, statements));
  return { columns, rows, rowCount, truncated: isTruncated, rolledBack: asked.rollback };
}

async function runAll(connection: Connection, statements: readonly Statement[]): Promise<Portion> {
  let last = nothing;
  for (const statement of statements) last = await runOne(connection, statement);
  return last;
}

async function runGuarded(
  connection: Connection,
  statements: readonly Statement[],
  readOnly: boolean,
): Promise<Portion> {
  await connection.run(readOnly ? "begin read only" : "begin", [], 0);
  // With a snapshot taken, the transaction cannot be made one that writes any more.
  await connection.run("select", [], 1);
  let last = nothing;
  try {
    for (const statement of statements) {
      last = await runOne(connection, statement);
      if (!connection.isInTransaction()) throw new Refused("QUERY_ERROR", "The statement ended the transaction.");
    }
  } finally {
    // Also without it: the session ends with the request.
    await connection.run("rollback", [], 0);
  }
  return last;
}

async function runOne(connection: Connection, { text, charactersBefore }: Statement): Promise<Portion> {
  try {
    return await connection.run(text, [], limits.sqlRowsMax, limits.sqlRowsCountedMax);
  } catch (error) {
    const refusal = postgresRefusal(error, charactersBefore);
    throw refusal === null ? error : new Refused("QUERY_ERROR", refusal.message, { cause: error });
  }
}
