import { once } from "node:events";
import { readdir, readFile, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { createKey, listProjects, signIn } from "@svc/deploy/api";
import { findEngine } from "@svc/deploy/engine";
import { type Info, readInfo } from "@svc/deploy/info";
import { nodeBinary, repositoryRoot } from "@svc/deploy/paths";
import { freePorts, type Ports, portNames, portSettings } from "@svc/deploy/ports";
import { identify, isAlive, type ProcessId, signalProcess } from "@svc/deploy/process-id";
import { readSettings } from "@svc/deploy/settings";
import { findSupervisor } from "@svc/deploy/supervisor";
import { CommandError, run } from "@svc/runtime/command";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { edgeFetch } from "../support/edge.ts";
import { discardCluster, makeClusterDir, platformDir } from "../support/sweep.ts";
import { waitFor } from "../support/wait-for.ts";

const commandMs = 280_000;
const { dockerSocket } = readSettings(process.env, repositoryRoot);

let dir = "";
let ports: Ports;
let first: Info;
beforeAll(async () => {
  dir = await makeClusterDir();
  ports = await freePorts(systemRandom);
});
afterAll(async () => {
  await npm("stop");
  await discardCluster(dir, dockerSocket);
});

/** What `npm start`, `npm stop` run, in this test's directory and on its ports. Returns what was printed. */
async function npm(...words: [string, ...string[]]): Promise<string> {
  const own = Object.fromEntries(portNames.map((name) => [portSettings[name].setting, String(ports[name])]));
  const argv = [nodeBinary(), join(repositoryRoot, "deploy", "bootstrap.mjs"), ...words] as const;
  const env = { ...process.env, ...own, SVC_LOCAL_DIR: platformDir(dir) };
  const { stdout, stderr } = await run([...argv], { env, timeoutMs: commandMs });
  return stdout + stderr;
}

const info = async (): Promise<Info> => {
  const found = await readInfo(join(platformDir(dir), "info.json"));
  if (found === null) throw new Error("there is no info.json");
  return found;
};

const programs = async (): Promise<(ProcessId & { name: string })[]> => {
  const records = join(platformDir(dir), "run");
  const names = await readdir(records);
  return Promise.all(
    names.map(async (name) => {
      const { pid }: { pid: number } = JSON.parse(await readFile(join(records, name), "utf8"));
      return { name, ...identify(pid) };
    }),
  );
};

async function containers(): Promise<string[]> {
  const { clusterId }: { clusterId: string } = JSON.parse(await readFile(join(platformDir(dir), "state.json"), "utf8"));
  const docker = await findEngine(systemClock, dockerSocket);
  const found = await docker?.listContainers({ all: true, filters: { label: [`svc.cluster=${clusterId}`] } });
  return (found ?? []).map(({ Id }) => Id);
}

/** Ids of the administrator's projects, by slug. */
async function projectIds({ apiUrl, admin }: Info): Promise<Record<string, string>> {
  const { key } = await createKey(systemClock, apiUrl, await signIn(systemClock, apiUrl, admin), {
    name: "tests",
    expiresInSeconds: 86_400,
  });
  return Object.fromEntries((await listProjects(systemClock, apiUrl, key)).map(({ slug, id }) => [slug, id]));
}

async function expectSitesServed({ examples }: Info): Promise<void> {
  expect(examples.map(({ name }) => name)).toEqual(["static", "ssr", "database", "ociimage"]);
  for (const { url } of examples) expect((await edgeFetch(url)).status, url).toBe(200);
}

test("a taken port is one clear line, and nothing is started", async () => {
  const squatter = createServer().listen(ports.registry, "127.0.0.1");
  await once(squatter, "listening");
  const refusal = await npm("start").then(
    () => "",
    (error: unknown) => (error instanceof CommandError ? error.output : String(error)),
  );
  squatter.close();
  const lines = refusal.split("\n").filter((line) => line !== "");
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain(String(ports.registry));
  expect(lines[0]).toContain("SVC_PORT_REGISTRY");
  expect(await readdir(platformDir(dir)).catch(() => [])).not.toContain("postgres");
});

test("`npm start -- --detach` returns when the four examples are served, and says how to go on", async () => {
  const said = await npm("start", "--detach");
  first = await info();
  for (const part of [first.apiUrl, first.admin.email, first.admin.password, ".bin/svc login", "npm stop"]) {
    expect(said).toContain(part);
  }
  for (const { url } of first.examples) expect(said).toContain(url);
  expect((await stat(join(platformDir(dir), "info.json"))).mode & 0o777).toBe(0o600);
  expect((await stat(first.outbox)).isDirectory()).toBe(true);
  await expectSitesServed(first);
});

test("a start beside it says that it runs already", async () => {
  await expect(npm("start")).rejects.toThrow("already running");
  await expectSitesServed(first);
});

test("`npm stop` leaves no process and no container, and the next start has the same users and sites", async () => {
  const before = await projectIds(first);
  const running = await programs();
  expect(running.length).toBeGreaterThanOrEqual(9);
  await npm("stop");
  expect(running.filter(isAlive)).toEqual([]);
  expect(await containers()).toEqual([]);

  // One etcd member's data is not that of three.
  await expect(npm("start", "--detach", "--ha")).rejects.toThrow("begun without --ha");
  await npm("start", "--detach");
  const second = await info();
  expect(second).toEqual(first);
  await expectSitesServed(second);
  expect(await projectIds(second)).toEqual(before);
});

test("after the supervisor was killed its programs end, and the next start goes on as before", async () => {
  const running = await programs();
  const supervisor = await findSupervisor(join(platformDir(dir), "supervisor.json"));
  if (supervisor === null) throw new Error("nobody keeps the platform running");
  signalProcess(supervisor, "SIGKILL");
  await waitFor("the programs to end with it", 120_000, () => {
    const left = running.filter(isAlive).map(({ name }) => name);
    if (left.length > 0) throw new Error(`still there: ${left.join(", ")}`);
    return true;
  });
  await npm("start", "--detach");
  await expectSitesServed(await info());
});

test("`npm start -- --fresh` begins anew", async () => {
  const before = await projectIds(first);
  await npm("stop");
  await npm("start", "--detach", "--fresh");
  const anew = await info();
  expect(anew.admin.password).not.toBe(first.admin.password);
  await expectSitesServed(anew);
  const after = await projectIds(anew);
  expect(Object.keys(after).toSorted()).toEqual(Object.keys(before).toSorted());
  for (const [slug, id] of Object.entries(after)) expect(id).not.toBe(before[slug]);
});
