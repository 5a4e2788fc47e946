import { randomBytes, randomUUID } from "node:crypto";
import { appendFile, mkdtemp, rm, statfs, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { Desired, ImageSchema, Observed, RegistryAccessSchema, RunOfferSchema } from "@svc/proto/node";
import { systemClock as clock, systemRandom as random } from "@svc/runtime/system";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { packTar, type TarEntry } from "./build/tar.ts";
import { createDockerEngine } from "./engine/docker.ts";
import type { Engine } from "./engine/engine.ts";
import { createImages, type Images } from "./images/images.ts";
import { type Journal, openJournal } from "./journal/journal.ts";
import { createLog } from "./log.ts";
import { openTails, type Tails } from "./logs/tails.ts";
import { createNetworks, type Networks } from "./network/networks.ts";
import { start } from "./start.ts";
import { createDiskWatch, type DiskWatch } from "./stats/disk.ts";
import { createTestNode } from "./testing/agent.ts";
import { createTestControl } from "./testing/control.ts";
import { pushImageOf } from "./testing/image.ts";
import { startRegistry } from "./testing/registry.ts";
import { type SmallEngine, startSmallEngine } from "./testing/small-engine.ts";
import { waitFor } from "./testing/wait.ts";
import { createTidy, type Tidy } from "./tidy.ts";

const diskMb = 450;
const floorMb = 100;
const dayMs = 86_400_000;
const log = createLog(process.env["SVC_LOG_LEVEL"] ?? "silent");
const owner = { clusterId: "test-tidy", nodeId: "n-tidy" };
const never = new AbortController().signal;

let small: SmallEngine;
let registry: Awaited<ReturnType<typeof startRegistry>>;
let engine: Engine;
beforeAll(async () => {
  small = await startSmallEngine(diskMb);
  registry = await startRegistry();
  engine = createDockerEngine({ socketPath: small.socketPath, owner, clock, random });
});
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
  await small?.[Symbol.asyncDispose]();
});

let dir: string;
let journal: Journal;
let tidy: Tidy;
let disk: DiskWatch;
let images: Images;
let tails: Tails;
let networks: Networks;
/** By project and channel. */
let needed: Set<string>;
let gone: string[];
beforeEach(async () => {
  gone = [];
  dir = await mkdtemp(join(tmpdir(), "svc-tidy-"));
  journal = openJournal(dir);
  const access = create(RegistryAccessSchema, { host: registry.host, insecure: true });
  tails = await openTails(clock, join(dir, "tails", "n1.1"));
  needed = new Set();
  networks = createNetworks({ engine, owner, pool: "10.213.0.0/16", isolated: async () => {}, onChange() {} });
  tidy = createTidy({
    ...{ clock, engine, owner, journal, log, tails, buildCacheMb: 10_000 },
    networks,
    placements: () => [],
    isNetworkNeeded: (projectId, channel) => needed.has(`${projectId} ${channel}`),
    askGone: async (ids) => ids.filter((id) => gone.includes(id)),
    registryHost: () => registry.host,
  });
  disk = createDiskWatch({ clock, findDirs: async () => [small.dataDir], set: floorMb, reclaim: tidy.reclaim, log });
  images = createImages({
    ...{ clock, engine, journal, checkDisk: disk.check },
    registry: { find: () => access, token: async () => ({ token: "none", expiresInSeconds: 900 }) },
  });
});

afterEach(async () => {
  journal[Symbol.dispose]();
  await rm(dir, { recursive: true, force: true });
});

const freeMb = async () => {
  const { bavail, bsize } = await statfs(small.dataDir);
  return (bavail * bsize) / 1024 ** 2;
};
const isHere = async (reference: string) => (await engine.findImage(reference)) !== null;
const hereOf = (references: readonly string[]) => Promise.all(references.map(isHere));

/** Brings an image of a project to this node as a placement does, used `daysAgo`. */
async function fetched(projectId: string, daysAgo: number, sizeMb = 1): Promise<string> {
  const reference = await pushImageOf(registry.host, `svc/${projectId}/app`, sizeMb);
  const spec = create(ImageSchema, { reference, maxSizeMb: 500 });
  await images.ensure(spec, { command: false, mayBeLocal: false, projectId, workId: "p", onPull: () => {} }, never);
  journal.noteImage(reference, projectId, Date.now() - daysAgo * dayMs);
  return reference;
}

/** One tidying, as it happens every hour and whenever control says so. */
async function tidied(until: () => Promise<boolean>): Promise<void> {
  const stop = new AbortController();
  const running = tidy.run(stop.signal);
  tidy.wake();
  await waitFor("the node to be tidied", until);
  stop.abort();
  await running;
}

describe("an engine with room", () => {
  test("loses what is beyond the last five of a project, under every name, and nothing of anybody else's", async () => {
    const project = randomUUID();
    const references: string[] = [];
    for (let daysAgo = 9; daysAgo > 1; daysAgo -= 1) references.push(await fetched(project, daysAgo));
    const [oldest = "", second = "", third = ""] = references;
    // As the node that built it has it, too.
    const repository = oldest.split("@")[0] ?? "";
    await small.docker.getImage(oldest).tag({ repo: repository, tag: "build-1" });
    const { id: foreign } = (await engine.findImage(await pullForeign())) ?? { id: "" };
    // Of the three, one is needed by a container.
    const container = await small.docker.createContainer({ Image: second, name: `svc-tidy-${project}` });
    await tidied(async () => !(await isHere(oldest)) && !(await isHere(third)));
    expect(await isHere(`${repository}:build-1`)).toBe(false);
    expect(await hereOf(references.slice(1))).toEqual([true, false, true, true, true, true, true]);
    expect(await isHere(foreign)).toBe(true);
    // It is not forgotten: once nothing needs it, it goes as well.
    await container.remove();
    await tidied(async () => !(await isHere(second)));
  });

  test("loses networks that nothing needs any more, also of projects that are there", async () => {
    const project = randomUUID();
    for (const channel of ["production", "preview"]) await networks.ensure(project, channel);
    needed.add(`${project} production`);
    const channels = async () =>
      (await networks.list()).filter(({ projectId }) => projectId === project).map(({ channel }) => channel);
    await tidied(async () => (await channels()).length === 1);
    expect(await channels()).toEqual(["production"]);
    needed.clear();
    await tidied(async () => (await channels()).length === 0);
  });

  test("keeps nothing of a project that is gone, except what still runs", async () => {
    const [project, other] = [randomUUID(), randomUUID()];
    const [used, unused, others] = [await fetched(project, 0), await fetched(project, 0), await fetched(other, 9)];
    const offer = create(RunOfferSchema, { attemptId: "a1", projectId: project, image: { reference: used } });
    journal.saveRun({
      ...{ offer, state: "start-sent", token: "t", exitCode: 0, timedOut: false, message: "" },
      ...{ startedAt: "", finishedAt: "" },
    });
    const exit = { code: 1, oomKilled: false, reason: "", at: "" };
    for (const projectId of [project, other]) {
      await tails.keep({ placementId: `p-${projectId}`, projectId }, { exit, text: "last words\n" });
    }
    gone = [project];
    await tidied(async () => !(await isHere(unused)));
    expect(await tails.projects()).toEqual([other]);
    expect([await isHere(used), await isHere(others)]).toEqual([true, true]);
    journal.forgetRun("a1");
    await tidied(async () => !(await isHere(used)));
    expect(journal.listImages().map(({ reference }) => reference)).toEqual([others]);
  });

  test("loses what a build left that was killed together with the agent", async () => {
    const tag = `${registry.host}/svc/${randomUUID()}/app:${randomUUID()}`;
    journal.noteImage(tag, "p", Date.now());
    await build(tag, 1);
    await tidied(async () => !(await isHere(tag)));
    expect(journal.listImages()).toEqual([]);
  });
});

describe("an engine whose disk is almost full", () => {
  test("makes room before it takes more: build cache first, then what was unused longest", async () => {
    const project = randomUUID();
    await build(`${registry.host}/svc/cache:1`, 20);
    await engine.removeImage(`${registry.host}/svc/cache:1`);
    const references: string[] = [];
    for (const daysAgo of [4, 3, 2]) references.push(await fetched(project, daysAgo, 60));
    // Each fetched image that still fits is kept; now there is too little left for a fourth.
    const filler = join(small.dataDir, "filler");
    // The engine frees what it removed when it finds the time.
    await waitFor("too little room", async () => {
      const missingMb = Math.floor((await freeMb()) - floorMb + 60);
      if (missingMb > 0) await appendFile(filler, Buffer.alloc(missingMb * 1024 * 1024));
      return (await freeMb()) < floorMb;
    });
    const fourth = await fetched(project, 0, 5);
    expect(await isHere(fourth)).toBe(true);
    expect(await hereOf(references)).toEqual([false, true, true]);
    expect(disk.isFull()).toBe(false);
    const { BuildCache } = await small.docker.df();
    expect(BuildCache ?? []).toEqual([]);

    await writeFile(filler, Buffer.alloc(400 * 1024 * 1024)).catch(() => {});
    await expect(fetched(project, 0)).rejects.toMatchObject({ code: "NODE_CAPACITY_UNAVAILABLE", isTransient: true });
    expect(disk.isFull()).toBe(true);
    await writeFile(filler, "");
    // As it does by itself from time to time.
    await disk.check();
    expect(disk.isFull()).toBe(false);
  });
});

test("an agent on a full disk tells control so with its renewals, and says why it takes nothing", async () => {
  const node = await createTestNode({ SVC_DOCKER_SOCKET: small.socketPath, SVC_AGENT_DISK_FLOOR_MB: "1000000000" });
  const control = createTestControl({ registryHost: registry.host });
  const agent = await start(node.config, { openLink: control.openLink, log });
  try {
    await waitFor("a renewal that tells", () => control.renewals.at(-1)?.diskFull === true);
    const reference = await pushImageOf(registry.host, "svc/full/app", 1);
    const serve = { image: { reference }, port: 3000, health: { path: "/", timeoutSeconds: 5 } };
    const site = { placementId: "site", epoch: 1n, desired: Desired.RUNNING, specHash: "h", projectId: "p" };
    await control.assign({ upserts: [{ ...site, channel: "production", spec: { case: "serve", value: serve } }] });
    const { failure } = await control.status("site", ({ observed }) => observed === Observed.FAILED);
    expect(failure).toMatchObject({
      code: "NODE_CAPACITY_UNAVAILABLE",
      message: expect.stringContaining("disk space"),
    });
  } finally {
    await agent[Symbol.asyncDispose]();
    await node[Symbol.asyncDispose]();
  }
});

/** An image that this agent never heard of. */
async function pullForeign(): Promise<string> {
  const reference = await pushImageOf(registry.host, "somebody/else", 1);
  await engine.pullImage(reference, null, () => {}, never);
  return reference;
}

async function build(tag: string, sizeMb: number): Promise<void> {
  async function* entries(): AsyncGenerator<TarEntry> {
    const content = randomBytes(sizeMb * 1024 * 1024);
    yield { kind: "bytes", name: "noise", executable: false, content };
    yield {
      kind: "bytes",
      name: "Dockerfile",
      executable: false,
      content: Buffer.from("FROM scratch\nCOPY noise /\n"),
    };
  }
  await engine.buildImage(
    (owner) => packTar(entries(), owner),
    { tag, dockerfile: "Dockerfile", buildArgs: {} },
    () => {},
    never,
  );
}
