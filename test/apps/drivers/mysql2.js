import mysql from "mysql2/promise";
import { check } from "./checks.js";

await check({
  engine: "mariadb",
  mark: () => "?",
  codeOf: (error) => error.errno,
  async connect(uri) {
    const connection = await mysql.createConnection({ uri, rowsAsArray: true });
    connection.on("error", () => {});
    const run = async (sql) => (await connection.query(sql))[0];
    return {
      run,
      prepared: async (sql, values) => (await connection.execute(sql, values))[0],
      async cancel(sleep, isAsleep, other) {
        const [[id]] = await run("select connection_id()");
        const sleeping = run(sleep);
        sleeping.catch(() => {});
        await isAsleep();
        await other.run(`kill query ${id}`);
        await sleeping;
      },
      end: () => connection.end(),
    };
  },
});
