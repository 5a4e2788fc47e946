import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { place } from "../../scheduler/placement.ts";
import { listSchedulableNodes } from "../../scheduler/snapshot.ts";
import { aTask } from "../../scheduler/testing.ts";
import { listNodeEvents } from "../events/store.ts";
import { saveFacts } from "../store.ts";

let api: TestApi;
let admin: TestUser;
const fleet = { nodeLink: () => ({ link: "connected" as const, since: new Date(0) }) };
beforeAll(async () => {
  api = await testApi({ fleet });
  admin = await api.newUser({ admin: true });
});
afterAll(() => api?.[Symbol.asyncDispose]());

/** A machine that says this of itself, and nothing was set. */
async function newNode(labels: Record<string, string> = {}) {
  const values = { role: "node", name: `machine-${randomUUID().slice(0, 8)}` } as const;
  const { id } = await api.db.insertInto("node").values(values).returning("id").executeTakeFirstOrThrow();
  await hello(id, { labels });
  return { id, name: values.name };
}
const capacity = { memoryMb: 4096, cpuMillicores: 4000, pids: 4096, diskMb: 0 };
const hello = (id: string, change: { labels?: Record<string, string>; address?: string; memoryMb?: number }) =>
  api.db.transaction().execute((tx) =>
    saveFacts(
      tx,
      id,
      {
        ...{ version: "0.1.0", address: change.address ?? "10.0.0.7", labels: change.labels ?? {} },
        capacity: { ...capacity, memoryMb: change.memoryMb ?? capacity.memoryMb },
        platform: { os: "linux", architecture: "amd64" },
      },
      new Date(),
    ),
  );
const label = (id: string, labels: unknown, session = admin.session) =>
  api.call("PATCH", `/admin/nodes/${id}`, { session, body: { labels } });
const shown = async (id: string) => {
  const { body } = await api.call("GET", `/admin/nodes/${id}`, { session: admin.session });
  const { labels, operatorLabels, zone } = body.node;
  return { labels, operatorLabels, zone };
};
const eventsOf = async (id: string) =>
  (await listNodeEvents(api.db, id, 20)).map(({ kind, detail }) => [kind, detail]).reverse();
const codeOf = ({ status, body }: Answer) => [status, body.error?.code];

/** Whether the scheduler would put something there that asks for these labels. */
const takes = async (id: string, nodeSelector: Record<string, string>) => {
  const nodes = (await listSchedulableNodes(api.db, fleet)).filter((node) => node.id === id);
  return place(nodes, [], [aTask("t1", { nodeSelector })]).get("t1");
};

test("operators set labels and take them away, and theirs count for more than the machine's", async () => {
  const node = await newNode({ zone: "a", room: "1" });
  const { status, body } = await label(node.id, { disk: "fast", zone: "b" });
  const operatorLabels = { disk: "fast", zone: "b" };
  expect([status, body.node]).toEqual([200, { ...node, labels: { ...operatorLabels, room: "1" }, operatorLabels }]);
  expect(await shown(node.id)).toEqual({ labels: { ...operatorLabels, room: "1" }, operatorLabels, zone: "b" });
  await label(node.id, { zone: null, never: null });
  expect(await shown(node.id)).toEqual({
    ...{ labels: { disk: "fast", zone: "a", room: "1" }, operatorLabels: { disk: "fast" }, zone: "a" },
  });
  // What changes nothing is no news.
  await label(node.id, { disk: "fast" });
  expect(await eventsOf(node.id)).toEqual([
    ["labeled", "disk=fast, zone=b"],
    ["labeled", "without zone"],
  ]);
  // The next hello leaves them as they are.
  await hello(node.id, { labels: { disk: "slow" } });
  expect(await shown(node.id)).toMatchObject({ labels: { disk: "fast" }, zone: null });
});

test("a plan's projects go where operators say, whatever a machine says of itself", async () => {
  const node = await newNode({ tenant: "bank", zone: "a" });
  const nodeSelector = { tenant: "bank" };
  expect(await takes(node.id, nodeSelector)).toHaveProperty("refused");
  const [found] = (await listSchedulableNodes(api.db, fleet)).filter(({ id }) => id === node.id);
  expect(found).toMatchObject({ labels: {}, zone: "a" });
  await label(node.id, nodeSelector);
  expect(await takes(node.id, nodeSelector)).toEqual({ nodeId: node.id });
  await label(node.id, { tenant: "baker" });
  expect(await takes(node.id, nodeSelector)).toHaveProperty("refused");
});

test("what the schema does not know is refused, as is more than a machine may have", async () => {
  const { id } = await newNode();
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`l${n}`, "x"]));
  for (const labels of [{}, { "a b": "x" }, { disk: 1 }, { disk: "a\nb" }, { disk: "x".repeat(254) }, many(21), null])
    expect(codeOf(await label(id, labels))).toEqual([422, "VALIDATION"]);
  const body = { labels: { disk: "fast" }, name: "other" };
  const unknown = await api.call("PATCH", `/admin/nodes/${id}`, { session: admin.session, body });
  expect(codeOf(unknown)).toEqual([422, "VALIDATION"]);
  expect((await label(id, many(20))).status).toBe(200);
  const full = await label(id, { more: "x" });
  expect([...codeOf(full), full.body.error.message]).toEqual([422, "VALIDATION", expect.stringContaining("with null")]);
  expect(Object.keys((await shown(id)).operatorLabels)).toHaveLength(20);
});

test("is for administrators, of machines that there are", async () => {
  const { id } = await newNode();
  const user = await api.newUser();
  expect((await label(id, { disk: "fast" }, user.session)).status).toBe(403);
  expect(codeOf(await label(randomUUID(), { disk: "fast" }))).toEqual([404, "NOT_FOUND"]);
  expect(await shown(id)).toMatchObject({ operatorLabels: {} });
});

test("the audit has the labels' names and not what they say", async () => {
  const { id, name } = await newNode();
  await label(id, { zone: "a-secret-place", disk: null });
  const lines = await api.db.selectFrom("audit").select(["action", "detail"]).where("target", "=", id).execute();
  expect(lines).toEqual([{ action: "node.label", detail: { role: "node", name, labels: ["disk", "zone"] } }]);
});

test("a machine that says other things of itself than before leaves a line each time", async () => {
  const { id } = await newNode({ zone: "a" });
  await hello(id, { labels: { zone: "a" } });
  expect(await eventsOf(id)).toEqual([]);
  await hello(id, { labels: { zone: "b" }, address: "10.0.0.8", memoryMb: 8192 });
  await hello(id, { labels: { zone: "b" }, address: "10.0.0.8", memoryMb: 8192 });
  expect(await eventsOf(id)).toEqual([
    ["changed", "says of itself: another address; memory 8192 MiB (was 4096); labels: zone=b (was a)"],
  ]);
});
