import type { DatabaseEngine } from "@svc/proto";
import { Refused } from "../../stores/refused.ts";
import { type AdminTarget, type DatabaseAdmin, ServerRefused, ServerUnreachable } from "./admin-sql.ts";
import { adminLogin } from "./find-ready.ts";
import type { Asked, Given, Login, RequestName } from "./sql/requests.ts";
import type { SqlRunner, SqlTarget } from "./sql/runner.ts";

/** How each engine ends its words when a name or a password is not one that it knows, or the user is kept out. */
const refusedLogin: Record<DatabaseEngine, RegExp> = {
  postgres: /\(28[0-9A-Z]{3}[),]/,
  mariadb: /\((\d+, 28000|4151, HY000)\)$/,
};

/** What the platform does as its administrator, by the runner: nothing that a server sends is read in this process. */
export function createDatabaseAdmin(sql: Pick<SqlRunner, "ask">): DatabaseAdmin {
  async function ask<N extends RequestName>(target: SqlTarget, name: N, asked: Asked<N>, signal: AbortSignal) {
    signal.throwIfAborted();
    try {
      return (await sql.ask(target, name, asked)).given as Given<N>;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      // Without an answer of the server's own there may be one the next time.
      const isAnswer = error.code === "QUERY_ERROR" && error.cause === undefined;
      throw isAnswer
        ? new ServerRefused(error.message, { cause: error })
        : new ServerUnreachable(error.message, { cause: error });
    }
  }

  const targetOf = ({ engine, connect, password, turn }: AdminTarget): SqlTarget => ({
    projectId: turn,
    ownerId: null,
    engine,
    openLine: connect,
    tenant: null,
    admin: adminLogin({ engine }, password),
  });

  return {
    createTenant: async (target, tenant, signal) => void (await ask(targetOf(target), "createTenant", tenant, signal)),
    rotate: async (target, tenant, signal) => void (await ask(targetOf(target), "setVerifier", tenant, signal)),
    freeze: (target, asked, signal) => ask(targetOf(target), "freeze", asked, signal),
    bringKeeper: async (target, keeper, signal) => void (await ask(targetOf(target), "bringKeeper", keeper, signal)),
    releaseSlots: async (target, asked, signal) =>
      (await ask(targetOf(target), "releaseSlots", asked, signal)).released,
    async proveLogin({ engine, connect, turn }, { database, role: user, password }, signal) {
      const tenant: Login = { database, user, password };
      // Nothing is asked as the administrator but to end what takes too long, which this does not.
      const target = { projectId: turn, ownerId: null, engine, openLine: connect, tenant, admin: tenant };
      try {
        await ask(target, "query", { sql: "select 1", rollback: false, readOnly: true }, signal);
        return true;
      } catch (error) {
        if (error instanceof ServerUnreachable && refusedLogin[engine].test(error.message)) return false;
        throw error;
      }
    },
  };
}
