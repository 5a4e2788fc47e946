import { readdir } from "node:fs/promises";
import { request } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { Desired, HealthState, Observed, type PlacementStatus } from "@svc/proto/node";
import { FencedError } from "@svc/uplink";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dockerfileProblem } from "./engine/floors.ts";
import { JournalBusyError } from "./journal/journal.ts";
import { listFormer } from "./node/former.ts";
import { containerName } from "./placements/names.ts";
import { type Agent, start } from "./start.ts";
import { createTestNode, type TestNode } from "./testing/agent.ts";
import { createTestControl, type TestControl } from "./testing/control.ts";
import { startRegistry } from "./testing/registry.ts";
import { packSource, pushSource } from "./testing/source.ts";
import { waitFor } from "./testing/wait.ts";

/** Answers on PORT, crashes on /crash, tells what it can reach on /reach?host:port, and obeys a few variables. */
const app = `
const http = require("node:http");
const net = require("node:net");
console.log("starting with " + process.env.GREETING);
if (process.env.EXIT) { console.error("cannot find my settings"); process.exit(Number(process.env.EXIT)); }
const reach = (host, port) => new Promise((resolve) => {
  const socket = net.connect({ host, port: Number(port), timeout: 3000 });
  socket.on("connect", () => { socket.destroy(); resolve("open"); });
  socket.on("timeout", () => { socket.destroy(); resolve("timeout"); });
  socket.on("error", (error) => resolve(error.code));
});
http.createServer(async (request, reply) => {
  const url = new URL(request.url, "http://x");
  if (url.pathname === "/crash") process.exit(1);
  if (url.pathname === "/sick") { reply.statusCode = 500; return reply.end("sick"); }
  if (url.pathname === "/reach") return reply.end(await reach(url.searchParams.get("host"), url.searchParams.get("port")));
  if (url.pathname === "/addresses") return reply.end(JSON.stringify(require("node:os").networkInterfaces()));
  if (url.pathname === "/status") return reply.end(require("node:fs").readFileSync("/proc/self/status", "utf8"));
  reply.end(process.env.GREETING);
}).listen(process.env.PORT, process.env.HOST ?? "0.0.0.0");
`;

let registry: Awaited<ReturnType<typeof startRegistry>>;
let node: TestNode;
let control: TestControl;
let agent: Agent;
let image = "";

const newAgent = () => start(node.config, { openLink: control.openLink });

beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode();
  control = createTestControl({ registryHost: registry.host });
  agent = await newAgent();
  await agent.ready;
  image = await buildApp();
}, 180_000);

afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  const built = image === "" ? null : await node.engine.findImage(image);
  await node?.[Symbol.asyncDispose]();
  if (built) await node.engine.removeImage(built.id);
  await registry?.[Symbol.asyncDispose]();
});

async function buildApp(): Promise<string> {
  const sourceDigest = await pushSource(registry.host, "svc/p1/source", await packSource({ "server.js": app }));
  const value = {
    sourceRepository: "svc/p1/source",
    sourceDigest,
    targetRepository: "svc/p1/app",
    recipe: { case: "image" as const, value: { startCommand: "node server.js", port: 3000 } },
    baseImage: "node:24-slim",
    timeoutSeconds: 120,
    maxImageMb: 1_000,
    maxUnpackedMb: 10,
    cacheNamespace: node.owner.nodeId,
  };
  await control.assign({
    upserts: [
      {
        placementId: "build",
        epoch: 1n,
        desired: Desired.RUNNING,
        specHash: "h",
        projectId: "p1",
        channel: "production",
        spec: { case: "build", value },
      },
    ],
  });
  const status = await control.status("build", ({ observed }) => observed >= Observed.COMPLETED, 120_000);
  if (status.build === undefined) throw new Error(`the app was not built: ${status.failure?.message}`);
  return `${registry.host}/svc/p1/app@${status.build.digest}`;
}

interface Spec {
  env?: Record<string, string>;
  health?: { path: string; timeoutSeconds: number };
  projectId?: string;
  memoryMb?: number;
}

const aPlacement = (placementId: string, desired: Desired, { env, health, projectId, memoryMb }: Spec = {}) => ({
  placementId,
  epoch: 1n,
  desired,
  specHash: "h",
  projectId: projectId ?? "p1",
  channel: "production",
  resources: { memoryMb: memoryMb ?? 128, cpuMillicores: 500, pidsLimit: 64 },
  spec: {
    case: "serve" as const,
    value: {
      image: { reference: image, maxSizeMb: 1_000 },
      env: { PORT: "3000", GREETING: placementId, ...env },
      port: 3000,
      health: health ?? { path: "/", timeoutSeconds: 30 },
      stopGraceSeconds: 2,
    },
  },
});

const isRunning = ({ observed, health }: PlacementStatus): boolean =>
  observed === Observed.RUNNING && health === HealthState.HEALTHY;
const isOver = ({ observed }: PlacementStatus): boolean => observed >= Observed.COMPLETED;

async function serve(placementId: string, spec?: Spec): Promise<PlacementStatus> {
  await control.assign({ upserts: [aPlacement(placementId, Desired.RUNNING, spec)] });
  return control.status(placementId, (status) => isRunning(status) || isOver(status));
}

/** Takes a placement all the way out. */
async function remove(placementId: string): Promise<void> {
  await control.assign({ upserts: [aPlacement(placementId, Desired.REMOVED)] });
  await control.status(placementId, ({ observed }) => observed === Observed.REMOVED);
  await control.assign({ removes: [{ placementId, epoch: 1n }] });
}

function get(upstream: string, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    request(`http://${upstream}${path}`, { agent: false }, (reply) => {
      let body = "";
      reply.on("data", (chunk) => {
        body += chunk;
      });
      reply.on("end", () => resolve(body));
    })
      .on("error", reject)
      .end();
  });
}

describe("a site", () => {
  test("is started, answers at its upstream, and goes without a trace", async () => {
    const status = await serve("site-1");
    expect(status.upstream).toMatch(/^127\.0\.9\.1:\d+$/);
    expect(await get(status.upstream, "/")).toBe("site-1");
    const networks = await node.engine.listNetworks();
    const own = networks.filter((network) => network.labels["svc.node"] === node.owner.nodeId);
    expect(own.map((network) => network.subnets[0])).toEqual([expect.stringMatching(/^10\.214\.\d+\.\d+\/28$/)]);

    await remove("site-1");
    expect(await node.engine.findContainer(containerName("site-1"))).toBeNull();
    const left = (await node.engine.listNetworks()).filter(
      (network) => network.labels["svc.node"] === node.owner.nodeId,
    );
    expect(left).toEqual([]);
  });

  test("has no privileges", async () => {
    const { upstream } = await serve("site-2");
    const facts = await get(upstream, "/status");
    expect(facts).toMatch(/^NoNewPrivs:\t1$/m);
    expect(facts).toMatch(/^Seccomp:\t2$/m);
    expect(facts).toMatch(/^Uid:\t1000/m);
    // Bit 10 is NET_BIND_SERVICE, and a process without root has not even that.
    expect(facts).toMatch(/^CapBnd:\t0000000000000400$/m);
    expect(facts).toMatch(/^CapEff:\t0000000000000000$/m);
    await remove("site-2");
  });

  test("that crashes is started again on the same upstream", async () => {
    const { upstream } = await serve("site-3");
    await get(upstream, "/crash").catch(() => {});
    const again = await control.status("site-3", (status) => isRunning(status) && status.restartSeq === 1);
    expect(again.upstream).toBe(upstream);
    expect(again.failure).toBeUndefined();
    const reason = "The app exited with code 1 and is started again.";
    expect(again.crashing).toMatchObject({ count: 1, reason, since: again.crashing?.lastAt });
    await get(upstream, "/crash").catch(() => {});
    const twice = await control.status("site-3", ({ crashing }) => crashing?.count === 2);
    expect(twice.crashing).toMatchObject({ count: 2, since: again.crashing?.since });
    const { lastAt = "", nextStartAt = "" } = twice.crashing ?? {};
    expect(Date.parse(nextStartAt) - Date.parse(lastAt)).toBeGreaterThanOrEqual(1_000);
    await control.status("site-3", (status) => isRunning(status) && status.restartSeq === 2);
    await remove("site-3");
  });

  test("whose container is removed by hand gets another", async () => {
    await serve("site-4");
    await node.engine.removeContainer(containerName("site-4"));
    const again = await control.status("site-4", (status) => isRunning(status) && status.restartSeq === 1);
    expect(await get(again.upstream, "/")).toBe("site-4");
    await remove("site-4");
  });

  test("is stopped and can still be read", async () => {
    await serve("site-5");
    await control.assign({ upserts: [aPlacement("site-5", Desired.STOPPED)] });
    await control.status("site-5", ({ observed }) => observed === Observed.STOPPED);
    control.send({ message: { case: "logQuery", value: { requestId: "q1", placementId: "site-5", lines: 10 } } });
    const delivery = await waitFor("the log", () => control.deliveries.find(({ requestId }) => requestId === "q1"));
    expect(delivery.text).toMatch(/^\S+Z starting with site-5$/m);
    expect(delivery).toMatchObject({ lines: 1, error: "" });
    await remove("site-5");
    control.send({ message: { case: "logQuery", value: { requestId: "q2", placementId: "site-5", lines: 10 } } });
    const nothing = await waitFor("an answer", () => control.deliveries.find(({ requestId }) => requestId === "q2"));
    expect(nothing.error).not.toBe("");
  });
});

describe("a site that cannot start", () => {
  /** Long enough for an app to answer at all, on a slow machine too. */
  const timeoutSeconds = 10;

  test("fails with its exit code and its last words", async () => {
    const { failure, observed } = await serve("bad-1", { env: { EXIT: "3" } });
    expect(observed).toBe(Observed.FAILED);
    expect(failure).toMatchObject({ code: "START_FAILED", exitCode: 3 });
    expect(failure?.message).toContain("cannot find my settings");
    await remove("bad-1");
  });

  test("is told that it listens on 127.0.0.1 only", async () => {
    const { failure } = await serve("bad-2", { env: { HOST: "127.0.0.1" }, health: { path: "/", timeoutSeconds } });
    expect(failure).toMatchObject({ code: "HEALTH_CHECK_FAILED" });
    expect(failure?.message).toContain("Make it listen on 0.0.0.0:3000");
    await remove("bad-2");
  });

  test("is told which answer its health path gave", async () => {
    const { failure } = await serve("bad-3", { health: { path: "/sick", timeoutSeconds } });
    expect(failure).toMatchObject({ code: "HEALTH_CHECK_FAILED" });
    expect(failure?.message).toContain("answered /sick with 500");
    const container = await waitFor("the container to stop", async () => {
      const found = await node.engine.findContainer(containerName("bad-3"));
      return found?.state === "exited" ? found : null;
    });
    expect(container.state).toBe("exited");
    await remove("bad-3");
  });

  test("has an image that the registry does not know", async () => {
    const placement = aPlacement("bad-4", Desired.RUNNING);
    placement.spec.value.image.reference = `${registry.host}/svc/p1/app@sha256:${"0".repeat(64)}`;
    await control.assign({ upserts: [placement] });
    const { failure } = await control.status("bad-4", isOver);
    expect(failure).toMatchObject({ code: "ARTIFACT_NOT_FOUND" });
    await control.assign({ upserts: [{ ...placement, desired: Desired.REMOVED }] });
  });
});

describe("between sites", () => {
  test("nothing but the internet and the own network is in reach", async () => {
    const [mine, other] = await Promise.all([serve("iso-1"), serve("iso-2", { projectId: "p2" })]);
    const addressOf = async (upstream: string): Promise<string> => {
      const { eth0 } = JSON.parse(await get(upstream, "/addresses"));
      return eth0[0].address;
    };
    const reach = (host: string, port: number | string) => get(mine.upstream, `/reach?host=${host}&port=${port}`);
    const ownAddress = await addressOf(mine.upstream);
    const otherAddress = await addressOf(other.upstream);
    const gateway = ownAddress.replace(/\.(\d+)$/, (_, last: string) => `.${Number(last) - (Number(last) % 16) + 1}`);

    // Somebody on the host listens everywhere, and can be reached from the host itself.
    const service = createServer((socket) => socket.end());
    await new Promise<void>((resolve) => service.listen(0, "0.0.0.0", resolve));
    const { port: servicePort } = service.address() as AddressInfo;

    expect(await reach(ownAddress, 3000)).toBe("open");
    const [, otherPort = ""] = other.upstream.split(":");
    const closed = [
      [otherAddress, 3000],
      [gateway, servicePort],
      [gateway, otherPort],
      ["172.17.0.1", servicePort],
      ["169.254.169.254", 80],
      ["10.255.255.254", 80],
    ] as const;
    for (const [host, port] of closed) expect([host, await reach(host, port)]).not.toEqual([host, "open"]);
    service.close();
    await Promise.all([remove("iso-1"), remove("iso-2")]);
  });
});

describe("the agent", () => {
  test("leaves containers alone when it stops, and finds them again", async () => {
    const before = await serve("keep-1");
    const container = await node.engine.findContainer(containerName("keep-1"));
    await agent[Symbol.asyncDispose]();
    expect(await get(before.upstream, "/")).toBe("keep-1");
    control.statuses.clear();
    agent = await newAgent();
    await agent.ready;
    const after = await control.status("keep-1", isRunning);
    expect(after.upstream).toBe(before.upstream);
    expect((await node.engine.findContainer(containerName("keep-1")))?.id).toBe(container?.id);
    expect(control.hellos.at(-1)?.persistedRevision).not.toBe("");
    const problem = dockerfileProblem(await node.engine.describe());
    expect(control.hellos.at(-1)?.engine?.dockerfileProblem).toBe(problem ?? "");
    await remove("keep-1");
  });

  test("brings back what ended while it was away, and only that", async () => {
    await serve("keep-2");
    await agent[Symbol.asyncDispose]();
    await node.engine.killContainer(containerName("keep-2"), "SIGKILL");
    await waitFor(
      "the end",
      async () => (await node.engine.findContainer(containerName("keep-2")))?.state === "exited",
    );
    agent = await newAgent();
    await control.status("keep-2", (status) => isRunning(status) && status.restartSeq === 1);
    await remove("keep-2");
  });

  test("reports everything again in a new session", async () => {
    await serve("keep-3");
    const sessions = control.hellos.length;
    control.statuses.clear();
    control.hangUp();
    await waitFor("another session", () => control.hellos.length > sessions);
    await control.status("keep-3", isRunning);
    await remove("keep-3");
  });

  test("does not share its directory", async () => {
    await expect(newAgent()).rejects.toThrow(JournalBusyError);
  });

  test("keeps an orphan until the verdict", async () => {
    const { upstream } = await serve("orphan-1");
    control.send({ message: { case: "verdict", value: { placementId: "orphan-1", decision: 2 } } });
    expect(await get(upstream, "/")).toBe("orphan-1");
    control.send({ message: { case: "verdict", value: { placementId: "orphan-1", decision: 1 } } });
    await control.status("orphan-1", ({ observed }) => observed === Observed.REMOVED);
    expect(await node.engine.findContainer(containerName("orphan-1"))).toBeNull();
  });

  // The last one: this node is none any more afterwards.
  test("that comes back and was fenced meanwhile stops all that it runs, and forgets who it was", async () => {
    await serve("fenced-1");
    await serve("fenced-2", { projectId: "p2" });
    await agent[Symbol.asyncDispose]();
    expect(await node.engine.findContainer(containerName("fenced-1"))).toMatchObject({ state: "running" });
    const sessions = control.hellos.length;
    agent = await newAgent();
    await waitFor("it to say hello", () => control.hellos.length > sessions);
    control.send({ message: { case: "fenced", value: { reason: "declared lost" } } });
    expect(await agent.ended).toBeInstanceOf(FencedError);
    expect(await node.engine.listContainers()).toEqual([]);
    expect(await readdir(node.config.dir)).not.toContain("identity.json");
    // What it leaves on its disks is found by that.
    expect(await listFormer(node.config.dir)).toEqual([expect.stringMatching(/./)]);
  });
});
