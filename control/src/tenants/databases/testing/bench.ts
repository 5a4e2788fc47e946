import { once } from "node:events";
import { connect } from "node:net";
import { dirname } from "node:path";
import mysql from "mysql2/promise";
import pg from "pg";
import { startMariadb } from "./mariadb.ts";
import { startPostgres } from "./postgres.ts";
import { newBranch, type TestBranch, type TestServer, testRunner } from "./server.ts";

/** Milliseconds, one after the other. */
interface Measured {
  console: number[];
  /** A login of a driver in this very process, and the same statement. */
  driver: number[];
}

const engines = { postgres: startPostgres, mariadb: startMariadb };

/** How long `select 1` takes, `times` times in turn, each with a login of its own. */
export async function measureConsole(engine: keyof typeof engines, times: number): Promise<Measured> {
  await using server = await engines[engine]();
  await using runner = testRunner();
  const branch = await newBranch(runner, server);
  const asked = { sql: "select 1", rollback: false, readOnly: false };
  const measured: Measured = { console: [], driver: [] };
  // The first ones wait for a child that is being started.
  for (let warm = 0; warm < 5; warm += 1) await runner.ask(branch.target, "query", asked);
  for (let time = 0; time < times; time += 1) {
    measured.console.push(await lasting(() => runner.ask(branch.target, "query", asked)));
    measured.driver.push(await lasting(() => bare[engine](server, branch)));
  }
  return measured;
}

async function lasting(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}

const bare = {
  async postgres({ socket }: TestServer, { role: user, password, database }: TestBranch) {
    const client = new pg.Client({ host: dirname(socket), user, password, database });
    await client.connect();
    await client.query("select 1");
    await client.end();
  },
  async mariadb({ socket }: TestServer, { role: user, password, database }: TestBranch) {
    const stream = connect(socket);
    await once(stream, "connect");
    const connection = await mysql.createConnection({ stream, user, password, database });
    await connection.query("select 1");
    await connection.end();
  },
};
