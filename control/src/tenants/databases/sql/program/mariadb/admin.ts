import type { Duplex } from "node:stream";
import { keeperUser } from "@svc/proto/database";
import type { Login } from "../../requests.ts";
import type { AdminSession } from "../session.ts";
import { connectMariadb } from "./connection.ts";

/** All that an owner needs within a database. Nothing that reaches files, other sessions, or times to come. */
const rights = [
  ...["select", "insert", "update", "delete", "create", "drop", "alter", "index", "references", "lock tables"],
  ...["create temporary tables", "create view", "show view", "create routine", "alter routine", "execute", "trigger"],
].join(", ");

/**
 * All that a dump with its place in the log, and following that log from there, need. Nothing that changes anything: with `reload`
 * a node that was taken over could stop all writers, or begin the log anew under names that other copies have.
 */
const keeperRights = "select, show view, trigger, process, binlog monitor, replication slave";

/** No such session: it has ended by itself. */
const unknownSession = 1094;

/** The platform's work on a server of MariaDB. Names and verifiers are of letters that need no escape. */
export async function openMariadbAdmin(line: Duplex, login: Login): Promise<AdminSession> {
  const connection = await connectMariadb(line, login, { severalStatements: false });
  const run = async (sql: string) => (await connection.query(sql, 10_000)).rows;
  const kill = async (what: "query" | "connection", id: number) => {
    try {
      await run(`kill ${what} ${id}`);
    } catch (error) {
      if ((error as { errno?: number }).errno !== unknownSession) throw error;
    }
  };
  const sessionsOf = async (role: string, id: number | null = null) => {
    const which = id === null ? "" : ` and ID = ${id}`;
    return (await run(`select ID from information_schema.PROCESSLIST where USER = '${role}'${which}`)).map(([found]) =>
      Number(found),
    );
  };
  const putOut = async (role: string) => {
    for (const id of await sessionsOf(role)) await kill("connection", id);
  };
  /** Those of the tenant and of the platform's own name, but for this one. A session that is killed is there until it has undone what it was at. */
  const endClients = async (role: string) => {
    const own = `select ID from information_schema.PROCESSLIST where USER in ('${role}', '${login.user}') and ID <> connection_id()`;
    for (let round = 0; round < 40; round += 1) {
      const left = await run(own);
      if (left.length === 0) return;
      for (const [id] of left) await kill("connection", Number(id));
      await run("do sleep(0.05)");
    }
    throw new Error("sessions do not end");
  };
  const identity = (role: string, verifier: string) =>
    `'${role}'@'%' identified via mysql_native_password using '${verifier}'`;

  return {
    id: connection.id,
    async createTenant({ database, role, verifier, connectionLimit }) {
      await run(`create database if not exists \`${database}\` character set utf8mb4`);
      await run(`create user if not exists ${identity(role, verifier)}`);
      await run(`alter user ${identity(role, verifier)} with max_user_connections ${connectionLimit} account unlock`);
      // In a grant `_` stands for any character.
      await run(`grant ${rights} on \`${database.replaceAll("_", "\\_")}\`.* to '${role}'@'%'`);
    },
    async dropTenant({ database, role }) {
      await run(`drop user if exists '${role}'@'%'`);
      await putOut(role);
      await run(`drop database if exists \`${database}\``);
    },
    async setVerifier({ role, verifier }) {
      await run(`alter user ${identity(role, verifier)}`);
      await putOut(role);
    },
    async readVerifier({ role }) {
      const [row] = await run(
        `select json_value(Priv, '$.authentication_string') from mysql.global_priv where User = '${role}' and Host = '%'`,
      );
      return typeof row?.[0] === "string" ? row[0] : null;
    },
    // Its users have no right to set the server's setting, or to write in spite of it.
    holdReadOnly: async () => ({ isSoft: false }),
    async bringKeeper({ verifier }) {
      const [before] = await run(
        `select json_value(Priv, '$.authentication_string') from mysql.global_priv where User = '${keeperUser}' and Host = '%'`,
      );
      await run(`create user if not exists ${identity(keeperUser, verifier)}`);
      await run(`alter user ${identity(keeperUser, verifier)}`);
      await run(`grant ${keeperRights} on *.* to '${keeperUser}'@'%'`);
      if (before !== undefined && before[0] !== verifier) await putOut(keeperUser);
    },
    // Nothing is kept for those who read its log.
    releaseSlots: async () => 0,
    async freeze({ role }) {
      // It is said again until a copy is known to have everything: each `alter` is one more thing in the log for it to have.
      const [user] = await run(
        `select json_extract(Priv, '$.account_locked') from mysql.global_priv where User = '${role}' and Host = '%'`,
      );
      if (user?.[0] !== "true") await run(`alter user '${role}'@'%' account lock`);
      await endClients(role);
      const [row] = await run("select @@global.gtid_binlog_pos");
      return { position: String(row?.[0] ?? "") };
    },
    // Who reads the log of a MariaDB tells it nothing.
    isCopied: async () => false,
    async usage({ database, role }) {
      const own = `'${database.replaceAll("_", "\\_")}/%'`;
      const [row] = await run(
        `select cast(coalesce((select sum(FILE_SIZE) from information_schema.INNODB_SYS_TABLESPACES where NAME like ${own}), 0)
            + coalesce((select sum(DATA_LENGTH + INDEX_LENGTH) from information_schema.TABLES
                where TABLE_SCHEMA = '${database}' and ENGINE <> 'InnoDB'), 0) as char),
          (select count(*) from information_schema.PROCESSLIST where USER = '${role}')`,
      );
      return { sizeBytes: Number(row?.[0] ?? 0), activeConnections: Number(row?.[1] ?? 0) };
    },
    // Only a session of that very role is meant.
    async cancel({ role, sessionId }) {
      for (const id of await sessionsOf(role, sessionId)) await kill("query", id);
    },
    async terminate({ role, sessionId }) {
      for (const id of await sessionsOf(role, sessionId)) await kill("connection", id);
    },
  };
}
