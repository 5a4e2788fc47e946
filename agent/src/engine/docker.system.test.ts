import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { totalmem } from "node:os";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { systemClock, systemRandom } from "@svc/runtime/system";
import Docker from "dockerode";
import { extract } from "tar-stream";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { packTar, type TarEntry } from "../build/tar.ts";
import { groupLimits } from "../testing/group-limits.ts";
import { waitFor } from "../testing/wait.ts";
import { createDockerEngine } from "./docker.ts";
import type { BuildTrace, ContainerSpec, Engine } from "./engine.ts";
import { readKernelLog } from "./kernel-log.ts";
import { oomScore } from "./pressure.ts";

const socketPath = "/var/run/docker.sock";
const mark = randomBytes(4).toString("hex");
const owner = { clusterId: `test-${mark}`, nodeId: "n1" };
const engine: Engine = createDockerEngine({ socketPath, owner, clock: systemClock, random: systemRandom });
const stranger = createDockerEngine({
  socketPath,
  owner: { ...owner, nodeId: "n2" },
  clock: systemClock,
  random: systemRandom,
});
const image = `svc-engine-test-${mark}:1`;
const network = `svc-engine-test-${mark}`;
const signal = AbortSignal.timeout(120_000);

const aSpec = (changes: Partial<ContainerSpec> = {}): ContainerSpec => ({
  name: `svc-engine-test-${mark}-a`,
  kind: "serve",
  image,
  command: ["/bin/sh", "-c", "echo out; echo err >&2; exec sleep 60"],
  env: { A: "1" },
  labels: { "svc.placement": "a" },
  memoryMb: 64,
  cpuMillicores: 500,
  pidsLimit: 32,
  reserved: { memoryMb: 16, cpuMillicores: 50 },
  network,
  databaseAt: null,
  publish: null,
  ...changes,
});
const { name } = aSpec();

async function* contextOf(files: Record<string, string>): AsyncGenerator<TarEntry> {
  for (const [path, text] of Object.entries(files)) {
    yield { kind: "bytes", name: path, executable: false, content: Buffer.from(text) };
  }
}
const build = (dockerfile: string, tag: string, onTrace: (trace: BuildTrace) => void = () => {}, within = signal) =>
  engine.buildImage(
    (owner) => packTar(contextOf({ Dockerfile: dockerfile }), owner),
    { tag, dockerfile: "Dockerfile", buildArgs: {} },
    onTrace,
    within,
  );

beforeAll(async () => {
  await build(`FROM node:24-slim\nRUN mkdir /data && echo ${mark} > /data/mark.txt\nLABEL svc.node=n2\n`, image);
  await engine.createNetwork({
    name: network,
    bridge: `svct${mark}`,
    subnet: "10.215.0.0/28",
    gateway: "10.215.0.1",
    labels: {},
  });
});

const removeAll = async () => {
  for (const container of await engine.listContainers()) await engine.removeContainer(container.name);
};
// A test that fails half-way leaves nothing for the next one to stumble over.
afterEach(removeAll);
afterAll(async () => {
  await engine.removeNetwork(network);
  await engine.removeImage(image);
});

describe("containers", () => {
  test("live from created to removed, and every call may be repeated", async () => {
    expect(await engine.findContainer(name)).toBeNull();
    await engine.createContainer(aSpec());
    await engine.createContainer(aSpec());
    expect(await engine.findContainer(name)).toMatchObject({ state: "created", startedAt: null, pid: null });
    await engine.startContainer(name);
    await engine.startContainer(name);
    expect(await engine.findContainer(name)).toMatchObject({ state: "running", finishedAt: null, upstream: null });
    // The first process of a container hears no signal before it listens for it.
    await waitFor("it to have begun", async () => (await engine.readLog(name, 10)).includes("out"));
    await engine.stopContainer(name, 1);
    await engine.stopContainer(name, 1);
    expect(await engine.findContainer(name)).toMatchObject({ state: "exited", exitCode: 143, oomKilled: false });
    await engine.removeContainer(name);
    await engine.removeContainer(name);
    expect(await engine.findContainer(name)).toBeNull();
  });

  test("of somebody else are neither seen nor touched", async () => {
    await engine.createContainer(aSpec());
    await expect(stranger.findContainer(name)).rejects.toMatchObject({ kind: "foreign" });
    await expect(stranger.removeContainer(name)).rejects.toMatchObject({ kind: "foreign" });
    expect(await stranger.listContainers()).toEqual([]);
    expect((await engine.listContainers()).map((container) => container.name)).toEqual([name]);
    await engine.removeContainer(name);
  });

  test("under a name that is taken by another task are refused", async () => {
    await engine.createContainer(aSpec());
    const other = aSpec({ labels: { "svc.placement": "b" } });
    await expect(engine.createContainer(other)).rejects.toMatchObject({ kind: "conflict" });
    await engine.removeContainer(name);
  });

  test("have the limits that were asked for, and nothing of the host", async () => {
    await engine.createContainer(aSpec());
    const { HostConfig, Config } = await new Docker({ socketPath }).getContainer(name).inspect();
    expect(HostConfig).toMatchObject({
      Memory: 64 * 1024 * 1024,
      MemorySwap: 64 * 1024 * 1024,
      NanoCpus: 500_000_000,
      PidsLimit: 32,
      MemoryReservation: 16 * 1024 * 1024,
      CpuShares: 500,
      OomScoreAdj: oomScore({ memoryMb: 16 }, totalmem() / 1024 / 1024),
      CapDrop: ["ALL"],
      CapAdd: ["NET_BIND_SERVICE"],
      SecurityOpt: ["no-new-privileges"],
      Init: true,
      Privileged: false,
      Binds: null,
      PidMode: "",
      IpcMode: "private",
      RestartPolicy: { Name: "no" },
      LogConfig: { Type: "json-file", Config: { "max-size": "10m", "max-file": "3" } },
    });
    // Labels of the image do not get in front of ours.
    expect(Config.Labels["svc.node"]).toBe("n1");
    await engine.removeContainer(name);
  });

  test("get other limits while they run, and go on", async () => {
    const docker = new Docker({ socketPath });
    await engine.createContainer(aSpec());
    await engine.startContainer(name);
    const before = await engine.findContainer(name);
    expect(before?.limits).toEqual({ memoryMb: 64, cpuMillicores: 500, pidsLimit: 32 });
    for (const [limits, reserved] of [
      [
        { memoryMb: 128, cpuMillicores: 1_500, pidsLimit: 64 },
        { memoryMb: 48, cpuMillicores: 100 },
      ],
      [
        { memoryMb: 32, cpuMillicores: 250, pidsLimit: 16 },
        { memoryMb: 16, cpuMillicores: 25 },
      ],
    ] as const) {
      await engine.limitContainer(name, limits, reserved);
      await engine.limitContainer(name, limits, reserved);
      const after = await engine.findContainer(name);
      expect(after).toMatchObject({ id: before?.id, pid: before?.pid, startedAt: before?.startedAt, limits, reserved });
      const { HostConfig } = await docker.getContainer(name).inspect();
      const bytes = limits.memoryMb * 1024 * 1024;
      expect(HostConfig).toMatchObject({ Memory: bytes, MemorySwap: bytes, PidsLimit: limits.pidsLimit });
      expect(HostConfig.CpuShares).toBe(reserved.cpuMillicores * 10);
      expect(HostConfig.MemoryReservation).toBe(reserved.memoryMb * 1024 * 1024);
      expect(await groupLimits(before?.pid ?? 0)).toEqual(limits);
    }
  });

  test("of somebody else, or that are gone, get no other limits", async () => {
    const limits = { memoryMb: 128, cpuMillicores: 500, pidsLimit: 32 };
    const unsaid = { memoryMb: 0, cpuMillicores: 0 };
    await engine.createContainer(aSpec());
    await expect(stranger.limitContainer(name, limits, unsaid)).rejects.toMatchObject({ kind: "foreign" });
    // Of what is set aside nothing is said, and it stays.
    await engine.limitContainer(name, limits, unsaid);
    const reserved = { memoryMb: 16, cpuMillicores: 50 };
    expect(await engine.findContainer(name)).toMatchObject({ state: "created", limits, reserved });
    await engine.removeContainer(name);
    await engine.limitContainer(name, limits, unsaid);
  });

  test("tell what they wrote, while they run and after", async () => {
    const chunks: Buffer[] = [];
    await engine.createContainer(aSpec({ command: ["/bin/sh", "-c", "echo out; echo err >&2; exec sleep 60"] }));
    await engine.startContainer(name);
    const stop = new AbortController();
    const following = engine.followLog(name, (chunk) => chunks.push(chunk), stop.signal);
    // The two outputs are two pipes: nothing says which of them the engine reads first.
    const lines = (text: string) => text.split("\n").filter(Boolean).sort();
    await waitFor("the output", () => lines(Buffer.concat(chunks).toString()).length === 2);
    stop.abort();
    await following;
    await engine.killContainer(name, "SIGKILL");
    const log = await engine.readLog(name, 10);
    expect(lines(log.replaceAll(/^\S+Z /gm, ""))).toEqual(["err", "out"]);
    expect(await engine.readLog(name, 1)).toMatch(/^\S+Z (err|out)\n$/);
    await engine.removeContainer(name);
    expect(await engine.readLog(name, 10)).toBe("");
  });

  test("that use too much memory are killed, and it shows", async () => {
    const command = ["node", "-e", "const all = []; for (;;) all.push(Buffer.alloc(1e6, 1));"];
    await engine.createContainer(aSpec({ command }));
    await engine.startContainer(name);
    // That it was for want of memory the engine says at times only after the end.
    const ended = await waitFor("the end", async () => {
      const found = await engine.findContainer(name);
      return found?.state === "exited" && found.oomKilled ? found : null;
    });
    const isShown = (await readKernelLog()).length > 0;
    expect(ended).toMatchObject({ exitCode: 137, oomScope: isShown ? "limit" : "unknown" });
    await engine.removeContainer(name);
  });

  test("are sampled while they run", async () => {
    const command = ["node", "-e", "const end = Date.now() + 60000; while (Date.now() < end);"];
    await engine.createContainer(aSpec({ command }));
    expect(await engine.sample(name)).toBeNull();
    await engine.startContainer(name);
    await engine.sample(name);
    const sample = await waitFor("some use of the CPU", async () => {
      const found = await engine.sample(name);
      return found !== null && found.cpuPercent > 1 ? found : null;
    });
    expect(sample.memoryBytes).toBeGreaterThan(1_000_000);
    expect(sample.pids).toBeGreaterThan(0);
    await engine.removeContainer(name);
  });

  test("announce what happens to them", async () => {
    const seen: string[] = [];
    const stop = new AbortController();
    const opened = Promise.withResolvers<void>();
    const following = engine.followEvents(
      (event) => seen.push(`${event.name} ${event.action}`),
      opened.resolve,
      stop.signal,
    );
    await opened.promise;
    await engine.createContainer(aSpec({ command: ["true"] }));
    await engine.startContainer(name);
    await waitFor("the end", () => seen.includes(`${name} die`));
    expect(seen).toContain(`${name} start`);
    await engine.removeContainer(name);
    stop.abort();
    await following;
  });
});

describe("networks", () => {
  test("are listed with their subnets, and removed once nothing is attached", async () => {
    const known = (await engine.listNetworks()).find((one) => one.name === network);
    expect(known).toMatchObject({ subnets: ["10.215.0.0/28"], labels: { "svc.node": "n1" } });
    await expect(stranger.removeNetwork(network)).rejects.toMatchObject({ kind: "foreign" });
    await engine.createContainer(aSpec());
    await engine.startContainer(name);
    expect(await engine.removeNetwork(network)).toBe(false);
    await engine.removeContainer(name);
    expect(await engine.removeNetwork("svc-engine-test-none")).toBe(true);
  });

  test("do not overlap", async () => {
    const clash = {
      name: `${network}-2`,
      bridge: `svcu${mark}`,
      subnet: "10.215.0.0/28",
      gateway: "10.215.0.1",
      labels: {},
    };
    await expect(engine.createNetwork(clash)).rejects.toThrow(/overlap/i);
  });
});

describe("images", () => {
  test("are found by tag, and absent ones are null", async () => {
    expect(await engine.findImage(image)).toMatchObject({ os: "linux", hasCommand: true });
    expect(await engine.findImage(`svc-engine-test-${mark}:none`)).toBeNull();
  });

  test("give their files out without being started", async () => {
    const names: string[] = [];
    await engine.exportFiles(
      image,
      "/data",
      async (tar) => {
        const reader = extract();
        reader.end(await buffer(tar));
        for await (const entry of reader) {
          names.push(entry.header.name);
          entry.resume();
        }
      },
      signal,
    );
    expect(names).toEqual(["data/", "data/mark.txt"]);
    expect(await engine.listContainers()).toEqual([]);
  });

  test("that fail to build tell the step and its output", async () => {
    const traces: BuildTrace[] = [];
    const failing = build(`FROM node:24-slim\nRUN echo ${mark} says no && exit 7\n`, `${image}-bad`, (trace) =>
      traces.push(trace),
    );
    await expect(failing).rejects.toMatchObject({ kind: "failed" });
    const failed = traces.flatMap((trace) => trace.vertexes).find((vertex) => vertex.error !== "");
    expect(failed?.error).toContain("exit code: 7");
    expect(
      traces
        .flatMap((trace) => trace.logs)
        .map((log) => log.text.toString())
        .join(""),
    ).toContain(`${mark} says no`);
  });

  test("stop building when they are no longer wanted", async () => {
    const stop = new AbortController();
    const building = build(
      `FROM node:24-slim\nRUN echo begin ${mark}; sleep 100\n`,
      `${image}-slow`,
      (trace) => {
        if (trace.logs.length > 0) stop.abort();
      },
      stop.signal,
    );
    const startedMs = Date.now();
    await expect(building).rejects.toThrow();
    expect(Date.now() - startedMs).toBeLessThan(30_000);
  });

  test("cannot be built from a context that breaks off", async () => {
    const broken = Readable.from(
      (async function* () {
        yield Buffer.alloc(512);
        throw new Error("disk full");
      })(),
    );
    const options = { tag: `${image}-broken`, dockerfile: "Dockerfile", buildArgs: {} };
    await expect(
      engine.buildImage(
        () => broken,
        options,
        () => {},
        AbortSignal.timeout(20_000),
      ),
    ).rejects.toThrow();
  });
});

test("root in a container is root on the host only where the engine says so", async () => {
  const name = `svc-test-${mark}-root`;
  await engine.createContainer({
    ...{
      name,
      kind: "serve",
      image,
      command: ["sleep", "60"],
      env: {},
      labels: {},
      network,
      databaseAt: null,
      publish: null,
    },
    ...{ memoryMb: 64, cpuMillicores: 500, pidsLimit: 20, reserved: { memoryMb: 0, cpuMillicores: 0 } },
  });
  await engine.startContainer(name);
  const pid = (await engine.findContainer(name))?.pid;
  const [inside, outside] = (await readFile(`/proc/${pid}/uid_map`, "utf8")).trim().split(/\s+/).map(Number);
  expect(inside).toBe(0);
  expect(outside !== 0).toBe((await engine.describe()).isRemapped);
});

test("the engine says who it is", async () => {
  expect(await engine.describe()).toMatchObject({
    version: expect.stringMatching(/^\d+\./),
    id: expect.stringContaining(":"),
    containerd: expect.stringMatching(/^v?\d+\./),
    runc: expect.stringMatching(/^\d+\./),
  });
});
