import type { Duplex } from "node:stream";
import { keeperUser } from "@svc/proto/database";
import type { Login } from "../../requests.ts";
import type { AdminSession } from "../session.ts";
import { connectPostgres } from "./connection.ts";

/**
 * The platform's user never runs what a tenant named like something of the server's own, and is not who is kept from writing.
 */
const own = { search_path: "pg_catalog", default_transaction_read_only: "off" };

/** A keeper follows the log, makes a base, and asks how far the log is. */
const keeperSessions = 8;

/** After a login that was under way while the password changed. */
const terminations = 3;

/**
 * The platform's work on a server of Postgres. Names and verifiers are of letters that need no escape (the requests' shapes see to
 * that): the server takes no values in these statements.
 */
export async function openPostgresAdmin(line: Duplex, login: Login): Promise<AdminSession> {
  const connection = await connectPostgres(line, login, own);
  const run = async (sql: string, values: string[] = []) => (await connection.run(sql, values, 1_000)).rows;
  const exists = async (sql: string, name: string) => (await run(sql, [name])).length > 0;
  const hasRole = (name: string) => exists("select 1 from pg_roles where rolname = $1", name);
  const putOut = async (role: string) => {
    for (let round = 0; round < terminations; round += 1) {
      const ended = await run(
        "select pg_terminate_backend(pid, 2000) from pg_stat_activity where usename = $1 and pid <> pg_backend_pid()",
        [role],
      );
      if (ended.length === 0) return;
    }
  };

  /** All clients but this one: also those who came with the platform's own name, and may write for the tenant. */
  const endClients = async () => {
    for (let round = 0; round < terminations; round += 1) {
      const ended = await run(
        "select pg_terminate_backend(pid, 2000) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()",
      );
      if (ended.length === 0) return;
    }
    throw new Error("sessions do not end");
  };

  return {
    id: connection.id,
    async createTenant({ database, role, verifier, connectionLimit }) {
      const what = `with login password '${verifier}' connection limit ${connectionLimit}`;
      const rights = "nosuperuser nocreatedb nocreaterole noreplication nobypassrls";
      await run(`${(await hasRole(role)) ? "alter" : "create"} role "${role}" ${what} ${rights}`);
      // Left over from a drop that broke off: nobody can use it.
      const broken = "select 1 from pg_database where datname = $1 and datconnlimit = -2";
      if (await exists(broken, database)) await run(`drop database "${database}" with (force)`);
      if (!(await exists("select 1 from pg_database where datname = $1", database))) {
        // Copied as files: block by block, a template of 7 MB would lie in the server's memory for as long as it runs idle, and
        // in the log of every copy.
        const template = "template template0 strategy file_copy";
        await run(`create database "${database}" owner "${role}" ${template} encoding 'UTF8'`);
      }
      await run(`revoke all on database "${database}" from public`);
      for (const each of ["postgres", "template1"]) await run(`revoke all on database ${each} from public`);
    },
    async dropTenant({ database, role }) {
      await run(`drop database if exists "${database}" with (force)`);
      await putOut(role);
      await run(`drop role if exists "${role}"`);
    },
    async setVerifier({ role, verifier }) {
      // Whether it may log in at all is not for this to say: a branch that moves keeps it out.
      await run(`alter role "${role}" with password '${verifier}' valid until 'infinity'`);
      await putOut(role);
    },
    async readVerifier({ role }) {
      const [row] = await run("select rolpassword from pg_authid where rolname = $1", [role]);
      return typeof row?.[0] === "string" ? row[0] : null;
    },
    async holdReadOnly({ database, role, hasGrown }) {
      if ((await run("select 1 where pg_is_in_recovery()")).length > 0) return { isSoft: false };
      // The server's own default, which these would take the place of, is to read only.
      const settings = `select 1 from pg_db_role_setting, unnest(setconfig) as setting
        where setting like 'default\\_transaction\\_read\\_only=%' limit 1`;
      const isUndone = (await run(settings)).length > 0;
      if (isUndone) {
        for (const whose of [`role "${role}" in database "${database}"`, `role "${role}"`, `database "${database}"`])
          await run(`alter ${whose} reset default_transaction_read_only`);
      }
      const writers = "select 1 from pg_stat_activity where usename = $1 and backend_xid is not null";
      if (isUndone || hasGrown || (await exists(writers, role))) await putOut(role);
      return { isSoft: true };
    },
    async bringKeeper({ verifier }) {
      const what = `with login replication password '${verifier}' valid until 'infinity' connection limit ${keeperSessions}`;
      const rights = "nosuperuser nocreatedb nocreaterole nobypassrls noinherit";
      const [before] = await run(
        `select rolpassword, rolcanlogin and rolreplication and not rolsuper and rolvaliduntil is not distinct from 'infinity'
          and rolconnlimit = ${keeperSessions} and has_database_privilege(rolname, 'postgres', 'connect')
        from pg_authid where rolname = $1`,
        [keeperUser],
      );
      // A server that nobody writes to takes it from nobody either, and has it from before.
      if (before?.[0] === verifier && before[1] === true) return;
      await run(`${before === undefined ? "create" : "alter"} role ${keeperUser} ${what} ${rights}`);
      // Whoever follows the log asks there how far that is.
      await run(`grant connect on database postgres to ${keeperUser}`);
      if (before !== undefined && before[0] !== verifier) await putOut(keeperUser);
    },
    async releaseSlots({ slots }) {
      const left = await run(
        "select slot_name::text, active_pid::text from pg_replication_slots where slot_name = any ($1::name[])",
        [`{${slots.join(",")}}`],
      );
      for (const [slot, pid] of left) {
        if (typeof pid === "string") await run("select pg_terminate_backend($1::int4, 2000)", [pid]);
        await run("select pg_drop_replication_slot($1)", [String(slot)]);
      }
      return left.length;
    },
    async freeze({ role }) {
      await run(`alter role "${role}" nologin`);
      await endClients();
      // What the tenant committed without waiting for the disk is on it once this is.
      await run("select pg_logical_emit_message(true, 'svc', 'frozen')");
      const [row] = await run("select pg_current_wal_flush_lsn()::text");
      return { position: String(row?.[0]) };
    },
    isCopied: (slot, position) =>
      exists(`select 1 from pg_replication_slots where slot_name = $1 and restart_lsn >= '${position}'::pg_lsn`, slot),
    async usage({ database, role }) {
      const [row] = await run(
        `select pg_database_size($1::name)::text,
          (select count(*) from pg_stat_activity where usename = $2 and backend_type = 'client backend')::text`,
        [database, role],
      );
      return { sizeBytes: Number(row?.[0] ?? 0), activeConnections: Number(row?.[1] ?? 0) };
    },
    // Numbers of sessions come back: only one of that very role is meant.
    async cancel({ role, sessionId }) {
      const sql = "select pg_cancel_backend(pid) from pg_stat_activity where pid = $1::int4 and usename = $2";
      await run(sql, [String(sessionId), role]);
    },
    async terminate({ role, sessionId }) {
      const sql = "select pg_terminate_backend(pid) from pg_stat_activity where pid = $1::int4 and usename = $2";
      await run(sql, [String(sessionId), role]);
    },
  };
}
