import { databaseNames } from "@svc/proto/database";
import type { DatabaseProxyEntry } from "@svc/proto/database-proxy";

/** What a test needs to know of a branch: its names, and the password that only its server and its client know. */
export interface Branch {
  id: string;
  role: string;
  database: string;
  password: string;
}

let made = 0;

export function aBranch(): Branch {
  made += 1;
  const id = `${made.toString(16).padStart(8, "0")}-${process.pid.toString(16).padStart(8, "0").slice(-4)}-4000-8000-000000000001`;
  const { role, database } = databaseNames(id);
  return { id, role, database, password: `Secret-${made}_of-the-branch` };
}

export const anEntry = (
  { id, role, database }: Branch,
  rest: Pick<DatabaseProxyEntry, "engine" | "at" | "bridges"> & Partial<DatabaseProxyEntry>,
): DatabaseProxyEntry => ({
  ...{ databaseId: id, epoch: "1", role, database, connectionLimit: 20, state: "open", copies: [] },
  ...rest,
});
