import { once } from "node:events";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { type Argv, getProgram, spawnProgram } from "@svc/runtime/programs";
import { serverDirectory, serverRights } from "../../../stores/db/testing.ts";
import { nativeHash } from "../sql/native-hash.ts";
import { layData } from "./data.ts";
import { untilListening } from "./listening.ts";
import { adminUser, type TestServer } from "./server.ts";

/** Debian's, of which the server makes its own tables; named by the one or the other name, as the version goes. */
const share = "/usr/share/mysql";
const systemTables = /^(mysql|mariadb)_(system|performance)_tables\.sql$/;

/** A MariaDB with nobody but the platform's user, as in an instance, without durability. */
export async function startMariadb(): Promise<TestServer> {
  const dir = await serverDirectory("branch");
  const files = join(dir, "files");
  await run(["setpriv", ...serverRights, "--", "mkdir", files]);
  const password = await layData("mariadb", dir, makeData);
  const socket = join(dir, "mysqld.sock");
  const open = [`--socket=${socket}`, "--skip-networking", "--local-infile=0", `--secure-file-priv=${files}`];
  // As instances have it: a log of changes, and owners with triggers of their own.
  const logged = ["--log-bin=binlog", "--binlog-format=ROW", "--log-bin-trust-function-creators=1"];
  const child = spawnProgram([...serverOver(dir), ...open, ...logged], {
    cwd: dir,
    env: {},
    stdio: ["ignore", "ignore", "ignore"],
  });
  await untilListening(child, socket);
  // It has nothing to keep.
  const kill = async () => {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  };
  return {
    engine: "mariadb",
    socket,
    admin: { user: adminUser, password, database: "mysql" },
    kill,
    async [Symbol.asyncDispose]() {
      await kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** The program with its rights, over the data in `dir`. */
const serverOver = (dir: string): Argv => [
  "setpriv",
  ...["--pdeathsig", "KILL", ...serverRights, "--", getProgram("mariadbd")],
  ...["--no-defaults", `--datadir=${join(dir, "data")}`, `--lc-messages-dir=${share}`],
  ...["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"],
  "--performance-schema=off",
];

async function makeData(dir: string, password: string): Promise<void> {
  await run(["setpriv", ...serverRights, "--", "mkdir", join(dir, "data")]);
  // Those of the system come first.
  const scripts = (await readdir(share))
    .filter((name) => systemTables.test(name))
    .toSorted()
    .toReversed();
  const texts = await Promise.all(scripts.map((file) => readFile(join(share, file), "utf8")));
  const admin = `'${adminUser}'@'%' identified via mysql_native_password using '${nativeHash(password)}'`;
  const input = [
    "create database mysql;\nuse mysql;",
    ...texts,
    "flush privileges;",
    `create user ${admin};`,
    `grant all on *.* to '${adminUser}'@'%' with grant option;\n`,
  ].join("\n");
  await run([...serverOver(dir), "--skip-log-bin", "--bootstrap"], { input, cwd: dir, env: {} });
}
