import { access } from "node:fs/promises";
import { request } from "node:http";
import { buffer } from "node:stream/consumers";
import { Desired, HealthState, LogState, Observed, type PlacementStatus, RunPhase } from "@svc/proto/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Container } from "../engine/engine.ts";
import { containerName } from "../placements/names.ts";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { pushApp } from "../testing/apps.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { startRegistry } from "../testing/registry.ts";
import { waitFor } from "../testing/wait.ts";
import { layerOfProcess } from "./overlays.ts";

// What a container writes is bounded by its plan, wherever it writes it: a real agent, a real engine, a real disk.

/** Writes 40 MB to the file that is named, all at once; reads one; or does so behind a name that it takes away. */
const app = `
const fs = require("node:fs");
const mb = Buffer.alloc(1024 * 1024, 1);
require("node:http").createServer((request, reply) => {
  const [, deed, path] = /^\\/(\\w*)(.*)$/.exec(request.url);
  if (deed === "read") return reply.end(fs.readFileSync(path));
  if (deed === "fill" || deed === "hold") {
    const file = fs.openSync(path, "w");
    if (deed === "hold") fs.rmSync(path);
    for (let n = 0; n < 40; n += 1) fs.writeSync(file, mb);
  }
  reply.end("ok");
}).listen(3000);
`;

let registry: Awaited<ReturnType<typeof startRegistry>>;
let node: TestNode;
let control: TestControl;
let agent: Agent;
let image = "";
beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.8", SVC_AGENT_SUBNETS: "10.214.96.0/22" });
  control = createTestControl({ registryHost: registry.host });
  agent = await start(node.config, { openLink: control.openLink, lookEveryMs: 200 });
  await agent.ready;
  image = await pushApp(node.engine, registry.host, app, ["/etc", "/home/node"]);
}, 120_000);
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  const built = image === "" ? null : await node.engine.findImage(image);
  await node?.[Symbol.asyncDispose]();
  if (built) await node.engine.removeImage(built.id);
  await registry?.[Symbol.asyncDispose]();
});

const resources = { memoryMb: 128, cpuMillicores: 1_000, pidsLimit: 64, storageMb: 24 };

const aSite = (placementId: string, limits: Partial<typeof resources> & { generation?: bigint } = {}) => ({
  ...{ placementId, epoch: 1n, desired: Desired.RUNNING, specHash: "h", projectId: "p1", channel: "production" },
  resources: { ...resources, ...limits },
  spec: {
    case: "serve" as const,
    value: {
      image: { reference: image, maxSizeMb: 1_000 },
      ...{ port: 3000, health: { path: "/", timeoutSeconds: 60 }, stopGraceSeconds: 1 },
    },
  },
});
const isUp = ({ observed, health }: PlacementStatus) => observed === Observed.RUNNING && health === HealthState.HEALTHY;

async function containerOf(placementId: string): Promise<Container> {
  const found = await node.engine.findContainer(containerName(placementId));
  if (found === null) throw new Error(`${placementId} has no container`);
  return found;
}

async function serve(placementId: string, limits: Partial<typeof resources> = {}): Promise<Container> {
  await control.assign({ upserts: [aSite(placementId, limits)] });
  await control.status(placementId, isUp);
  return containerOf(placementId);
}

const get = (upstream: string | null, path: string): Promise<string> =>
  new Promise((resolve, reject) => {
    request(`http://${upstream}${path}`, { agent: false }, (reply) => {
      buffer(reply).then((body) => resolve(body.toString()), reject);
    })
      .on("error", reject)
      .end();
  });

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

const ended = "The app was ended because it wrote more than its 24 MB of disk";

test.each([
  { where: "to its own layer", deed: "/fill/tmp/full" },
  { where: "to a volume of its image", deed: "/fill/home/node/full" },
  { where: "to a file that has no name any more", deed: "/hold/tmp/full" },
])("an app that writes too much $where is ended, told, and started again without it", async ({ deed }) => {
  const placementId = `full-${deed.replaceAll("/", "-")}`;
  const before = await serve(placementId);
  const layer = await layerOfProcess(before.pid ?? 0, (await node.engine.describe()).rootDir);
  expect(before.volumes).toHaveLength(2);
  // An image's volume begins with what the image has there.
  expect(await get(before.upstream, "/read/etc/passwd")).toContain("node:");

  // It may be ended before it answers.
  await get(before.upstream, deed).catch(() => "");
  const { crashing } = await control.status(placementId, (status) => status.crashing !== undefined);
  expect(crashing?.reason).toContain(`${ended} and is started again.`);

  await control.status(placementId, (status) => isUp(status) && status.restartSeq === 1);
  const after = await containerOf(placementId);
  expect(after.id).not.toBe(before.id);
  expect(after.upstream).toBe(before.upstream);
  expect(layer).not.toBeNull();
  for (const path of [layer ?? "/", ...before.volumes]) expect(await isThere(path)).toBe(false);
});

test("an app that may write more goes on, and a smaller plan ends what is too large for it", async () => {
  const before = await serve("plan", { storageMb: 100 });
  await get(before.upstream, "/fill/tmp/full");
  await control.assign({ upserts: [aSite("plan", { storageMb: 60, generation: 1n })] });
  const told = await control.status("plan", (status) => status.resources?.generation === 1n);
  expect(told.resources).toMatchObject({ storageMb: 60, memoryMb: 128 });
  expect((await containerOf("plan")).id).toBe(before.id);
  await control.assign({ upserts: [aSite("plan", { storageMb: 24, generation: 2n })] });
  const { crashing } = await control.status("plan", (status) => status.crashing !== undefined);
  expect(crashing?.reason).toContain(ended);
});

test("an app that never answered is told so, in its log too, and leaves nothing else behind", async () => {
  const site = aSite("never");
  const write = "require('fs').writeFileSync('/tmp/full', Buffer.alloc(4e7))";
  const command = ["node", "-e", `console.log("here goes"); ${write}; setInterval(() => {}, 1e3)`];
  await control.assign({ upserts: [{ ...site, spec: { ...site.spec, value: { ...site.spec.value, command } } }] });
  const { failure } = await control.status("never", ({ observed }) => observed === Observed.FAILED);
  expect(failure).toMatchObject({ code: "START_FAILED" });
  expect(failure?.message).toContain(`${ended} before it answered.`);
  await waitFor("the container to go", async () => (await node.engine.findContainer(containerName("never"))) === null);
  control.send({ message: { case: "logQuery", value: { requestId: "q1", placementId: "never", lines: 100 } } });
  const log = await waitFor("the log", () => control.deliveries.find(({ requestId }) => requestId === "q1"));
  expect(log).toMatchObject({ state: LogState.EXITED, text: expect.stringContaining("here goes") });
  expect(log.exit?.reason).toContain(ended);
});

test("an image with very many volumes is not started", async () => {
  const paths = Array.from({ length: 9 }, (_, n) => `/v${n}`);
  const reference = await pushApp(node.engine, registry.host, app, paths);
  const site = aSite("volumes");
  const value = { ...site.spec.value, image: { reference, maxSizeMb: 1_000 } };
  await control.assign({ upserts: [{ ...site, spec: { ...site.spec, value } }] });
  const { failure } = await control.status("volumes", ({ observed }) => observed === Observed.FAILED);
  expect(failure).toMatchObject({ code: "START_FAILED" });
  expect(failure?.message).toContain("The image has 9 volumes; at most 8 are allowed.");
  await node.engine.removeImage((await node.engine.findImage(reference))?.id ?? "");
});

test("a release command that writes too much is ended and told so", async () => {
  const attemptId = "release.1";
  control.send({
    message: {
      case: "runOffer",
      value: {
        ...{ attemptId, projectId: "p1", channel: "production", image: { reference: image }, resources },
        ...{ command: "dd if=/dev/zero of=/tmp/full bs=1M count=40; sleep 600", timeoutSeconds: 600 },
      },
    },
  });
  await waitFor("the acceptance", () => control.accepts.find((accept) => accept.attemptId === attemptId));
  control.send({ message: { case: "runGrant", value: { attemptId, token: "t", startWithinMs: 60_000 } } });
  const status = await waitFor("the end", () => {
    const run = control.runs.get(attemptId);
    return run?.phase === RunPhase.EXITED ? run : null;
  });
  expect(status).toMatchObject({
    exitCode: 137,
    message: "The command was ended because it wrote more than the 24 MB of disk that the plan allows.",
  });
});
