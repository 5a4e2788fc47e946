import pg from "pg";
import type { Branch } from "./branch.ts";
import { ports } from "./proxy.ts";

/** How an app reaches a branch through its bridge. */
export const pgOptions = (host: string, { role, password, database }: Branch, rest: pg.ClientConfig = {}) => ({
  ...{ host, port: ports.postgres, user: role, password, database },
  ...rest,
});

/** A connected client; its connection may break without a word to the test. */
export async function pgClient(host: string, branch: Branch, rest: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client(pgOptions(host, branch, rest));
  client.on("error", () => {});
  await client.connect();
  return client;
}

/** SQLSTATE of what a login is refused with, and "in" for one that is not. */
export async function pgOutcome(host: string, branch: Branch, rest: pg.ClientConfig = {}): Promise<string> {
  try {
    await (await pgClient(host, branch, rest)).end();
    return "in";
  } catch (error) {
    return error instanceof pg.DatabaseError ? (error.code ?? "no state") : String(error);
  }
}
