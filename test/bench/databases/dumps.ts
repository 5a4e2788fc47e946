import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { execIn } from "@svc/agent/testing/database";
import { type DatabaseEngine, databaseEngines } from "@svc/proto";
import type { Cluster } from "../../cluster.ts";
import { succeeded } from "../../support/api.ts";
import type { Row } from "../table.ts";
import { type Branch, dropProject, emptyProject, type Login, loginOf, makeBranch, serverOf } from "./branch.ts";

const completeMs = 300_000;
const pollMs = 50;

interface Dialect {
  /** Makes a table of some 100 MB whose text does not pack to nothing. */
  fill: string;
  sizeBytes: string;
  /** Of the image, as the tenant's role: runs the statement. */
  client(login: Login, statement: string): { words: string[]; env: string[] };
  /** A pipe of the image's shell that reads all of it out, or writes it over what is there. */
  dump(login: Login): string;
  restore(login: Login): string;
  aims: { dump: number; restore: number };
}

const dialects: Record<DatabaseEngine, Dialect> = {
  postgres: {
    fill: `create table filled as select n as id, md5(n::text) || md5((n + 1)::text) as a, md5((-n)::text) as b
      from generate_series(1, 700000) n`,
    sizeBytes: "select pg_database_size(current_database())",
    client: ({ user, password, database }, statement) => ({
      words: [
        ...["/usr/lib/postgresql/17/bin/psql", "--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"],
        ...["--host=/socket", `--username=${user}`, `--command=${statement}`, database],
      ],
      env: [`PGPASSWORD=${password}`],
    }),
    dump: ({ user, database }) =>
      `/usr/lib/postgresql/17/bin/pg_dump -x -O -h /socket -U ${user} ${database} > /data/bench.sql`,
    restore: ({ user, database }) =>
      `{ echo 'drop table filled;'; cat /data/bench.sql; } | /usr/lib/postgresql/17/bin/psql -X -q -1 -v ON_ERROR_STOP=1 -h /socket -U ${user} ${database} > /dev/null`,
    aims: { dump: 100, restore: 50 },
  },
  mariadb: {
    fill: `create table filled (id int primary key, a char(64), b char(32));
      insert into filled select seq, concat(md5(seq), md5(seq + 1)), md5(-seq) from seq_1_to_500000; analyze table filled`,
    sizeBytes:
      "select cast(sum(data_length + index_length) as char) from information_schema.tables where table_schema = database()",
    client: ({ user, password, database }, statement) => ({
      words: [
        ...["/usr/bin/mariadb", "--no-defaults", "--batch", "--skip-column-names", "--socket=/socket/mysqld.sock"],
        ...[`--user=${user}`, `--execute=${statement}`, database],
      ],
      env: [`MYSQL_PWD=${password}`],
    }),
    dump: ({ user, database }) =>
      `/usr/bin/mariadb-dump --no-defaults --single-transaction --no-tablespaces -S /socket/mysqld.sock -u ${user} ${database} > /data/bench.sql`,
    restore: ({ user, database }) =>
      `/usr/bin/mariadb --no-defaults -S /socket/mysqld.sock -u ${user} ${database} < /data/bench.sql`,
    aims: { dump: 60, restore: 20 },
  },
};

async function inServer(id: string, words: string[], env: string[]): Promise<string> {
  const { code, text } = await execIn(id, words, env);
  if (code !== 0) throw new Error(`${words[0]} ended with ${code}: ${text}`);
  return text.trim();
}

/** Milliseconds. */
async function lasting(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

/** Asks for a backup and polls until it is complete. Returns its id. */
async function backUp(cluster: Cluster, { projectId }: Branch): Promise<string> {
  const path = `/projects/${projectId}/database/backups`;
  const { backupId } = (await succeeded(cluster, "POST", path)) as { backupId: string };
  for (const end = performance.now() + completeMs; ; await delay(pollMs)) {
    const { backup } = (await succeeded(cluster, "GET", `${path}/${backupId}`)) as {
      backup: { status: string; error: string };
    };
    if (backup.status === "complete") return backupId;
    if (backup.status === "failed" || performance.now() > end) throw new Error(`${backup.status}: ${backup.error}`);
  }
}

/**
 * Megabytes of the database per second: from the request for a backup until it is complete, and of `svc db restore` of its
 * file; beside the engine's own programs in the server's container, which pack and send nothing.
 */
export async function dumpRates(cluster: Cluster, times: number): Promise<Row[]> {
  const dir = await mkdtemp(join(tmpdir(), "svc-bench-dumps-"));
  const rows: Row[] = [];
  for (const engine of databaseEngines) {
    const { fill, sizeBytes, client, dump, restore, aims } = dialects[engine];
    const projectId = await emptyProject(cluster);
    const branch = await makeBranch(cluster, projectId, { engine });
    const login = await loginOf(cluster, branch);
    const { id } = await serverOf(cluster, branch);
    const sql = (statement: string) => {
      const { words, env } = client(login, statement);
      return inServer(id, words, env);
    };
    await sql(fill);
    const megabytes = Number(await sql(sizeBytes)) / 1e6;
    const { env } = client(login, "");
    const shell = (line: string) => inServer(id, ["/bin/sh", "-c", line], env);
    const rate = async (work: () => Promise<unknown>) => (megabytes * 1_000) / (await lasting(work));
    const found = {
      dump: [] as number[],
      bareDump: [] as number[],
      restore: [] as number[],
      bareRestore: [] as number[],
    };
    const target = ["--project", projectId] as const;
    const file = join(dir, `${engine}.sql.gz`);
    const svc = async (...words: string[]) => {
      const { exitCode, stdout, stderr } = await cluster.cli([...words, ...target, "--json"], { cwd: dir });
      if (exitCode !== 0) throw new Error(`svc ${words.join(" ")}: ${stdout}${stderr}`);
    };
    for (let round = 0; round < times; round += 1) {
      found.bareDump.push(await rate(() => shell(dump(login))));
      let backupId = "";
      found.dump.push(
        await rate(async () => {
          backupId = await backUp(cluster, branch);
        }),
      );
      found.bareRestore.push(await rate(() => shell(restore(login))));
      await rm(file, { force: true });
      await svc("db", "backup", "download", backupId, "--output", file);
      found.restore.push(await rate(() => svc("db", "restore", file, "--yes")));
    }
    await dropProject(cluster, projectId);
    const atLeast = (least: number): Row["aim"] => ({ text: `>= ${least} MB/s`, met: (value) => value >= least });
    const size = `${Math.round(megabytes)} MB`;
    rows.push(
      {
        ...{ name: `databases: a backup of ${size} until complete, ${engine}`, unit: "MB/s", samples: found.dump },
        ...{ floor: { name: "bare dump", samples: found.bareDump }, aim: atLeast(aims.dump) },
      },
      {
        ...{ name: `databases: svc db restore of ${size}, ${engine}`, unit: "MB/s", samples: found.restore },
        ...{ floor: { name: "bare client", samples: found.bareRestore }, aim: atLeast(aims.restore) },
      },
    );
  }
  await rm(dir, { recursive: true, force: true });
  return rows;
}
