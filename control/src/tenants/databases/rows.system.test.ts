import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { roleConnectionLimit, serverResources } from "./limits.ts";
import { memoryStage, postgresStage, type Stage } from "./testing/memory/stage.ts";

/* What work on branches may count on, of rows in Postgres and of those in memory alike: the simulator believes the latter. */

describe.each([
  { store: "Postgres", open: postgresStage },
  { store: "memory", open: memoryStage },
])("rows of branches in $store", ({ open }) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await open();
  });
  afterAll(() => stage?.[Symbol.asyncDispose]());

  const must = <T>(value: T | null | undefined): T => {
    if (value == null) throw new Error("there is none");
    return value;
  };
  const read = async (id: string) => must(await stage.branch(id));
  /** A branch whose server is on a node, which the branch itself knows. */
  async function placed() {
    const nodeId = await stage.newNode();
    const { id, projectId } = await stage.newBranch();
    await stage.rows.startServer(await read(id));
    const taskId = must((await stage.servers(id))[0]).id;
    await stage.place(taskId, nodeId);
    await stage.rows.pin(await read(id), nodeId);
    return { id, projectId, nodeId, taskId };
  }
  /** The same, whose tenant is in. */
  async function ready() {
    const made = await placed();
    const { branch, plan } = must(await stage.rows.find(made.id));
    await stage.rows.brought(branch, roleConnectionLimit(plan));
    expect(await stage.rows.proven(await read(made.id))).toBe(true);
    return made;
  }

  test("a branch is found with what is written down of it, and not once it is no more", async () => {
    const { id, projectId } = await stage.newBranch();
    expect(await stage.rows.find(id)).toMatchObject({
      branch: {
        id,
        project_id: projectId,
        status: "provisioning",
        node_id: null,
        tenant_at: null,
        pending_secret: null,
      },
      ...{ servers: [], projectGone: false, suspended: false, nodeGone: false, changing: false },
      plan: { db_connection_limit: expect.any(Number), db_size_mb: expect.any(Number) },
    });
    expect(must(await stage.rows.find(id)).sinceMs).toBeLessThan(60_000);
    await stage.suspend(projectId, true);
    expect(await stage.rows.find(id)).toMatchObject({ suspended: true });
    expect(await stage.rows.find("7f9ad1a4-6f5b-4f2c-8f43-0d6f9c1f2b11")).toBeNull();
  });

  test("what was read stays as it was", async () => {
    const { id } = await stage.newBranch();
    const found = must(await stage.rows.find(id));
    await stage.rows.fail(found.branch, "its disk broke");
    expect(found.branch.status).toBe("provisioning");
  });

  test("a first server may run anywhere and make data, and there is one at a time", async () => {
    const { id } = await stage.newBranch();
    await stage.rows.startServer(await read(id));
    await stage.rows.startServer(await read(id));
    expect(await stage.servers(id)).toMatchObject([
      { desired: "running", pinnedTo: null, nodeId: null, init: true, readOnly: false },
    ]);
    const { servers } = must(await stage.rows.find(id));
    expect(servers).toMatchObject([{ desired: "running", node_id: null, reaped_at: null }]);
  });

  test("a later one runs where the data is, and makes none once the tenant was made", async () => {
    const { id, nodeId, taskId } = await ready();
    await stage.rows.removeServers(await read(id), [taskId]);
    expect((await stage.servers(id))[0]?.desired).toBe("removed");
    await stage.rows.startServer(await read(id));
    expect(await stage.servers(id)).toHaveLength(1);
    await stage.reap(taskId);
    await stage.rows.startServer(await read(id));
    expect((await stage.servers(id)).at(-1)).toMatchObject({ desired: "running", pinnedTo: nodeId, init: false });
  });

  test("that its server is down is noted once, and each that is replaced counts, until one serves", async () => {
    const { id, nodeId, taskId } = await ready();
    const failures = async () => (await read(id)).server_failures;
    expect(await stage.rows.noteServing(await read(id))).toBe(false);
    expect(await stage.rows.noteDown(await read(id), "it did not start")).toBe(true);
    expect(await stage.rows.noteDown(await read(id), "it did not start")).toBe(false);
    expect(await failures()).toBe(1);
    await stage.rows.replaceServer(await read(id), taskId);
    await stage.rows.replaceServer(await read(id), taskId);
    expect(await failures()).toBe(2);
    expect(await stage.servers(id)).toMatchObject([{ desired: "removed" }]);
    await stage.reap(taskId);
    await stage.rows.startServer(await read(id));
    const next = must((await stage.servers(id)).at(-1)).id;
    await stage.place(next, nodeId);
    await stage.rows.replaceServer(await read(id), next);
    expect(await failures()).toBe(3);
    expect(await stage.rows.noteServing(await read(id))).toBe(true);
    expect(await failures()).toBe(0);
  });

  test("as long as a branch does not know where its data is, one that was placed is the last", async () => {
    const { id } = await stage.newBranch();
    await stage.rows.startServer(await read(id));
    const [{ id: taskId } = { id: "" }] = await stage.servers(id);
    await stage.place(taskId, await stage.newNode());
    await stage.reap(taskId);
    await stage.rows.startServer(await read(id));
    expect(await stage.servers(id)).toHaveLength(1);
  });

  test("one that never was placed may be followed by another", async () => {
    const { id } = await stage.newBranch();
    await stage.rows.startServer(await read(id));
    await stage.reap(must((await stage.servers(id))[0]).id);
    await stage.rows.startServer(await read(id));
    expect(await stage.servers(id)).toHaveLength(2);
  });

  test("a branch that is full gets a server that nobody writes to, but not while the platform has to", async () => {
    const { id, taskId } = await ready();
    await stage.set(id, { read_only: true });
    await stage.reap(taskId);
    await stage.rows.startServer(await read(id));
    const [, second] = await stage.servers(id);
    expect(second?.readOnly).toBe(true);
    await stage.reap(must(second).id);
    await stage.rotate(id);
    await stage.rows.startServer(await read(id));
    expect((await stage.servers(id)).at(-1)?.readOnly).toBe(false);
  });

  test("nothing is changed of a branch that is somewhere else by now", async () => {
    const { id, projectId, nodeId, taskId } = await ready();
    const before = await read(id);
    await stage.drop(projectId);
    await stage.reap(taskId);
    expect(await stage.rows.fail(before, "late")).toBe(false);
    expect(await stage.rows.bury(before, { nodeId, keptHours: 72 })).toBe(false);
    await stage.rows.startServer(before);
    await stage.rows.pin(before, await stage.newNode());
    await stage.rows.refused(before);
    await stage.rows.removeServers(before, [taskId]);
    expect(await stage.servers(id)).toMatchObject([{ desired: "running" }]);
    expect(await read(id)).toMatchObject({ status: "dropping", node_id: nodeId, tenant_doubts: before.tenant_doubts });
    expect((await read(id)).tenant_at).not.toBeNull();
  });

  test("a machine that was lost is told of, whether the branch knows it or only its last server did", async () => {
    const lost = await stage.newNode({ lifecycle: "fenced" });
    const { id } = await stage.newBranch();
    await stage.rows.startServer(await read(id));
    expect(await stage.rows.find(id)).toMatchObject({ nodeGone: false });
    await stage.place(must((await stage.servers(id))[0]).id, lost);
    expect(await stage.rows.find(id)).toMatchObject({ nodeGone: true });
    await stage.rows.pin(await read(id), lost);
    expect(await stage.rows.find(id)).toMatchObject({ nodeGone: true });
  });

  describe("what was brought to the server", () => {
    test("is written down of a branch that is the same", async () => {
      const { id } = await placed();
      await stage.rows.brought(await read(id), 15);
      expect(await read(id)).toMatchObject({
        tenant_doubts: 0,
        role_connection_limit: 15,
        tenant_at: expect.any(Date),
      });
      await stage.rows.cutOff(await read(id));
      expect(await read(id)).toMatchObject({ tenant_doubts: 0, tenant_at: expect.any(Date) });
    });

    test.each(["cutOff", "brought", "rotated"] as const)(
      "is doubted when another password was asked for meanwhile: %s",
      async (what) => {
        const { id } = await ready();
        const before = await read(id);
        await stage.rotate(id);
        if (what === "cutOff") await stage.rows.cutOff(before);
        else if (what === "brought") await stage.rows.brought(before, 15);
        else await stage.rows.rotated(before, Buffer.from("sealed"));
        const now = await read(id);
        expect(now).toMatchObject({ tenant_at: null, tenant_doubts: before.tenant_doubts + 1 });
        expect(now.secret.equals(before.secret)).toBe(true);
        expect(now.pending_secret).not.toBeNull();
      },
    );

    test("is doubted when somebody else moved the branch", async () => {
      const { id, projectId } = await ready();
      const before = await read(id);
      await stage.drop(projectId);
      await stage.rows.cutOff(before);
      expect(await read(id)).toMatchObject({ tenant_at: null, tenant_doubts: before.tenant_doubts + 1 });
    });

    test("is looked at again once it is doubted: whoever doubts it may not be at work on it any more", async () => {
      const { id } = await placed();
      const before = await read(id);
      await stage.set(id, { status: "ready" });
      expect(await stage.works(id)).toBe(0);
      await stage.rows.cutOff(before);
      expect(await read(id)).toMatchObject({ tenant_at: null, tenant_doubts: before.tenant_doubts + 1 });
      expect(await stage.works(id)).toBe(1);
    });

    test("is doubted when somebody has doubted the tenant meanwhile", async () => {
      const { id } = await placed();
      const before = await read(id);
      await stage.rows.refused(before);
      await stage.rows.brought(before, 15);
      expect(await read(id)).toMatchObject({ tenant_at: null, tenant_doubts: 2 });
      expect(await stage.rows.proven(before)).toBe(false);
      expect(await read(id)).toMatchObject({ status: "provisioning" });
    });

    test("becomes the password once it is there, and only the one that was asked for", async () => {
      const { id } = await ready();
      await stage.rotate(id);
      const before = await read(id);
      // Asked for again, the one on its way stays.
      await stage.rotate(id);
      expect(must((await read(id)).pending_secret).equals(must(before.pending_secret))).toBe(true);
      await stage.rows.rotated(before, Buffer.from("sealed"));
      const now = await read(id);
      expect(now).toMatchObject({ pending_secret: null, tenant_doubts: before.tenant_doubts });
      expect(now.secret.equals(Buffer.from("sealed"))).toBe(true);
    });

    test("of a branch that is gone nothing is written", async () => {
      const { id } = await stage.newBranch();
      const before = await read(id);
      expect(await stage.rows.bury(before, { nodeId: null, keptHours: 72 })).toBe(true);
      await stage.rows.cutOff(before);
      await stage.rows.brought(before, 15);
      expect(await stage.branch(id)).toBeNull();
    });
  });

  test("an error says why, and a branch in it is tried again with a tenant that is doubted", async () => {
    const { id } = await ready();
    expect(await stage.rows.fail(await read(id), "its disk broke")).toBe(true);
    expect(await read(id)).toMatchObject({ status: "error", reason: "its disk broke" });
    await stage.retry(id);
    expect(await read(id)).toMatchObject({ status: "provisioning", reason: null, tenant_at: null, tenant_doubts: 1 });
    await stage.retry(id);
    expect(await read(id)).toMatchObject({ tenant_doubts: 1 });
  });

  test("a server that runs gets what the plan gives, and one that is to go keeps what it has", async () => {
    const { id, taskId } = await placed();
    const plan = { db_connection_limit: 20, db_size_mb: 4_096, cpu_millicores: 250 };
    const resources = serverResources("postgres", plan);
    await stage.rows.resizeServer(taskId, resources);
    const given = { memory_mb: resources.memoryMb, cpu_millicores: resources.cpuMillicores };
    expect(must(await stage.rows.find(id)).servers).toMatchObject([given]);
    await stage.rows.removeServers(await read(id), [taskId]);
    await stage.rows.resizeServer(taskId, serverResources("postgres", { ...plan, cpu_millicores: 100 }));
    expect(must(await stage.rows.find(id)).servers).toMatchObject([given]);
  });

  test("work on a branch waits once, however often it is asked for", async () => {
    const { id, projectId } = await stage.newBranch();
    await stage.wake(id);
    await stage.wake(id);
    await stage.rows.beginDrop(projectId);
    expect(await stage.works(id)).toBe(1);
    expect(await read(id)).toMatchObject({ status: "dropping" });
  });

  test("a branch whose server has failed is looked at, once however often that is noticed", async () => {
    const [{ id }, other] = [await placed(), await placed()];
    await stage.failed.lookAt([id]);
    await stage.failed.lookAt([id]);
    expect(await stage.works(id)).toBe(1);
    expect(await stage.works(other.id)).toBe(0);
  });

  test("what is buried is remembered, and its volume kept until its time is over and nobody has it", async () => {
    const { id, projectId, nodeId, taskId } = await ready();
    expect(await stage.volumes(nodeId)).toMatchObject([
      { id, generation: 1, isOver: false, isCurrent: true, isUsed: true, isDue: false, isGone: false },
    ]);
    await stage.drop(projectId);
    expect(await stage.rows.bury(await read(id), { nodeId, keptHours: 72 })).toBe(true);
    expect(await stage.branch(id)).toBeNull();
    expect(await stage.isRemembered(id)).toBe(true);
    // Its node did not answer in time.
    expect(await stage.volumes(nodeId)).toMatchObject([{ isOver: true, isCurrent: false, isUsed: true, isDue: false }]);
    await stage.reap(taskId);
    await stage.endKeeping(id);
    expect(await stage.volumes(nodeId)).toMatchObject([{ isUsed: false, isDue: true }]);
  });

  test("what never had a volume is forgotten", async () => {
    const { id } = await stage.newBranch();
    expect(await stage.rows.bury(await read(id), { nodeId: null, keptHours: 72 })).toBe(true);
    expect(await stage.isRemembered(id)).toBe(false);
  });

  test("nodes are told of what they use or have, and where its newest server is while that is to run", async () => {
    const { id, projectId, nodeId, taskId } = await ready();
    const other = await stage.newNode();
    const own = must((await stage.reachable(nodeId, []))[0]);
    expect(own).toMatchObject({
      ...{ id, projectId, channel: "production", engine: "postgres", status: "ready", isOff: false, nodeId },
      ...{ readOnly: false, isHeld: false, copies: [] },
      server: { epoch: expect.any(Number), readOnly: false, at: { nodeId, address: expect.any(String) } },
    });
    expect(await stage.reachable(other, [projectId])).toEqual([own]);
    expect(await stage.reachable(other, [])).toEqual([]);
    await stage.rows.removeServers(await read(id), [taskId]);
    await stage.suspend(projectId, true);
    expect(await stage.reachable(nodeId, [])).toMatchObject([{ isOff: true, server: { at: null } }]);
    await stage.reap(taskId);
    await stage.rows.startServer(await read(id));
    const [next] = await stage.reachable(nodeId, []);
    expect(next?.server?.at).toBeNull();
    expect(next?.server?.epoch).toBeGreaterThan(must(own.server).epoch);
  });

  test("of a branch without a server so far nobody knows a way", async () => {
    const { projectId } = await stage.newBranch();
    expect(await stage.reachable(await stage.newNode(), [projectId])).toMatchObject([{ server: null, nodeId: null }]);
  });
});
