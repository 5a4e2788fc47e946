import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tokenKeySettings } from "./fleet/registry-tokens/testing.ts";
import { type TestDatabase, testDatabase } from "./stores/db/testing.ts";
import { type EtcdServer, startEtcd, until } from "./stores/etcd/testing.ts";
import { startProxy, type TcpProxy } from "./stores/etcd/testing-proxy.ts";

/*
 * The program ends when it is asked to, whatever its stores do. A store that is cut off answers nothing and closes
 * nothing, as one whose machine hangs or whose cable is out.
 */

let database: TestDatabase;
let etcd: EtcdServer;
let postgresProxy: TcpProxy;
let etcdProxy: TcpProxy;
beforeAll(async () => {
  [database, etcd] = await Promise.all([testDatabase(), startEtcd()]);
  // A Postgres of tests listens in a directory only.
  const directory = new URL(database.url).searchParams.get("host") ?? "";
  [postgresProxy, etcdProxy] = await Promise.all([startProxy(join(directory, ".s.PGSQL.5432")), startProxy(etcd.port)]);
});
afterAll(async () => {
  await Promise.all([postgresProxy[Symbol.asyncDispose](), etcdProxy[Symbol.asyncDispose]()]);
  await etcd[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

const main = fileURLToPath(new URL("main.ts", import.meta.url));

/** The real program with both stores behind their proxies. */
function serve(): { child: ChildProcess; output(): string; ended: Promise<unknown> } {
  const { pathname, username } = new URL(database.url);
  const child = spawnProgram([thisNode, main, "serve"], {
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      ...tokenKeySettings,
      SVC_DATABASE_URL: `postgres://${username}@${new URL(postgresProxy.endpoint).host}${pathname}`,
      SVC_ETCD_ENDPOINTS: etcdProxy.endpoint,
      SVC_API_LISTEN: "127.0.0.1:0",
      SVC_LINK_LISTEN: "127.0.0.1:0",
      SVC_ENROLL_LISTEN: "127.0.0.1:0",
      SVC_MASTER_KEY: randomBytes(32).toString("base64"),
      SVC_AUTH_SECRET: randomBytes(32).toString("hex"),
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const keep = (text: string): void => {
    output += text;
  };
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", keep);
  return { child, output: () => output, ended: once(child, "exit") };
}

test("it ends when it is asked to, also when both of its stores are cut off", async () => {
  const { child, output, ended } = serve();
  try {
    await until("it serves, or has failed", () => output().includes('"ready"') || child.exitCode !== null, 120_000);
    for (const proxy of [postgresProxy, etcdProxy]) proxy.blackHole();
    child.kill("SIGTERM");
    await ended;
    expect(output()).toContain('"ready"');
    // By itself: nobody has to kill it.
    expect(child.signalCode).toBeNull();
  } finally {
    child.kill("SIGKILL");
    for (const proxy of [postgresProxy, etcdProxy]) proxy.heal();
  }
});
