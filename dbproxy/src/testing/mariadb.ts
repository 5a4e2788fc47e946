import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { argv } from "@svc/runtime/programs";
import { createConnection } from "mysql2/promise";
import type { Branch } from "./branch.ts";
import { makeServerDirectory, runServer, type ServerProcess, serverDirectory, unprivileged } from "./server-process.ts";

export interface TestMariadb extends ServerProcess {
  socketPath: string;
  /** Makes user and database of a branch. */
  add(branch: Branch): Promise<void>;
  /** A statement as the platform's own user, past any proxy. */
  admin(text: string): Promise<unknown>;
}

const adminPassword = "Secret-of-the-platform";
const scripts = "/usr/share/mysql";

/** What makes the server's own tables in an empty directory; from version 11 on the files begin with MariaDB's name. */
async function systemTables(): Promise<string> {
  const names = await readdir(scripts);
  const read = async (end: string) => {
    const name = names.find((each) => new RegExp(`^(mariadb|mysql)_${end}\\.sql$`).test(each));
    return name === undefined ? "" : readFile(join(scripts, name), "utf8");
  };
  const tables = [await read("system_tables"), await read("performance_tables"), await read("system_tables_data")];
  return ["create database mysql;", "use mysql;", "set @auth_root_socket=null;", ...tables].join("\n");
}

/** A MariaDB on a Unix socket alone, where nobody comes in for the user of the machine that asks. */
export async function startMariadb(): Promise<TestMariadb> {
  const dir = await serverDirectory("svc-dbproxy-mariadb-");
  const [data, socketPath] = [join(dir, "data"), join(dir, "mysqld.sock")];
  await makeServerDirectory(data);
  const bootstrap = argv("mariadbd", "--no-defaults", "--bootstrap", `--datadir=${data}`, `--tmpdir=${dir}`);
  const env = { PATH: process.env["PATH"] };
  await run(["setpriv", ...unprivileged, "--", ...bootstrap], { cwd: dir, env, input: await systemTables() });
  let password = "";
  async function admin(text: string): Promise<unknown> {
    const connection = await createConnection({ socketPath, user: "root", password });
    try {
      const [rows] = await connection.query(text);
      return rows;
    } finally {
      await connection.end();
    }
  }
  const server = await runServer({
    dir,
    argv: [
      ...argv("mariadbd", "--no-defaults"),
      ...[`--datadir=${data}`, `--socket=${socketPath}`, `--log-error=${join(dir, "log")}`, `--tmpdir=${dir}`],
      ...["--skip-networking", "--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0"],
      ...["--max-allowed-packet=64M", "--local-infile=0", `--pid-file=${join(dir, "pid")}`],
    ],
    stopSignal: "SIGTERM",
    isReady: async () => (await admin("select 1")) !== null,
  });
  await admin(`alter user root@localhost identified via mysql_native_password using password('${adminPassword}')`);
  password = adminPassword;
  return Object.assign(server, {
    socketPath,
    admin,
    async add({ role, database, password }: Branch) {
      await admin(`create database ${database}`);
      await admin(`create user '${role}'@'%' identified via mysql_native_password using password('${password}')`);
      await admin(`grant all on \`${database.replaceAll("_", "\\_")}\`.* to '${role}'@'%'`);
    },
  });
}
