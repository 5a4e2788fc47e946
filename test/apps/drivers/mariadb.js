import mariadb from "mariadb";
import { check, killQuery } from "./checks.js";

await check({
  engine: "mariadb",
  mark: () => "?",
  codeOf: (error) => error.errno,
  async connect(url) {
    const { hostname: host, port, username: user, password, pathname } = new URL(url);
    const at = { host, port: Number(port), user, password, database: pathname.slice(1) };
    const connection = await mariadb.createConnection({ ...at, rowsAsArray: true });
    connection.on("error", () => {});
    const run = (sql) => connection.query(sql);
    return {
      run,
      prepared: (sql, values) => connection.execute(sql, values),
      cancel: killQuery(run),
      end: () => connection.end(),
    };
  },
});
