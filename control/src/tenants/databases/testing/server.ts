import { once } from "node:events";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { type DatabaseEngine, databaseNames } from "@svc/proto";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { expect } from "vitest";
import { createLog } from "../../../log.ts";
import { nativeHash } from "../sql/native-hash.ts";
import { newPassword } from "../sql/password.ts";
import { createSqlRunner, type SqlRunner, type SqlTarget } from "../sql/runner.ts";
import { scramVerifier } from "../sql/scram.ts";

/** A server of an engine as an instance has it: reachable by a socket, with the platform's user. */
export interface TestServer extends AsyncDisposable {
  engine: DatabaseEngine;
  socket: string;
  /** The platform's user. */
  admin: { user: string; password: string; database: string };
  /** SIGKILL, as for a machine that lost its power. */
  kill(): Promise<void>;
}

export const adminUser = "svc_admin";

export const lineTo =
  (socket: string) =>
  async (signal: AbortSignal): Promise<Duplex> => {
    const line = connect(socket);
    await once(line, "connect", { signal });
    return line;
  };

/** A branch on a test's server: its database, its role and what asks it. */
export interface TestBranch {
  id: string;
  target: SqlTarget;
  database: string;
  role: string;
  password: string;
}

export const verifierFor = (engine: DatabaseEngine, password: string): string =>
  engine === "postgres" ? scramVerifier(password, Buffer.alloc(16, 7)) : nativeHash(password);

/** Makes a branch as control's worker does. */
export async function newBranch(runner: SqlRunner, server: TestServer, connectionLimit = 20): Promise<TestBranch> {
  const id = systemRandom.uuid();
  const { database, role } = databaseNames(id);
  const password = newPassword();
  const target: SqlTarget = {
    projectId: id,
    ownerId: id,
    engine: server.engine,
    openLine: lineTo(server.socket),
    tenant: { user: role, password, database },
    admin: server.admin,
  };
  const verifier = verifierFor(server.engine, password);
  await runner.ask(target, "createTenant", { database, role, verifier, connectionLimit });
  return { id, target, database, role, password };
}

export const testRunner = (): SqlRunner => createSqlRunner({ clock: systemClock, log: createLog("silent") });

/** Starts a statement that lasts nine seconds, and resolves once the server has it. */
export async function whileSleeping(runner: SqlRunner, { target, database, role }: TestBranch) {
  const sql = target.engine === "postgres" ? "select pg_sleep(9)" : "select sleep(9)";
  const active = async () => (await runner.ask(target, "usage", { database, role })).given.activeConnections;
  // So that none of them has to wait for a child to start.
  await Promise.all([active(), active(), active()]);
  const sleeping = runner.ask(target, "query", { sql, rollback: false, readOnly: false });
  sleeping.catch(() => {});
  await expect.poll(active).toBe(1);
  return { sleeping };
}
