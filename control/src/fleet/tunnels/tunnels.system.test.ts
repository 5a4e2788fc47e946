import { randomBytes, randomUUID } from "node:crypto";
import { buffer, text } from "node:stream/consumers";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import type { TunnelRequestSchema } from "@svc/proto/node";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { nodeTopic } from "../cluster/topics.ts";
import type { Link } from "../daemons/start.ts";
import { aDaemon, anAgent, asNode, aWorld, type DaemonFiles, type World } from "../daemons/testing.ts";
import { createTunnels, type Tunnels } from "./tunnels.ts";

type Request = MessageInitShape<typeof TunnelRequestSchema>;

let world: World;
/** The node's stream is on one replica, and who wants the tunnel on the other. */
let holding: Link;
let asking: Link;
let tunnels: Tunnels;
let node: DaemonFiles;
beforeAll(async () => {
  world = await aWorld();
  tunnels = createTunnels({ clock: systemClock, random: systemRandom, db: world.database.db });
  holding = await world.startLink();
  asking = await world.startLink({ tunnels });
  node = await aDaemon(world, holding, "node");
});
afterAll(async () => {
  await holding[Symbol.asyncDispose]();
  await asking[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

const target = () => ({ nodeId: node.id, databaseId: randomUUID(), epoch: "7" });
const never = new AbortController().signal;

/** The node's end of a tunnel at a replica: says what it is told to, and tells what it hears. */
function theNode(link: Link, tunnelId: string, says: AsyncIterable<Uint8Array>, daemon = node, refusedBecause = "") {
  const connection = asNode(link, daemon);
  async function* requests(): AsyncGenerator<Request> {
    yield { message: { case: "answer", value: { tunnelId, refusedBecause } } };
    for await (const value of says) yield { message: { case: "data", value } };
  }
  const heard: Uint8Array[] = [];
  const ended = (async () => {
    try {
      for await (const { data } of connection.node.tunnel(requests())) heard.push(data);
      return null;
    } catch (error) {
      return error;
    } finally {
      connection[Symbol.dispose]();
    }
  })();
  return { ended, text: () => Buffer.concat(heard).toString() };
}

async function* saying(...texts: string[]) {
  for (const each of texts) yield Uint8Array.from(Buffer.from(each));
}
/** Says something, and then nothing until the call ends. */
async function* holdingOn(what: string) {
  yield Uint8Array.from(Buffer.from(what));
  await new Promise(() => {});
}

test("bytes go both ways, and each end is told of the other's", async () => {
  await using agent = await anAgent(holding, node);
  const database = target();
  const opening = tunnels.open(database, never);
  const { tunnelId, ...wish } = await agent.next("openTunnel");
  expect(wish).toMatchObject({ databaseId: database.databaseId, epoch: 7n });
  // The replica that holds the stream is not the one that asked.
  expect(await theNode(holding, tunnelId, saying()).ended).toMatchObject({ code: Code.NotFound });
  const end = theNode(asking, tunnelId, saying("hello ", "world"));
  const stream = await opening;
  stream.write("select 1");
  expect(await text(stream)).toBe("hello world");
  expect(await end.ended).toBe(null);
  expect(end.text()).toBe("select 1");
});

test("a tunnel to the files of a copy names that, and no server", async () => {
  await using agent = await anAgent(holding, node);
  const copyId = randomUUID();
  const opening = tunnels.open({ nodeId: node.id, copyId }, never);
  const { tunnelId, ...wish } = await agent.next("openTunnel");
  expect(wish).toMatchObject({ databaseId: "", epoch: 0n, copyId });
  theNode(asking, tunnelId, saying("files"));
  expect(await text(await opening)).toBe("files");
});

test("large bytes arrive whole and in order, to a reader that takes its time", async () => {
  await using agent = await anAgent(holding, node);
  const opening = tunnels.open(target(), never);
  const { tunnelId } = await agent.next("openTunnel");
  const sent = randomBytes(12 * 1024 * 1024);
  const pieces = async function* () {
    for (let at = 0; at < sent.length; at += 60_000) yield Uint8Array.from(sent.subarray(at, at + 60_000));
  };
  theNode(asking, tunnelId, pieces());
  const stream = await opening;
  expect((await buffer(stream)).equals(sent)).toBe(true);
});

test("a node that has no such server says so", async () => {
  await using agent = await anAgent(holding, node);
  const opening = tunnels.open(target(), never).catch((error: unknown) => error);
  const { tunnelId } = await agent.next("openTunnel");
  theNode(asking, tunnelId, saying(), node, "The database does not run\u0007 on this node.");
  expect(await opening).toMatchObject({ why: "refused", message: "The database does not run on this node." });
});

test("another node's answer is not heard, and a tunnel is taken once", async () => {
  await using agent = await anAgent(holding, node);
  const other = await aDaemon(world, holding, "node");
  const opening = tunnels.open(target(), never);
  const { tunnelId } = await agent.next("openTunnel");
  expect(await theNode(asking, tunnelId, saying("evil"), other).ended).toMatchObject({ code: Code.NotFound });
  theNode(asking, tunnelId, saying("good"));
  expect(await text(await opening)).toBe("good");
  expect(await theNode(asking, tunnelId, saying("late")).ended).toMatchObject({ code: Code.NotFound });
});

test("the signal ends a tunnel, for both ends", async () => {
  await using agent = await anAgent(holding, node);
  const stop = new AbortController();
  const opening = tunnels.open(target(), stop.signal);
  const { tunnelId } = await agent.next("openTunnel");
  const end = theNode(asking, tunnelId, holdingOn("hello"));
  const stream = await opening;
  stop.abort(new Error("enough"));
  await expect(text(stream)).rejects.toThrow("enough");
  expect(await end.ended).toMatchObject({ code: Code.Unavailable });
});

test("a call that begins with something else is refused", async () => {
  using connection = asNode(asking, node);
  async function* requests(): AsyncGenerator<Request> {
    yield { message: { case: "data", value: Uint8Array.of(1) } };
  }
  const call = (async () => {
    for await (const _ of connection.node.tunnel(requests()));
  })();
  await expect(call).rejects.toMatchObject({ code: Code.InvalidArgument });
});

test("no answer is told as silence, and a node's places are given back", async () => {
  const opened = Array.from({ length: 32 }, () => tunnels.open(target(), never).catch((error: unknown) => error));
  await expect(tunnels.open(target(), never)).rejects.toMatchObject({ why: "busy" });
  for (const each of await Promise.all(opened)) expect(each).toMatchObject({ why: "silent" });
  await using agent = await anAgent(holding, node);
  const opening = tunnels.open(target(), never);
  const { tunnelId } = await agent.next("openTunnel");
  theNode(asking, tunnelId, saying("x"));
  expect(await text(await opening)).toBe("x");
});

test("a link that stops ends tunnels first, and waits for none", async () => {
  const stopGraceMs = 600_000;
  const own = createTunnels({ clock: systemClock, random: systemRandom, db: world.database.db });
  const stopping = await world.startLink({ tunnels: own, timings: { stopGraceMs } });
  await using agent = await anAgent(holding, node);
  const opening = own.open(target(), never);
  const { tunnelId } = await agent.next("openTunnel");
  const end = theNode(stopping, tunnelId, holdingOn("hello"));
  const heard = text(await opening);
  const unopened = own.open(target(), never);
  const [stopped] = await Promise.allSettled([stopping[Symbol.asyncDispose](), heard, unopened]);
  expect(stopped).toMatchObject({ status: "fulfilled" });
  await expect(heard).rejects.toThrow("is stopping");
  await expect(unopened).rejects.toMatchObject({ why: "stopping" });
  expect(await end.ended).toMatchObject({ code: Code.Unavailable });
});

test.each([
  ["is fenced", { lifecycle: "fenced" } as const],
  ["has a later incarnation", { incarnation: 2 }],
  ["is quarantined", { quarantined_at: new Date(0) }],
])("a node that %s loses its tunnels, wherever its stream is, and no other does", async (_, change) => {
  const { db } = world.database;
  const other = await aDaemon(world, holding, "node");
  await using agent = await anAgent(holding, other);
  await using agentOfNode = await anAgent(holding, node);
  const opening = tunnels.open({ ...target(), nodeId: other.id }, never);
  const staying = tunnels.open(target(), never);
  const wish = await agent.next("openTunnel");
  const end = theNode(asking, wish.tunnelId, holdingOn("hello"), other);
  const more = Promise.withResolvers<void>();
  async function* saysMoreLater() {
    yield* saying("still ");
    await more.promise;
    yield* saying("here");
  }
  theNode(asking, (await agentOfNode.next("openTunnel")).tunnelId, saysMoreLater());
  const [lost, kept] = await Promise.all([opening, staying]);
  const heard = text(lost);
  await db.updateTable("node").set(change).where("id", "=", other.id).execute();
  await sql`select pg_notify(${nodeTopic}, '')`.execute(db);
  await expect(heard).rejects.toThrow("no longer listens");
  expect(await end.ended).toMatchObject({ code: Code.Unavailable });
  more.resolve();
  expect(await text(kept)).toBe("still here");
});

test("a node whose stream ends keeps its tunnels", async () => {
  const agent = await anAgent(holding, node);
  const opening = tunnels.open(target(), never);
  const { tunnelId } = await agent.next("openTunnel");
  const gone = Promise.withResolvers<void>();
  async function* saysAfterwards() {
    yield* saying("before ");
    await gone.promise;
    yield* saying("after");
  }
  theNode(asking, tunnelId, saysAfterwards());
  const stream = await opening;
  await agent[Symbol.asyncDispose]();
  await using again = await anAgent(holding, node);
  await sql`select pg_notify(${nodeTopic}, '')`.execute(world.database.db);
  gone.resolve();
  expect(await text(stream)).toBe("before after");
  expect(again.waiting("goAway")).toBe(0);
});
