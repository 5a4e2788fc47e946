import postgres, { type Sql } from "postgres";

/** A pool for an address that names the socket's directory as `host` in its query, which postgres.js does not look for there. */
export function connectTo(address: string): Sql {
  const { searchParams, username, pathname } = new URL(address);
  const host = searchParams.get("host");
  if (host === null) throw new Error("the address names no socket");
  return postgres({ host, username, database: pathname.slice(1) });
}

let created = 0;

export interface TestDatabase extends AsyncDisposable {
  /** The socket of its server. */
  socket: string;
  /** A pool of its own, which ends with the database. */
  connect(options?: { host?: string; port?: number }): Sql;
  admin: Sql;
}

/** An empty database on the Postgres of the test run: notifications are of one database, and so no other test's. */
export async function testDatabase(): Promise<TestDatabase> {
  const dir = process.env["SVC_TEST_POSTGRES"];
  if (dir === undefined) throw new Error("the test run has no Postgres: its global set-up starts one");
  created += 1;
  const name = `realtime_${process.pid}_${created}`;
  const pools: Sql[] = [];
  const pool = (database: string, options: { host?: string; port?: number } = {}): Sql => {
    const sql = postgres({ host: dir, user: "postgres", database, connect_timeout: 5, onnotice: () => {}, ...options });
    pools.push(sql);
    return sql;
  };
  const server = pool("postgres");
  await server`create database ${server(name)}`;
  return {
    socket: `${dir}/.s.PGSQL.5432`,
    connect: (options) => pool(name, options),
    admin: pool(name),
    async [Symbol.asyncDispose]() {
      await Promise.all(pools.filter((each) => each !== server).map((each) => each.end({ timeout: 1 })));
      await server`drop database ${server(name)} with (force)`;
      await server.end();
    },
  };
}
