import { randomUUID } from "node:crypto";
import type { NodeAction, NodeAxes } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import type { Node } from "../../../stores/db/tables.ts";
import type { HeldPlacement } from "../../cluster/facts.ts";

let api: TestApi;
let admin: TestUser;
const links = new Map<string, Exclude<NodeAxes["link"], "quarantined">>();
let placements: HeldPlacement[] = [];
beforeAll(async () => {
  api = await testApi({
    fleet: {
      nodeLink: (id) => ({ link: links.get(id) ?? "connected", since: new Date(0) }),
      placements: () => placements,
    },
  });
  admin = await api.newUser({ admin: true });
});
afterAll(() => api[Symbol.asyncDispose]());
beforeEach(async () => {
  placements = [];
  await api.db.deleteFrom("node").execute();
  await api.db.deleteFrom("work_item").execute();
});

let made = 0;
const newNode = (values: Partial<Pick<Node, "role" | "drain" | "schedulable" | "lifecycle" | "quarantined_at">> = {}) =>
  api.db
    .insertInto("node")
    .values({ role: "node", name: `machine-${++made}`, labels: "{}", last_seen_at: new Date(), ...values })
    .returningAll()
    .executeTakeFirstOrThrow();
async function newBranch(node_id: string | null): Promise<string> {
  const { id: project_id } = await api.newProject(admin);
  const sealed = { admin_secret: Buffer.alloc(1), secret: Buffer.alloc(1) };
  const branch = { id: randomUUID(), project_id, channel: "production", engine: "postgres", node_id } as const;
  await api.db
    .insertInto("database")
    .values({ ...branch, ...sealed, status: "ready" })
    .execute();
  return branch.id;
}
const rowOf = (id: string) => api.db.selectFrom("node").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
const act = (id: string, action: NodeAction, body?: object, headers: Record<string, string> = {}) =>
  api.call("POST", `/admin/nodes/${id}/${action}`, { session: admin.session, headers, ...(body && { body }) });
const eventsOf = async (nodeId: string) =>
  (await api.db.selectFrom("node_event").selectAll().where("node_id", "=", nodeId).orderBy("id").execute()).map(
    ({ kind, detail }) => [kind, detail],
  );
const refusalOf = ({ status, body }: Answer) => [status, body.error?.code];
const unavailable = [409, "NODE_ACTION_UNAVAILABLE"];

const drained = { drain: "drained", schedulable: false } as const;
const fence = { reason: "the rack burned", confirm: true };

describe("an action", () => {
  test.each<{
    action: NodeAction;
    body?: object;
    from?: Parameters<typeof newNode>[0];
    link?: Exclude<NodeAxes["link"], "quarantined">;
    status: string;
    row: Partial<Node>;
    events: unknown[];
    queued?: boolean;
    tells?: object;
  }>([
    {
      action: "cordon",
      body: { reason: "noise" },
      status: "cordoned",
      row: { schedulable: false, reason: "noise" },
      tells: { reason: "noise" },
      events: [["cordoned", "noise"]],
    },
    {
      action: "uncordon",
      from: { schedulable: false },
      status: "ready",
      row: { schedulable: true, reason: null },
      events: [["uncordoned", null]],
    },
    {
      action: "drain",
      body: { deadlineSeconds: 60 },
      queued: true,
      tells: { deadline: expect.stringMatching(/^\d{4}-/) },
      status: "draining",
      row: { schedulable: false, drain: "draining", drain_generation: 1 },
      events: [["drain-started", null]],
    },
    {
      action: "cancel-drain",
      from: drained,
      status: "cordoned",
      row: { schedulable: false, drain: "none", drain_generation: 1, drain_deadline: null },
      events: [["drain-canceled", null]],
    },
    {
      action: "force-fence",
      body: fence,
      link: "unreachable",
      status: "fenced",
      queued: true,
      tells: { reason: fence.reason },
      row: { lifecycle: "fenced", incarnation: 2, schedulable: false, reason: fence.reason },
      events: [["fenced", fence.reason]],
    },
    {
      action: "force-fence",
      body: fence,
      from: { quarantined_at: new Date() },
      status: "fenced",
      queued: true,
      row: { lifecycle: "fenced", incarnation: 2 },
      events: [["fenced", fence.reason]],
    },
    {
      action: "remove",
      body: { confirm: true },
      from: drained,
      status: "removed",
      row: { lifecycle: "removed", schedulable: false },
      events: [["removed", null]],
    },
    {
      action: "remove",
      body: { confirm: true },
      from: { lifecycle: "fenced" },
      status: "removed",
      row: { lifecycle: "removed" },
      events: [["removed", null]],
    },
  ])("$action of $from is carried out, told, and written down", async (situation) => {
    const { action, body, from, link, status, row, events, queued = false, tells = {} } = situation;
    const node = await newNode(from);
    if (link !== undefined) links.set(node.id, link);
    const answer = await act(node.id, action, body);
    expect(answer.status, answer.text).toBe(202);
    expect(answer.body).toEqual({ ok: true, queued, action, node: { id: node.id, name: node.name, status } });
    expect(await rowOf(node.id)).toMatchObject(row);
    expect(await eventsOf(node.id)).toEqual(events);
    const audit = await api.db.selectFrom("audit").selectAll().where("target", "=", node.id).execute();
    const detail = expect.objectContaining({ name: node.name, ...tells });
    expect(audit).toEqual([expect.objectContaining({ action: `node.${action}`, user_id: admin.id, detail })]);
    expect((await api.call("GET", `/admin/nodes/${node.id}`, { session: admin.session })).body.node).toMatchObject({
      status,
    });
  });

  test.each<{ action: NodeAction; body?: object; from?: Parameters<typeof newNode>[0]; says: RegExp }>([
    { action: "cordon", from: { schedulable: false }, says: /cordoned already.*drain it/ },
    { action: "uncordon", says: /not cordoned/ },
    { action: "drain", from: drained, says: /drained already/ },
    { action: "cancel-drain", says: /not draining/ },
    { action: "force-fence", body: fence, says: /drain it instead/ },
    { action: "remove", body: { confirm: true }, says: /Drain it first/ },
    { action: "remove", from: drained, says: /confirm: true/ },
    { action: "remove", body: { reason: "sold" }, from: { lifecycle: "fenced" }, says: /confirm: true/ },
    { action: "force-fence", body: { confirm: true }, from: { quarantined_at: new Date() }, says: /reason/ },
    { action: "force-fence", body: { reason: "off" }, from: { quarantined_at: new Date() }, says: /confirm: true/ },
    { action: "uncordon", from: { lifecycle: "removed", schedulable: false }, says: /join as a new one/ },
  ])("$action of $from with $body is refused, and changes nothing", async ({ action, body, from, says }) => {
    const node = await newNode(from);
    const answer = await act(node.id, action, body);
    expect(refusalOf(answer)).toEqual(unavailable);
    expect(answer.body.error.message).toMatch(says);
    expect(await rowOf(node.id)).toEqual(node);
    expect(await eventsOf(node.id)).toEqual([]);
    expect(await api.db.selectFrom("audit").select("id").where("target", "=", node.id).execute()).toEqual([]);
  });

  test.each<{ action: NodeAction; body: object; from: Parameters<typeof newNode>[0] }>([
    { action: "force-fence", body: fence, from: { quarantined_at: new Date() } },
    { action: "remove", body: { confirm: true }, from: { lifecycle: "fenced" } },
  ])("$action has the databases looked at that were there, and no others", async ({ action, body, from }) => {
    const [node, other] = [await newNode(from), await newNode()];
    const placed = await newBranch(null);
    const { id: task } = await api.newTask(await api.newDeployment(await api.newProject(admin)));
    await api.db.updateTable("task").set({ node_id: node.id, owner_id: placed }).where("id", "=", task).execute();
    const expected = [placed, await newBranch(node.id)].sort();
    await newBranch(other.id);
    await newBranch(null);
    expect((await act(node.id, action, body)).status).toBe(202);
    const items = await api.db.selectFrom("work_item").select("payload").where("kind", "=", "database").execute();
    expect(items.map(({ payload }) => (payload as { databaseId: string }).databaseId).sort()).toEqual(expected);
  });

  test("of a machine that just went away waits until it is surely unreachable", async () => {
    const node = await newNode();
    for (const link of ["suspect", "unknown"] as const) {
      links.set(node.id, link);
      const answer = await act(node.id, "force-fence", fence);
      expect(refusalOf(answer)).toEqual(unavailable);
      expect(answer.body.error.message).toMatch(/unreachable/);
    }
  });

  test("does not remove what still holds something", async () => {
    const node = await newNode(drained);
    placements = [
      {
        ...{ nodeId: node.id, placementId: node.id, kind: "serve", memoryMb: 1, cpuMillicores: 1, pidsLimit: 1 },
        ...{ running: true, serving: true, observed: "running", health: "healthy", changedAt: null },
      },
    ];
    const answer = await act(node.id, "remove", { confirm: true });
    expect(refusalOf(answer)).toEqual(unavailable);
    expect(answer.body.error.message).toContain("1 placement");
  });

  test("does not remove what has the data of a database, also of one that is off", async () => {
    const node = await newNode(drained);
    await newBranch(node.id);
    const answer = await act(node.id, "remove", { confirm: true });
    expect(refusalOf(answer)).toEqual(unavailable);
    expect(answer.body.error.message).toContain("the data of 1 database,");
  });

  test.each([
    ["cordon", { deadlineSeconds: 600 }],
    ["drain", { deadlineSeconds: 5 }],
    ["drain", { reason: "a\nb" }],
    ["remove", { confirm: "yes" }],
  ] as const)("%s does not take %j", async (action, body) => {
    expect(refusalOf(await act((await newNode()).id, action, body))).toEqual([422, "VALIDATION"]);
  });

  test("of a machine that there is not, or of no known kind, is not found", async () => {
    const { id } = await newNode();
    expect(refusalOf(await act("11111111-2222-4333-8444-555555555555", "cordon"))).toEqual([404, "NOT_FOUND"]);
    expect(refusalOf(await act(id, "explode" as NodeAction))).toEqual([404, "NOT_FOUND"]);
  });
});

describe("two administrators at once", () => {
  test.each([
    { action: "cordon", body: {}, from: {} },
    { action: "drain", body: {}, from: {} },
    { action: "force-fence", body: fence, from: { quarantined_at: new Date() } },
  ] as const)("$action once", async ({ action, body, from }) => {
    const node = await newNode(from);
    const answers = await Promise.all([1, 2, 3].map(() => act(node.id, action, body)));
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409]);
    expect(await eventsOf(node.id)).toHaveLength(1);
    const { incarnation, drain_generation } = await rowOf(node.id);
    expect([incarnation, drain_generation]).toEqual(
      {
        ...{ cordon: [1, 0], drain: [1, 1], "force-fence": [2, 1] },
      }[action],
    );
  });

  test("do not uncordon and drain the same machine both", async () => {
    const node = await newNode({ schedulable: false });
    await Promise.all([act(node.id, "uncordon"), act(node.id, "drain")]);
    const { drain, schedulable } = await rowOf(node.id);
    // Whoever came second decided on what the first had made of it.
    expect(drain === "draining" && schedulable).toBe(false);
  });

  test("do not take the last two edges out of rotation, each counting the other", async () => {
    const edges = [await newNode({ role: "edge" }), await newNode({ role: "edge" })];
    const answers = await Promise.all(edges.map(({ id }) => act(id, "cordon")));
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409]);
    expect(answers.find(({ status }) => status === 409)?.body.error.message).toMatch(/only edge/);
  });

  test("and one whose answer was lost gets it again", async () => {
    const node = await newNode();
    const key = { "idempotency-key": "cordon-1" };
    const [first, again] = [await act(node.id, "cordon", {}, key), await act(node.id, "cordon", {}, key)];
    expect([first.status, again.status]).toEqual([202, 202]);
    expect(again.body).toEqual(first.body);
    expect(await eventsOf(node.id)).toHaveLength(1);
    expect(refusalOf(await act(node.id, "uncordon", {}, key))).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
  });
});

describe("an edge", () => {
  test("is drained as soon as it is out of rotation, and then removed", async () => {
    await newNode({ role: "edge" });
    const edge = await newNode({ role: "edge" });
    expect((await act(edge.id, "drain", { reason: "new machine" })).body.node.status).toBe("drained");
    expect(await eventsOf(edge.id)).toEqual([
      ["drain-started", "new machine"],
      ["drained", null],
    ]);
    expect((await act(edge.id, "remove", { confirm: true })).body.node.status).toBe("removed");
  });

  test("that is dead does not hold up what waits for edges any longer than until it is fenced", async () => {
    const edge = await newNode({ role: "edge" });
    links.set(edge.id, "unreachable");
    const later = new Date(Date.now() + 3_600_000);
    const work = async (kind: string) => {
      const values = { kind, key: `${kind}/1`, payload: "{}", run_at: later };
      return (await api.db.insertInto("work_item").values(values).returning("id").executeTakeFirstOrThrow()).id;
    };
    const [waits, unrelated] = [await work("retire"), await work("rename")];
    // The only one there is, and even so: it is lost already.
    expect((await act(edge.id, "force-fence", fence)).status).toBe(202);
    const { rows } = await sql<{ id: number }>`select id from work_item where run_at <= now()`.execute(api.db);
    expect(rows.map(({ id }) => id)).toEqual([waits]);
    expect(rows.map(({ id }) => id)).not.toContain(unrelated);
  });
});

test("without the scheduler nothing is done to any machine", async () => {
  await using alone = await testApi({ config: { schedulerEnabled: false } });
  const { session } = await alone.newUser({ admin: true });
  const { id } = await alone.db
    .insertInto("node")
    .values({ role: "node", name: "box", labels: "{}" })
    .returning("id")
    .executeTakeFirstOrThrow();
  const answer = await alone.call("POST", `/admin/nodes/${id}/drain`, { session });
  expect(refusalOf(answer)).toEqual([409, "CLUSTER_SCHEDULER_DISABLED"]);
  const shown = await alone.call("GET", `/admin/nodes/${id}`, { session });
  expect(shown.body.node.actions).toEqual([]);
});
