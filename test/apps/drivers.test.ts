import { once } from "node:events";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { repositoryRoot } from "@svc/deploy/paths";
import { databaseEngines } from "@svc/proto";
import { CommandError, run } from "@svc/runtime/command";
import { ownProgram, spawnProgram } from "@svc/runtime/programs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster.ts";
import { deploy } from "../support/deploy.ts";
import { waitFor } from "../support/wait-for.ts";
import sql from "./drivers/sql.json" with { type: "json" };

/**
 * Drivers as apps use them, by the address that an app is told: each runs in the network of an app's container, with the
 * names that are known there.
 */

/** Of util-linux, which every Debian has. */
const nsenter = ownProgram("/usr/bin/nsenter");
const python = "/usr/bin/python3";

const installMs = 5 * 60_000;
const checkMs = 120_000;

interface Place {
  /** What its app is told. */
  url: string;
  pid: number;
  hostsFile: string;
}

let cluster: Cluster;
let dir = "";
const places = new Map<string, Place>();

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-drivers-"));
  await cp(join(repositoryRoot, "test", "apps", "drivers"), join(dir, "drivers"), { recursive: true });
  const cwd = join(dir, "drivers");
  const at = { cwd, env: process.env, timeoutMs: installMs };
  await run(["npm", "install", "--no-audit", "--no-fund"], at);
  await run(
    [ownProgram(python), "-m", "pip", "install", "--quiet", "--target", "python", "--requirement", "requirements.txt"],
    at,
  );
  cluster = await startCluster({ agents: 1 });
  for (const engine of databaseEngines) places.set(engine, await aPlace(engine));
}, installMs * 3);
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

/** An app that does nothing, and has a database. */
async function aPlace(engine: string): Promise<Place> {
  const source = join(dir, engine);
  await mkdir(source);
  await writeFile(
    join(source, "svc.yml"),
    `version: 2\nslug: drivers-${engine}\napp: { name: Drivers, type: ssr }\nstart: { command: node server.js }\ndatabase: { enabled: true, engine: ${engine} }\n`,
  );
  await writeFile(join(source, "package.json"), JSON.stringify({ name: "drivers", version: "1.0.0", type: "module" }));
  await writeFile(
    join(source, "server.js"),
    'import http from "node:http";\nhttp.createServer((_, reply) => reply.end("well")).listen(process.env.PORT);\n',
  );
  const { project } = await deploy(cluster, source);
  const found = (await cluster.containers()).find(
    ({ labels, state }) =>
      labels["svc.project"] === project.id && labels["svc.database"] === undefined && state === "running",
  );
  if (found === undefined) throw new Error("the app has no container");
  const { Config, State, HostsPath } = await cluster.platform.docker.getContainer(found.id).inspect();
  const [, url] = /^DATABASE_URL=(.*)$/m.exec(Config.Env.join("\n")) ?? [];
  if (url === undefined) throw new Error("the app is told of no database");
  return { url, pid: State.Pid, hostsFile: HostsPath };
}

const place = (engine: string): Place => {
  const found = places.get(engine);
  if (found === undefined) throw new Error(`there is no ${engine}`);
  return found;
};

/** Words for `nsenter` that run a program of this machine in the network of the engine's app. */
function inNetwork(engine: string, words: readonly string[]): string[] {
  const { pid, hostsFile } = place(engine);
  const withNames = 'mount --bind "$1" /etc/hosts && shift && exec "$@"';
  return [
    ...[`--net=/proc/${pid}/ns/net`, "--", "/usr/bin/unshare", "--mount", "--"],
    ...["sh", "-c", withNames, "sh", hostsFile, ...words],
  ];
}

const optionsFor = (engine: string) => ({
  cwd: join(dir, "drivers"),
  env: { PATH: process.env["PATH"] ?? "", DATABASE_URL: place(engine).url, PYTHONPATH: "python" },
});
const ask = (engine: string, words: readonly string[], input = "") =>
  run([nsenter, ...inNetwork(engine, words)], { ...optionsFor(engine), timeoutMs: checkMs, input });

const codes = {
  postgres: { cancelled: "57014", wrongPassword: "28P01", crowded: "53300" },
  mariadb: { cancelled: "1317", wrongPassword: "1045", crowded: "1040" },
} as const;

describe.each([
  { driver: "pg", engine: "postgres", words: [process.execPath, "pg.js"] },
  { driver: "postgres.js", engine: "postgres", words: [process.execPath, "postgres.js"] },
  { driver: "psycopg", engine: "postgres", words: [python, "checks.py", "psycopg"] },
  { driver: "mysql2", engine: "mariadb", words: [process.execPath, "mysql2.js"] },
  { driver: "mariadb", engine: "mariadb", words: [process.execPath, "mariadb.js"] },
  { driver: "PyMySQL", engine: "mariadb", words: [python, "checks.py", "pymysql"] },
] as const)("$driver", ({ engine, words }) => {
  test("does what drivers do, and hears the engine's own refusals", { timeout: checkMs }, async () => {
    expect(JSON.parse((await ask(engine, words)).stdout)).toEqual({
      ...{ prepared: [2, 3, 4], rolledBack: 0, rows: 1_000, sum: 500_500, echoed: sql[engine].echoed },
      ...{ ...codes[engine], afterwards: 7, atLast: 8 },
    });
  });
});

/** Statements with the engine's own client, which runs on with what it is given after an error only if it is told to. */
const script = (engine: "postgres" | "mariadb", url = place(engine).url): readonly string[] => {
  if (engine === "postgres") return ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url];
  const { hostname, port, username, password, pathname } = new URL(url);
  const at = [`--host=${hostname}`, `--port=${port}`, `--user=${username}`, `--password=${password}`];
  return ["mariadb", "--no-defaults", "-N", "-B", "--default-character-set=utf8mb4", ...at, pathname.slice(1)];
};
const wrongly = (engine: string): string => {
  const url = new URL(place(engine).url);
  url.password = "wrong";
  return url.href;
};

describe.each([
  {
    ...{ program: "psql", engine: "postgres", table: sql.postgres.table, fill: sql.postgres.fill },
    prepared: "prepare p as select $1::int + 1; execute p(1); deallocate p;",
    refused: /password authentication failed for user/,
  },
  {
    ...{ program: "mariadb", engine: "mariadb", table: sql.mariadb.table, fill: sql.mariadb.fill },
    prepared: "prepare p from 'select ? + 1'; execute p using 1; deallocate prepare p;",
    refused: /ERROR 1045 \(28000\)/,
  },
] as const)("the program $program", ({ engine, prepared, table, fill, refused }) => {
  test("does the same, and hears the engine's own refusal", { timeout: checkMs }, async () => {
    const statements = `${prepared} ${table}; begin; insert into kept values (1); rollback; ${fill};
      select count(*), sum(n) from kept; select '🦔';`;
    const { stdout } = await waitFor("a connection", checkMs, () =>
      ask(engine, script(engine), statements).catch((error: unknown) => {
        if (error instanceof CommandError && error.output.includes("too many")) return null;
        throw error;
      }),
    );
    expect(stdout.trim().split(/[\n\t|]/)).toEqual(["2", "1000", "500500", "🦔"]);
    await expect(ask(engine, script(engine, wrongly(engine)), "select 1;")).rejects.toThrow(refused);
  });
});

test("Ctrl-C in psql ends the statement", { timeout: checkMs }, async () => {
  const words = [...script("postgres"), "-c", sql.postgres.sleep];
  const child = spawnProgram([nsenter, ...inNetwork("postgres", words)], {
    ...optionsFor("postgres"),
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  const ended = once(child, "exit");
  await waitFor("the statement to run", checkMs, async () => {
    const { stdout } = await ask("postgres", script("postgres"), `${sql.postgres.sleeping};`);
    return stdout.trim() === "1";
  });
  child.kill("SIGINT");
  expect(await ended).toEqual([1, null]);
  expect(said).toContain("canceling statement due to user request");
});
