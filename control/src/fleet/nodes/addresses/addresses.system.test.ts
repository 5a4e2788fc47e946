import { Code, ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { aCertificateRequest } from "../../ca/testing.ts";
import { keys, type NodeSessionValue } from "../../cluster/keys.ts";
import type { Link } from "../../daemons/start.ts";
import {
  aDaemon,
  aHello,
  anAgent,
  aWorld,
  connect,
  type DaemonFiles,
  openAgentStream,
  until,
  type World,
} from "../../daemons/testing.ts";
import { listNodeEvents } from "../events/store.ts";
import { findNodeRow } from "../store.ts";
import { createBootstrapToken } from "../tokens.ts";

let world: World;
let link: Link;
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink();
});
afterAll(async () => {
  await link?.[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
});

/** Joins from this machine, with the addresses that an operator named, if any. */
async function join(addresses?: readonly string[]): Promise<DaemonFiles> {
  const { clusterId, caSha256, caCertificate } = world.authority;
  const asked = { role: "node", clusterId, caSha256, ttlSeconds: 60, createdBy: null, now: new Date() } as const;
  const { token } = await createBootstrapToken(world.database.db, { ...asked, ...(addresses && { addresses }) });
  const { der, privateKeyPem } = await aCertificateRequest();
  using connection = connect(link.enrollPort, { ca: caCertificate });
  const joined = await connection.enrollment.join({ token, csr: Uint8Array.from(der), proposedName: "web" });
  const { id, name, certificateChain: certificate, ca } = joined;
  return { id, name, certificate, privateKey: privateKeyPem, ca, address: addresses?.[0] ?? "127.0.0.1" };
}

/** What an agent is told that says `address` is its own; null: it is welcome. */
async function refusalOf(files: DaemonFiles, address: string): Promise<string | null> {
  await using agent = openAgentStream(link, files);
  agent.send({ case: "hello", value: aHello(files, { address }) });
  const over = agent.ended.then((error) => ({ error }));
  const welcome = until("a welcome", () => agent.waiting("welcome") > 0).then(() => null);
  const first = await Promise.race([over, welcome]);
  if (first === null) return null;
  const error = ConnectError.from(first.error);
  expect(error.code).toBe(Code.PermissionDenied);
  return error.rawMessage;
}
const eventsOf = async ({ id }: DaemonFiles) =>
  (await listNodeEvents(world.database.db, id, 9)).map(({ kind }) => kind).reverse();
const rowOf = async ({ id }: DaemonFiles) => {
  const row = await findNodeRow(world.database.db, id);
  if (row === null) throw new Error("no such node");
  return row;
};
const free = (files: DaemonFiles) =>
  world.database.db.updateTable("node").set({ lifecycle: "fenced" }).where("id", "=", files.id).execute();

test("a node is bound to the address that it joined from, and its agent may say no other", async () => {
  const node = await join();
  expect((await rowOf(node)).addresses).toEqual(["127.0.0.1"]);
  expect(await refusalOf(node, "10.0.0.7")).toMatch(/^address 10\.0\.0\.7: .* joined from/);
  // Whoever was turned away has taken nothing, and whoever looks is told.
  expect(await world.etcd.get(keys.nodeSession(node.id))).toBeNull();
  expect(await rowOf(node)).toMatchObject({ address: null, refusal: expect.stringContaining("joined from") });
  expect(await refusalOf(node, "10.0.0.7")).not.toBeNull();
  expect(await eventsOf(node)).toEqual(["refused"]);
  expect(await refusalOf(node, "127.0.0.1")).toBeNull();
  expect(await rowOf(node)).toMatchObject({ address: "127.0.0.1", refusal: null });
  await free(node);
});

test("an operator names others with the token, and only those", async () => {
  const node = await join(["10.7.0.1", "10.7.1.1"]);
  expect(await refusalOf(node, "127.0.0.1")).toContain("an operator named");
  expect(await refusalOf(node, "10.7.1.1")).toBeNull();
  expect(await refusalOf(node, "10.7.0.1")).toBeNull();
  expect(await eventsOf(node)).toEqual(["refused", "changed"]);
});

test("an address that another node has is refused until that one is fenced", async () => {
  const shared = ["10.7.2.1", "10.7.2.2"];
  const [holder, other] = [await join(shared), await join(shared)];
  expect(await refusalOf(holder, "10.7.2.1")).toBeNull();
  expect(await refusalOf(other, "10.7.2.1")).toContain(`${holder.name} has the address`);
  expect(await refusalOf(other, "10.7.2.2")).toBeNull();
  // That one may be silent: what ran there may run on.
  expect(await refusalOf(holder, "10.7.2.2")).toContain(`${other.name} has the address`);
  await free(other);
  expect(await refusalOf(holder, "10.7.2.2")).toBeNull();
});

test("of nodes that say the same address at once one has it", async () => {
  const nodes = await Promise.all(Array.from({ length: 8 }, () => join(["10.7.3.1"])));
  const answers = await Promise.all(nodes.map((node) => refusalOf(node, "10.7.3.1")));
  expect(answers.filter((answer) => answer === null)).toHaveLength(1);
  const rows = await Promise.all(nodes.map(rowOf));
  expect(rows.filter(({ address }) => address === "10.7.3.1")).toHaveLength(1);
});

test("a stolen identity that says another address does not push out the agent whose it is", async () => {
  const node = await aDaemon(world, link, "node");
  await using agent = await anAgent(link, node);
  expect(await refusalOf(node, "10.7.4.1")).not.toBeNull();
  agent.send({ case: "renew", value: { n: 1n } });
  await agent.next("renewAck");
  expect(agent.waiting("superseded")).toBe(0);
  expect(await world.read<NodeSessionValue>(keys.nodeSession(node.id))).toMatchObject({ address: node.address });
});

test("nodes from before this was kept stay where they are, and are bound to it", async () => {
  const { db } = world.database;
  const [first, second] = [await join(), await join()];
  for (const [{ id }, address] of [
    [first, "10.7.5.1"],
    [second, null],
  ] as const)
    await db.updateTable("node").set({ address, addresses: null }).where("id", "=", id).execute();
  expect(await refusalOf(first, "10.7.5.1")).toBeNull();
  expect(await refusalOf(first, "10.7.5.2")).not.toBeNull();
  // It joined and said nothing yet: where it calls from is what is known of it.
  expect(await refusalOf(second, "10.7.5.3")).not.toBeNull();
  expect(await refusalOf(second, "127.0.5.3")).toBeNull();
  expect((await rowOf(second)).addresses).toEqual(["127.0.0.1"]);
});
