import { setTimeout as delay } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { Assign_Kind, Desired, HealthState, Observed, Verdict_Decision } from "@svc/proto/node";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { aPlacementValue } from "../agents/builders.ts";
import { aCertificateRequest } from "../ca/testing.ts";
import { keys, type NodeSessionValue, type ObservationValue } from "../cluster/keys.ts";
import { nodeTopic, taskTopic } from "../cluster/topics.ts";
import { defaultTimings } from "../sessions/timings.ts";
import { PlacementUnreadable } from "../tasks/assignment.ts";
import type { Link } from "./start.ts";
import {
  aDaemon,
  aDeafAgent,
  aHello,
  anAgent,
  aPlacement,
  aReconciledAgent,
  asNode,
  aWorld,
  type DaemonFiles,
  openAgentStream,
  until,
  type World,
} from "./testing.ts";

let world: World;
let link: Link;
let node: DaemonFiles;
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink();
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});
beforeEach(async () => {
  node = await aDaemon(world, link, "node");
});

const sessionOf = (id: string) => world.read<NodeSessionValue>(keys.nodeSession(id));
const observationOf = (placementId: string) => world.read<ObservationValue>(keys.observation(node.id, placementId));
/** The stream is over; the lease may run on. */
const isOver = async (id: string) => {
  const session = await sessionOf(id);
  return session === null || session.detached;
};
const codeOf = (error: unknown) => ConnectError.from(error).code;

test("a replica that alone is cut off from etcd sends its daemons to others, and takes none until it is not any more", async () => {
  let isCutOff = false;
  await using behind = await world.startLink({ isCutOff: () => isCutOff });
  await using agent = await anAgent(behind, node);
  isCutOff = true;
  expect((await agent.next("goAway")).reconnectAfterMs).toBeLessThan(defaultTimings.leaseTtlMs);
  await expect(anAgent(behind, node)).rejects.toThrow();
  {
    await using _elsewhere = await anAgent(link, node);
    expect(await sessionOf(node.id)).toMatchObject({ serverId: "replica-1" });
  }
  isCutOff = false;
  await using _again = await anAgent(behind, node);
});

describe("a session", () => {
  test("is in etcd while it lasts, with the facts of the node", async () => {
    await using agent = await anAgent(link, node);
    const entry = await world.etcd.get(keys.nodeSession(node.id));
    expect(entry?.modRevision).toBe(agent.sessionEpoch);
    expect(await sessionOf(node.id)).toMatchObject({
      serverId: "replica-1",
      instanceId: "instance-1",
      bootId: "boot-1",
      address: node.address,
      capacity: { memoryMb: 2048, cpuMillicores: 2000, pids: 4096, diskMb: 10_000 },
      platform: { os: "linux", architecture: "amd64" },
      labels: { zone: "a" },
      reconciled: false,
    });
    const row = await world.database.db.selectFrom("node").selectAll().where("id", "=", node.id).executeTakeFirst();
    expect(row).toMatchObject({ version: "0.1.0", address: node.address });
    expect(row?.last_seen_at).not.toBeNull();

    await agent[Symbol.asyncDispose]();
    await until("the key says that the stream is over", async () => (await sessionOf(node.id))?.detached);
  });

  test("leaves its key until the lease is over, and then none", async () => {
    const leaseTtlMs = 3_000;
    await using impatient = await world.startLink({ timings: { leaseTtlMs } });
    // The lease begins later than this.
    const startedAt = performance.now();
    const agent = await anAgent(impatient, node);
    await agent[Symbol.asyncDispose]();
    await until("the key says that the stream is over", async () => (await sessionOf(node.id))?.detached);
    await until("the key is gone", async () => (await sessionOf(node.id)) === null);
    // The grantor counts a second more than the holder.
    expect(performance.now() - startedAt).toBeGreaterThan(leaseTtlMs + 1_000);
  });

  test("that is silent for a while gets nothing new, until it is heard again", async () => {
    await using impatient = await world.startLink({ timings: { leaseTtlMs: 60_000, renewEveryMs: 100 } });
    await using agent = await anAgent(impatient, node);
    await until("the node is suspect", async () => (await sessionOf(node.id))?.suspect);
    await until("the node is heard", async () => {
      agent.send({ case: "renew", value: { n: 1n } });
      return (await sessionOf(node.id))?.suspect === false;
    });
  });

  test("of two machines with one identity: both are sent away, and keep what they run", async () => {
    const files = await aDaemon(world, link, "node");
    let refused: unknown = null;
    for (let turn = 0; turn < 8 && refused === null; turn += 1) {
      const talk = openAgentStream(link, files);
      talk.send({ case: "hello", value: aHello(files, { instanceId: `machine-${turn % 2}` }) });
      talk.send({ case: "inventory", value: { final: true } });
      await until("an answer", () => talk.waiting("welcome") + talk.waiting("goAway") > 0);
      if (talk.waiting("goAway") > 0) refused = await talk.next("goAway");
      // Both go on renewing: neither ends its stream by itself.
    }
    expect(refused).toMatchObject({ reconnectAfterMs: 60_000 });
    const row = await world.database.db.selectFrom("node").selectAll().where("id", "=", files.id).executeTakeFirst();
    expect(row?.quarantined_at).not.toBeNull();
    expect(row?.lifecycle).toBe("active");
    const again = openAgentStream(link, files);
    again.send({ case: "hello", value: aHello(files, { instanceId: "machine-0" }) });
    await again.next("goAway");
  });

  test("what an agent says of its disk is known to the scheduler, and again when it changes", async () => {
    const files = await aDaemon(world, link, "node");
    await using agent = await anAgent(link, files);
    const isFull = async (expected: boolean) =>
      until(`the disk to be ${expected ? "full" : "free"}`, async () => {
        const { db } = world.database;
        const row = await db
          .selectFrom("node")
          .select("disk_full")
          .where("id", "=", files.id)
          .executeTakeFirstOrThrow();
        return row.disk_full === expected;
      });
    agent.send({ case: "renew", value: { n: 1n, diskFull: true } });
    await isFull(true);
    agent.send({ case: "renew", value: { n: 2n } });
    await isFull(false);
  });

  test("that the memory of a machine is almost used up is known to the scheduler, until there is some again", async () => {
    const files = await aDaemon(world, link, "node");
    await using agent = await anAgent(link, files);
    for (const memoryShort of [true, false]) {
      agent.send({ case: "renew", value: { n: 1n, memoryShort } });
      await until(`the node to be ${memoryShort ? "short" : "well"}`, async () => {
        const node = world.database.db.selectFrom("node").select("memory_short").where("id", "=", files.id);
        return (await node.executeTakeFirstOrThrow()).memory_short === memoryShort;
      });
    }
  });

  test("why an agent builds no Dockerfiles is shown to operators, on one line, until it builds them", async () => {
    const files = await aDaemon(world, link, "node");
    await using agent = await anAgent(link, files);
    const says = async (dockerfileProblem: string, expected: string | null) => {
      agent.send({ case: "renew", value: { n: 1n, dockerfileProblem } });
      await until(`the node's problem to be ${expected}`, async () => {
        const { db } = world.database;
        const node = db.selectFrom("node").select("dockerfile_problem").where("id", "=", files.id);
        return (await node.executeTakeFirstOrThrow()).dockerfile_problem === expected;
      });
    };
    await says("Docker 20.10.24 is old\nand more", "Docker 20.10.24 is old and more");
    await says("x".repeat(5_000), "x".repeat(1_000));
    await says("", null);
  });

  test("why an agent builds no Dockerfiles is known when its session begins, and kept for one that does not say", async () => {
    const files = await aDaemon(world, link, "node");
    const { db } = world.database;
    const problemAfter = async (engine: { dockerfileProblem?: string }) => {
      await using _ = await anAgent(link, files, { hello: { engine } });
      const node = db.selectFrom("node").select("dockerfile_problem").where("id", "=", files.id);
      return (await node.executeTakeFirstOrThrow()).dockerfile_problem;
    };
    expect(await problemAfter({ dockerfileProblem: "Docker 20.10.24 is old\nand more" })).toBe(
      "Docker 20.10.24 is old and more",
    );
    expect(await problemAfter({})).toBe("Docker 20.10.24 is old and more");
    expect(await problemAfter({ dockerfileProblem: "" })).toBeNull();
  });

  test("what an agent says of its disk every moment is written now and then, and in the end as it is", async () => {
    const files = await aDaemon(world, link, "node");
    const conditionWriteEveryMs = 1_000;
    await using patient = await world.startLink({ timings: { conditionWriteEveryMs } });
    await using agent = await anAgent(patient, files);
    let wakes = 0;
    using _ = world.listener.on(taskTopic, () => {
      wakes += 1;
    });
    const startedAt = performance.now();
    for (let n = 1n; n <= 40n; n += 1n) {
      agent.send({ case: "renew", value: { n, diskFull: n % 2n === 1n, engineStalled: n === 40n } });
      await agent.next("renewAck");
    }
    await until("the last word is stored", async () => {
      const { db } = world.database;
      const row = await db
        .selectFrom("node")
        .select(["disk_full", "engine_stalled"])
        .where("id", "=", files.id)
        .executeTakeFirstOrThrow();
      return !row.disk_full && row.engine_stalled;
    });
    // The first at once, and another after each pause: a timer may end a little before its time.
    const pauses = (performance.now() - startedAt) / (0.99 * conditionWriteEveryMs);
    expect(wakes).toBeLessThanOrEqual(1 + Math.floor(pauses));
  });

  test("that renews far more often than asked is ended, and one that hurries a little is not", async () => {
    await using agent = await anAgent(link, node);
    for (let n = 1n; n <= 20n; n += 1n) agent.send({ case: "renew", value: { n } });
    await until("all are answered", () => agent.waiting("renewAck") === 20);
    expect(agent.waiting("goAway")).toBe(0);
    for (let n = 1n; n <= 100n; n += 1n) agent.send({ case: "renew", value: { n } });
    expect(await agent.next("goAway")).toMatchObject({ reconnectAfterMs: 60_000 });
    expect(await agent.ended).toBeNull();
  });

  test("renewals are answered", async () => {
    await using agent = await anAgent(link, node);
    agent.send({ case: "renew", value: { n: 7n } });
    expect((await agent.next("renewAck")).n).toBe(7n);
  });

  test("ends when a newer one begins, and leaves that one alone", async () => {
    await using first = await anAgent(link, node);
    await using second = await anAgent(link, node, { hello: { instanceId: "instance-2" } });
    await first.next("superseded");
    expect(await first.ended).toBeNull();
    expect(second.sessionEpoch).toBeGreaterThan(first.sessionEpoch);
    second.send({ case: "renew", value: { n: 1n } });
    await second.next("renewAck");
    expect(await sessionOf(node.id)).toMatchObject({ instanceId: "instance-2" });
  });

  test("ends when a newer one begins at another replica", async () => {
    await using other = await world.startLink();
    await using first = await anAgent(link, node);
    await using second = await anAgent(other, node, { hello: { instanceId: "instance-2" } });
    await first.next("superseded");
    expect(await first.ended).toBeNull();
    expect(second.sessionEpoch).toBeGreaterThan(first.sessionEpoch);
    expect(await sessionOf(node.id)).toMatchObject({ instanceId: "instance-2" });
  });

  test("ends when a newer one has its key, also where this version cannot read what that wrote", async () => {
    await using agent = await anAgent(link, node);
    await world.put(keys.nodeSession(node.id), { of: "a later version" });
    await agent.next("superseded");
    expect(await agent.ended).toBeNull();
    expect(await sessionOf(node.id)).toEqual({ of: "a later version" });
    await world.remove(keys.nodeSession(node.id));
  });

  test("ends on silence, and its key goes", async () => {
    // The grantor adds a second to the time to live.
    await using impatient = await world.startLink({ timings: { leaseTtlMs: 2_000, renewEveryMs: 600 } });
    await using agent = await anAgent(impatient, node);
    const startedAt = performance.now();
    expect(codeOf(await agent.ended)).toBe(Code.Unavailable);
    // Long before a lease of the usual length would have been over.
    expect(performance.now() - startedAt).toBeLessThan(defaultTimings.leaseTtlMs);
    await until("the key is gone", async () => (await sessionOf(node.id)) === null);
  });

  test("that ends while etcd is away is let go of once it is back", async () => {
    await using agent = await aReconciledAgent(world, link, node);
    await world.server.kill();
    await agent[Symbol.asyncDispose]();
    await world.server.start();
    await until("the key is let go of", () => isOver(node.id));
  });

  test("lasts as long as it is renewed", async () => {
    const leaseTtlMs = 3_000;
    await using impatient = await world.startLink({ timings: { leaseTtlMs, renewEveryMs: 900 } });
    await using agent = await anAgent(impatient, node);
    const startedAt = performance.now();
    let n = 0n;
    while (performance.now() - startedAt < 2 * leaseTtlMs) {
      n += 1n;
      agent.send({ case: "renew", value: { n } });
      expect((await agent.next("renewAck")).n).toBe(n);
      await delay(100);
    }
    expect(await sessionOf(node.id)).not.toBeNull();
  });

  test.each([
    { when: "the first message is none", hello: null, code: Code.FailedPrecondition },
    { when: "the address is missing", hello: { address: "" }, code: Code.InvalidArgument },
    { when: "the agent knows a later life of the cluster", hello: { clusterEpoch: 9n }, code: Code.FailedPrecondition },
  ])("is refused when $when", async ({ hello, code }) => {
    await using agent = openAgentStream(link, node);
    agent.send(hello === null ? { case: "renew", value: { n: 1n } } : { case: "hello", value: aHello(node, hello) });
    expect(codeOf(await agent.ended)).toBe(code);
    expect(await sessionOf(node.id)).toBeNull();
  });

  test("without a word is ended", async () => {
    await using agent = openAgentStream(link, node);
    expect(codeOf(await agent.ended)).toBe(Code.FailedPrecondition);
  });

  test("is sent away when the inventory does not come to its end", async () => {
    await using agent = openAgentStream(link, node);
    agent.send({ case: "hello", value: aHello(node) });
    agent.send({ case: "inventory", value: {} });
    await agent.next("goAway");
    expect(await agent.ended).toBeNull();
  });

  test("is sent away when it does not answer an assignment", async () => {
    await using impatient = await world.startLink({ timings: { applyTimeoutMs: 100 } });
    await using agent = await anAgent(impatient, node);
    await agent.next("assign");
    await agent.next("goAway");
    expect(await agent.ended).toBeNull();
  });

  test("ends when the agent does not read", async () => {
    await using impatient = await world.startLink({
      timings: { stuckAfterMs: 200 },
      // More than a connection takes before somebody reads.
      loadPlacement: async (placementId) => ({ ...aPlacement(placementId), channel: "x".repeat(1_000_000) }),
    });
    await world.place(node.id, "p1");
    using deaf = aDeafAgent(impatient, node);
    deaf.send({ case: "hello", value: aHello(node) });
    deaf.send({ case: "inventory", value: { final: true } });
    // Also when it is over by the time that somebody looks: its key outlives it.
    await until("the session opens", async () => (await sessionOf(node.id)) !== null);
    await until("the session ends", () => isOver(node.id));
  });

  test("is told to come back when control stops, and has its lease until then", async () => {
    const stopping = await world.startLink();
    await using agent = await anAgent(stopping, node);
    await stopping[Symbol.asyncDispose]();
    expect((await agent.next("goAway")).reconnectAfterMs).toBeGreaterThanOrEqual(0);
    expect(await agent.ended).toBeNull();
    expect(await sessionOf(node.id)).not.toBeNull();
  });
});

describe("an identity", () => {
  test("that was fenced is told so, at the next stream and in the present one", async () => {
    await using agent = await anAgent(link, node);
    const { db } = world.database;
    await db.updateTable("node").set({ lifecycle: "fenced", incarnation: 2 }).where("id", "=", node.id).execute();
    await sql`select pg_notify(${nodeTopic}, ${node.id})`.execute(db);
    await agent.next("fenced");
    expect(await agent.ended).toBeNull();

    await using again = openAgentStream(link, node);
    again.send({ case: "hello", value: aHello(node) });
    await again.next("fenced");
    using connection = asNode(link, node);
    const call = connection.node.reportSamples({ samples: [] });
    await expect(call).rejects.toMatchObject({ code: Code.PermissionDenied });
  });

  test("that was fenced and comes back without end is no longer listened to, and others are", async () => {
    const [fenced, other] = [await aDaemon(world, link, "node"), await aDaemon(world, link, "node")];
    const { db } = world.database;
    await db.updateTable("node").set({ lifecycle: "fenced" }).where("id", "=", fenced.id).execute();
    await using strict = await world.startLink({ ownRates: { hellos: { ratePerSecond: 0.01, burst: 3 } } });
    const told: string[] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      await using stream = openAgentStream(strict, fenced);
      stream.send({ case: "hello", value: aHello(fenced) });
      await until("an answer", () => stream.waiting("fenced") + stream.waiting("goAway") > 0);
      told.push(stream.waiting("fenced") > 0 ? "fenced" : "goAway");
    }
    expect(told).toEqual(["fenced", "fenced", "fenced", "goAway", "goAway"]);
    await using _ = await anAgent(strict, other);
  });

  test("that calls without end is refused, and others are not", async () => {
    const [loud, quiet] = [await aDaemon(world, link, "node"), await aDaemon(world, link, "node")];
    await using strict = await world.startLink({ ownRates: { calls: { ratePerSecond: 0.01, burst: 3 } } });
    using connection = asNode(strict, loud);
    for (let calls = 0; calls < 3; calls += 1) await connection.node.reportSamples({ samples: [] });
    const call = connection.node.reportSamples({ samples: [] });
    await expect(call).rejects.toMatchObject({ code: Code.ResourceExhausted });
    using others = asNode(strict, quiet);
    await others.node.reportSamples({ samples: [] });
  });

  test("that control does not know may keep what it runs", async () => {
    const { db } = world.database;
    await db.updateTable("bootstrap_token").set({ node_id: null }).where("node_id", "=", node.id).execute();
    await db.deleteFrom("node").where("id", "=", node.id).execute();
    await using agent = openAgentStream(link, node);
    agent.send({ case: "hello", value: aHello(node) });
    expect(codeOf(await agent.ended)).toBe(Code.PermissionDenied);
    expect(agent.waiting("fenced")).toBe(0);
  });

  test("of a router is no agent's", async () => {
    const edge = await aDaemon(world, link, "edge");
    await using agent = openAgentStream(link, edge);
    agent.send({ case: "hello", value: aHello(edge) });
    expect(codeOf(await agent.ended)).toBe(Code.Unauthenticated);
  });

  test("without a certificate of the cluster does not get through", async () => {
    using stranger = asNode(link, { ...node, certificate: "", privateKey: "" });
    await expect(stranger.node.reportSamples({ samples: [] })).rejects.toThrow();
  });

  test("gets a new certificate for a new key", async () => {
    const { der, privateKeyPem } = await aCertificateRequest();
    using connection = asNode(link, node);
    const { certificateChain } = await connection.node.renewCertificate({ csr: Uint8Array.from(der) });
    const renewed = { ...node, certificate: certificateChain, privateKey: privateKeyPem };
    await using agent = await anAgent(link, renewed);
    expect(agent.sessionEpoch).toBeGreaterThan(0n);
  });
});

describe("assignments", () => {
  test("begin complete and go on with what changes", async () => {
    await world.place(node.id, "p1");
    await using agent = await anAgent(link, node);
    const first = await agent.next("assign");
    expect(first).toMatchObject({ kind: Assign_Kind.COMPLETE, appliesTo: "", clusterEpoch: 1n, bulkToken: "" });
    expect(first.leaderEpoch).toBeGreaterThan(0n);
    expect(first.upserts).toHaveLength(1);
    expect(first.upserts[0]).toMatchObject({ placementId: "p1", epoch: 1n, desired: Desired.RUNNING });
    expect(first.upserts[0]?.spec.case).toBe("serve");

    // Nothing more before the answer, however much changes.
    await world.place(node.id, "p2");
    await world.place(node.id, "p1", { desired: "stopped" });
    agent.send({ case: "renew", value: { n: 1n } });
    await agent.next("renewAck");
    expect(agent.waiting("assign")).toBe(0);

    agent.send({ case: "applied", value: { resultsIn: first.resultsIn } });
    // As one message, or as two when control's watch hears of the second change only after the answer.
    let { resultsIn } = first;
    const changes: [string, Desired][] = [];
    while (changes.length < 2) {
      const delta = await agent.next("assign");
      expect(delta).toMatchObject({ kind: Assign_Kind.DELTA, appliesTo: resultsIn });
      changes.push(...delta.upserts.map(({ placementId, desired }): [string, Desired] => [placementId, desired]));
      resultsIn = delta.resultsIn;
      agent.send({ case: "applied", value: { resultsIn } });
    }
    expect(changes).toEqual([
      ["p2", Desired.RUNNING],
      ["p1", Desired.STOPPED],
    ]);

    const at = await world.place(node.id, "p3");
    const last = await agent.next("assign");
    expect(last).toMatchObject({ appliesTo: resultsIn, resultsIn: String(at) });
  });

  test("are never older at another replica than what the agent has", async () => {
    await world.place(node.id, "p1");
    await using first = await aReconciledAgent(world, link, node);
    const changes = ["p2", "p3"].map((id) => world.place(node.id, id));
    const { resultsIn } = await first.next("assign");
    await Promise.all(changes);
    await using other = await world.startLink();
    await using second = await anAgent(other, node, { hello: { instanceId: "instance-2" } });
    const complete = await second.next("assign");
    expect(complete.upserts).toHaveLength(3);
    expect(BigInt(complete.resultsIn)).toBeGreaterThanOrEqual(BigInt(resultsIn));
  });

  test("wait for the first leader", async () => {
    await world.remove(keys.leader);
    await using fresh = await world.startLink();
    await using agent = await anAgent(fresh, node);
    expect(agent.waiting("assign")).toBe(0);
    const epoch = await world.put(keys.leader, "somebody");
    expect((await agent.next("assign")).leaderEpoch).toBe(epoch);
  });

  test("begin again when the agent asks", async () => {
    await world.place(node.id, "p1");
    await using agent = await aReconciledAgent(world, link, node);
    agent.send({ case: "applied", value: { resultsIn: "0", resync: true } });
    const again = await agent.next("assign");
    expect(again).toMatchObject({ kind: Assign_Kind.COMPLETE });
    expect(again.upserts.map(({ placementId }) => placementId)).toEqual(["p1"]);
    expect(BigInt(again.resultsIn)).toBeGreaterThanOrEqual(BigInt(agent.resultsIn));
  });

  test("mark the session reconciled only once they are answered", async () => {
    await using agent = await anAgent(link, node);
    const { resultsIn } = await agent.next("assign");
    expect((await sessionOf(node.id))?.reconciled).toBe(false);
    agent.send({ case: "applied", value: { resultsIn } });
    await until("reconciled", async () => (await sessionOf(node.id))?.reconciled);
  });

  test("pass on a vanished key only when its placement was to be removed", async () => {
    await world.place(node.id, "p1");
    await world.place(node.id, "p2", { desired: "removed", epoch: 5 });
    await using agent = await aReconciledAgent(world, link, node);
    await world.remove(keys.placement(node.id, "p1"));
    await world.remove(keys.placement(node.id, "p2"));
    const { upserts, removes } = await agent.next("assign");
    expect(upserts).toEqual([]);
    expect(removes).toMatchObject([{ placementId: "p2", epoch: 5n }]);
  });

  test("come in parts when they are large, without a gap", async () => {
    const large = await world.startLink({
      loadPlacement: async (placementId) => ({
        ...aPlacement(placementId),
        channel: "x".repeat(100_000),
      }),
    });
    await using _ = large;
    for (let i = 0; i < 7; i += 1) await world.place(node.id, `p${i}`);
    await using agent = await anAgent(large, node);
    const ids: string[] = [];
    let at = "";
    while (ids.length < 7) {
      const { kind, appliesTo, resultsIn, upserts } = await agent.next("assign");
      expect(kind).toBe(at === "" ? Assign_Kind.COMPLETE : Assign_Kind.DELTA);
      expect(appliesTo).toBe(at);
      expect(upserts.length).toBeLessThanOrEqual(2);
      ids.push(...upserts.map(({ placementId }) => placementId));
      at = resultsIn;
      agent.send({ case: "applied", value: { resultsIn } });
    }
    expect(ids).toEqual(["p0", "p1", "p2", "p3", "p4", "p5", "p6"]);
    await until("reconciled", async () => (await sessionOf(node.id))?.reconciled);
  });

  test("leave out a placement that cannot be read, and stop it when it is to stop; others get theirs", async () => {
    let databaseIsAway = true;
    await using strict = await world.startLink({
      loadPlacement: async (placementId) => {
        if (placementId === "broken") throw new PlacementUnreadable("no manifest");
        if (placementId === "whole" && databaseIsAway) {
          databaseIsAway = false;
          throw new Error("no connection");
        }
        return aPlacement(placementId);
      },
    });
    await world.place(node.id, "broken");
    await world.place(node.id, "whole");
    await using agent = await anAgent(strict, node);
    const { kind, upserts, removes, resultsIn } = await agent.next("assign");
    expect(kind).toBe(Assign_Kind.COMPLETE);
    expect(upserts.map(({ placementId }) => placementId)).toEqual(["whole"]);
    expect(removes).toEqual([]);
    agent.send({ case: "applied", value: { resultsIn } });
    await until("reconciled", async () => (await sessionOf(node.id))?.reconciled);
    expect(agent.waiting("verdict")).toBe(0);

    await world.place(node.id, "broken", { desired: "stopped" });
    expect((await agent.next("assign")).upserts).toMatchObject([{ placementId: "broken", desired: Desired.STOPPED }]);
  });

  test("vouch for a mass stop that the leader wants", async () => {
    const ids = ["p1", "p2", "p3", "p4"];
    for (const id of ids) await world.place(node.id, id);
    await using agent = await aReconciledAgent(world, link, node);
    const items = ids.map((placementId) => ({ placementId, epoch: 1n, statusSeq: 1n, observed: Observed.RUNNING }));
    agent.send({ case: "status", value: { batchSeq: 1n, items } });
    await agent.next("statusAck");
    await world.etcd.txn({
      ops: ids.map((id) => ({
        put: {
          key: keys.placement(node.id, id),
          value: JSON.stringify(aPlacementValue(id, { desired: "stopped" })),
        },
      })),
    });
    const { upserts, bulkToken } = await agent.next("assign");
    expect(upserts).toHaveLength(4);
    expect(bulkToken).not.toBe("");
  });
});

describe("reports", () => {
  const running = (fields: object = {}) => ({
    placementId: "p1",
    epoch: 1n,
    statusSeq: 3n,
    observed: Observed.RUNNING,
    health: HealthState.HEALTHY,
    upstream: `${node.address}:31000`,
    ...fields,
  });

  test("become observations, and are acknowledged once stored", async () => {
    await world.place(node.id, "p1");
    await using agent = await aReconciledAgent(world, link, node);
    agent.send({ case: "status", value: { batchSeq: 1n, items: [running()] } });
    expect((await agent.next("statusAck")).batchSeq).toBe(1n);
    expect(await observationOf("p1")).toMatchObject({
      statusSeq: 3,
      observed: "running",
      health: "healthy",
      upstream: `${node.address}:31000`,
    });
  });

  test("never go back, and are acknowledged all the same", async () => {
    await world.place(node.id, "p1");
    await using agent = await aReconciledAgent(world, link, node);
    const older = running({ statusSeq: 2n, health: HealthState.UNHEALTHY });
    const backwards = running({ statusSeq: 9n, observed: Observed.PULLING });
    for (const [index, item] of [running(), older, backwards].entries()) {
      agent.send({ case: "status", value: { batchSeq: BigInt(index), items: [item] } });
      await agent.next("statusAck");
    }
    expect(await observationOf("p1")).toMatchObject({ statusSeq: 3, health: "healthy", observed: "running" });
  });

  test("count only for placements of the node", async () => {
    await using agent = await aReconciledAgent(world, link, node);
    agent.send({ case: "status", value: { batchSeq: 1n, items: [running({ placementId: "elsewhere" })] } });
    await agent.next("statusAck");
    expect(await observationOf("elsewhere")).toBeNull();
  });

  test("in the inventory count too", async () => {
    await world.place(node.id, "p1");
    await using _ = await anAgent(link, node, { items: [running()] });
    await until("observed", async () => (await observationOf("p1"))?.observed === "running");
  });

  test("of a superseded session change nothing", async () => {
    await world.place(node.id, "p1");
    await using agent = await aReconciledAgent(world, link, node);
    // Another stream takes the key behind this replica's back; whether the watch or the write comes first, nothing is stored.
    const session = await sessionOf(node.id);
    await world.put(keys.nodeSession(node.id), { ...session, instanceId: "instance-2" });
    agent.send({ case: "status", value: { batchSeq: 1n, items: [running()] } });
    await agent.next("superseded");
    expect(await agent.ended).toBeNull();
    expect(agent.waiting("statusAck")).toBe(0);
    expect(await observationOf("p1")).toBeNull();
    expect(await sessionOf(node.id)).toMatchObject({ instanceId: "instance-2" });
    await world.remove(keys.nodeSession(node.id));
  });

  test("do not bring back what the leader has forgotten", async () => {
    await world.place(node.id, "p1");
    await using agent = await aReconciledAgent(world, link, node);
    await world.remove(keys.placement(node.id, "p1"));
    agent.send({ case: "status", value: { batchSeq: 1n, items: [running()] } });
    await agent.next("statusAck");
    expect(await observationOf("p1")).toBeNull();
  });

  test("wait for etcd to come back", async () => {
    await world.place(node.id, "p1");
    await using agent = await aReconciledAgent(world, link, node);
    await world.server.kill();
    agent.send({ case: "status", value: { batchSeq: 1n, items: [running()] } });
    agent.send({ case: "renew", value: { n: 1n } });
    await agent.next("renewAck");
    expect(agent.waiting("statusAck")).toBe(0);
    await world.server.start();
    await agent.next("statusAck");
    expect(await observationOf("p1")).toMatchObject({ observed: "running" });
  });
});

describe("an orphan", () => {
  const insertTask = async (desired: "running" | "removed", nodeId: string | null = null) => {
    const { id } = await world.database.db
      .insertInto("task")
      .values({
        project_id: "5a1d0c37-0000-4000-8000-000000000001",
        owner_kind: "deployment",
        owner_id: "5a1d0c37-0000-4000-8000-000000000002",
        kind: "serve",
        channel: "production",
        desired,
        node_id: nodeId,
        spec: "{}",
        spec_hash: "h1",
        memory_mb: 64,
        cpu_millicores: 100,
        pids_limit: 64,
      })
      .returning("id")
      .executeTakeFirstOrThrow();
    return id;
  };

  test("is ended only when it is known to be over", async () => {
    const gone = await insertTask("removed");
    const wanted = await insertTask("running");
    const other = await world.database.db
      .insertInto("node")
      .values({ role: "node", name: "another" })
      .returning("id")
      .executeTakeFirstOrThrow();
    const elsewhere = await insertTask("running", other.id);
    const ids = [gone, wanted, elsewhere, "5a1d0c37-0000-4000-8000-00000000abcd", "not-a-uuid"];
    const items = ids.map((placementId) => ({ placementId, epoch: 1n, statusSeq: 1n, observed: Observed.RUNNING }));
    await using agent = await anAgent(link, node, { items });
    const verdicts = new Map<string, unknown>();
    for (const _ of ids) {
      const { placementId, decision } = await agent.next("verdict");
      verdicts.set(placementId, decision);
    }
    expect(Object.fromEntries(verdicts)).toEqual({
      [gone]: Verdict_Decision.KILL,
      [wanted]: Verdict_Decision.ADOPT,
      [elsewhere]: Verdict_Decision.KILL,
      "5a1d0c37-0000-4000-8000-00000000abcd": Verdict_Decision.ADOPT,
      "not-a-uuid": Verdict_Decision.ADOPT,
    });
  });
});
