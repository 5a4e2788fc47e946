import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

const url = process.env.DATABASE_URL;
const dialects = JSON.parse(readFileSync(new URL("sql.json", import.meta.url), "utf8"));
const crowd = 60;

/** How MariaDB ends a statement that is under way: from another session, by the session's number. */
export const killQuery = (run) => async (sleep, isAsleep, other) => {
  const [[id]] = await run("select connection_id()");
  const sleeping = run(sleep);
  sleeping.catch(() => {});
  await isAsleep();
  await other.run(`kill query ${id}`);
  await sleeping;
};

/**
 * What everybody does with a database, by one driver; prints what came of it.
 *
 * `connect(url)` gives { run(sql, values?), prepared(sql, values), cancel(sleeping), end() }, of which the first two give rows as arrays.
 * `codeOf(error)` is the server's own code, `mark(index)` a parameter in SQL.
 */
export async function check({ engine, connect, codeOf, mark }) {
  const sql = dialects[engine];
  /** New connections are counted by the second, and the driver before this one may have used them up. */
  const patiently = async (at = url) => {
    for (let tries = 100; ; tries -= 1) {
      try {
        return await connect(at);
      } catch (error) {
        if (tries === 0 || !["53300", "1040"].includes(String(codeOf(error)))) throw error;
        await delay(200);
      }
    }
  };
  const refusal = async (work) => {
    try {
      await work();
      return "none";
    } catch (error) {
      return String(codeOf(error) ?? error);
    }
  };
  const client = await patiently();
  const told = {};
  told.prepared = [];
  for (const n of [1, 2, 3]) told.prepared.push(Number((await client.prepared(sql.prepared.replace("{}", mark(0)), [n]))[0][0]));

  await client.run(sql.table);
  await client.run("begin");
  await client.run("insert into kept values (1)");
  await client.run("rollback");
  told.rolledBack = (await client.run("select n from kept")).length;
  await client.run(sql.fill);
  const rows = await client.run("select n from kept order by n");
  told.rows = rows.length;
  told.sum = rows.reduce((sum, [n]) => sum + Number(n), 0);

  let at = 0;
  const echo = sql.echo.replaceAll("{}", () => mark(at++));
  const values = sql.values.map((value) => (value?.hex === undefined ? value : Buffer.from(value.hex, "hex")));
  told.echoed = (await client.prepared(echo, values))[0].map(String);

  const other = await patiently();
  const isAsleep = async () => {
    while (Number((await other.run(sql.sleeping))[0][0]) === 0) await delay(20);
  };
  told.cancelled = await refusal(() => client.cancel(sql.sleep, isAsleep, other));
  told.afterwards = Number((await client.run("select 7"))[0][0]);
  await other.end();

  const wrong = new URL(url);
  wrong.password = "wrong";
  told.wrongPassword = await refusal(async () => (await patiently(wrong.href)).end());

  const open = [client];
  told.crowded = await refusal(async () => {
    while (open.length < crowd) open.push(await connect(url));
  });
  for (const each of open) await each.end();
  const last = await patiently();
  told.atLast = Number((await last.run("select 8"))[0][0]);
  await last.end();
  console.log(JSON.stringify(told));
}
