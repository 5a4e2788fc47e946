import mysql from "mysql2/promise";
import { check, killQuery } from "./checks.js";

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
      cancel: killQuery(run),
      end: () => connection.end(),
    };
  },
});
