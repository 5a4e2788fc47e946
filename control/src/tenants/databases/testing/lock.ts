import { systemClock } from "@svc/runtime/system";
import { connectMariadb } from "../sql/program/mariadb/connection.ts";
import { connectPostgres } from "../sql/program/postgres/connection.ts";
import { lineTo, type TestBranch, type TestServer } from "./server.ts";

/** Keeps everybody else from a table until it is disposed, in a session of the tenant's. */
export async function lockTable(
  { engine, socket }: TestServer,
  { target: { tenant } }: TestBranch,
  table: string,
): Promise<Disposable> {
  if (tenant === null) throw new Error("a branch of a test has a tenant");
  const line = await lineTo(socket)(systemClock.abortAfter(10_000));
  if (engine === "postgres") {
    const { run } = await connectPostgres(line, tenant, {});
    for (const statement of ["begin", `lock table ${table}`]) await run(statement, [], 1);
  } else {
    const connection = await connectMariadb(line, tenant, { severalStatements: false });
    await connection.query(`lock tables ${table} write`, 0);
  }
  return { [Symbol.dispose]: () => void line.destroy() };
}
