import { createPrivateKey, X509Certificate } from "node:crypto";
import { connect as tlsConnect } from "node:tls";
import { Code, ConnectError } from "@connectrpc/connect";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSecrets } from "../../stores/secrets.ts";
import { openAuthority } from "../ca/authority.ts";
import { readRequest } from "../ca/certificates.ts";
import { startRotation } from "../ca/rotation/rotate.ts";
import { aCertificateRequest } from "../ca/testing.ts";
import { listNodeEvents } from "../nodes/events/store.ts";
import type { Link } from "./start.ts";
import { aDaemon, anAgent, asNode, aWorld, type DaemonFiles, openAgentStream, until, type World } from "./testing.ts";

const dayMs = 86_400_000;
/** As `aWorld` seals. */
const secrets = createSecrets([Buffer.alloc(32, 1)]);

let world: World;
let link: Link;
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink();
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

/** The same daemon with a certificate that is over after `leftMs`. */
async function shortLived(files: DaemonFiles, leftMs: number): Promise<DaemonFiles> {
  const { der, privateKeyPem } = await aCertificateRequest();
  const issuedAt = new Date(Date.now() - 30 * dayMs + leftMs);
  const identity = { role: "node", id: files.id, incarnation: 1 } as const;
  const { certificate } = await world.authority.issueDaemon(identity, await readRequest(der), issuedAt);
  return { ...files, certificate, privateKey: privateKeyPem };
}

describe("a certificate that is over", () => {
  test("ends the stream that was opened with it; the renewed one opens another", async () => {
    const files = await aDaemon(world, link, "node");
    // Certificates know whole seconds: five at least, in which all that comes before the end has to be done.
    const short = await shortLived(files, 6_000);
    await using agent = await anAgent(link, short);
    using connection = asNode(link, short);
    const { der, privateKeyPem } = await aCertificateRequest();
    const renewed = await connection.node.renewCertificate({ csr: Uint8Array.from(der) });
    const [event] = await listNodeEvents(world.database.db, files.id, 1);
    const { validTo } = new X509Certificate(renewed.certificateChain);
    expect(event).toMatchObject({
      kind: "certificate-renewed",
      detail: `valid until ${new Date(validTo).toISOString().slice(0, 19)}Z`,
    });
    // A daemon of an older version renews and leaves its session as it is.
    expect(await agent.next("goAway")).toMatchObject({ reconnectAfterMs: 0 });
    await agent.ended;
    const call = connection.node.listGoneProjects({ projectIds: [] }).catch((error: unknown) => error);
    expect(ConnectError.from(await call).code).toBe(Code.Unauthenticated);
    const fresh = { ...files, certificate: renewed.certificateChain, privateKey: privateKeyPem };
    await using _ = await anAgent(link, fresh);
  });

  test("opens nothing", async () => {
    const files = await shortLived(await aDaemon(world, link, "node"), -1_000);
    await using stream = openAgentStream(link, files);
    stream.send({ case: "hello", value: {} });
    expect(await stream.ended).not.toBeNull();
  });
});

test("a node is known to edges at the address that it said, and at none of loopback", async () => {
  const files = await aDaemon(world, link, "node");
  using connection = asNode(link, files);
  const renew = async () => {
    const { der, privateKeyPem } = await aCertificateRequest();
    const renewed = await connection.node.renewCertificate({ csr: Uint8Array.from(der) });
    return { chain: renewed.entranceChain, privateKeyPem };
  };
  const { db } = world.database;
  await db.updateTable("node").set({ address: "127.0.0.1" }).where("id", "=", files.id).execute();
  expect((await renew()).chain).toBe("");
  await db.updateTable("node").set({ address: "10.9.0.7" }).where("id", "=", files.id).execute();
  const { chain, privateKeyPem } = await renew();
  const certificate = new X509Certificate(chain);
  expect(certificate.checkIP("10.9.0.7")).toBe("10.9.0.7");
  expect(certificate.checkPrivateKey(createPrivateKey(privateKeyPem))).toBe(true);
  expect(certificate.checkIssued(new X509Certificate(world.authority.caCertificate))).toBe(true);
});

test("which former nodes are fenced or removed is told, and nothing of nodes that control does not know", async () => {
  const [asking, kept, fenced] = await Promise.all([1, 2, 3].map(() => aDaemon(world, link, "node")));
  if (asking === undefined || kept === undefined || fenced === undefined) throw new Error("three daemons");
  const { db } = world.database;
  await db.updateTable("node").set({ lifecycle: "fenced", incarnation: 2 }).where("id", "=", fenced.id).execute();
  using connection = asNode(link, asking);
  const nodeIds = [kept.id, fenced.id, "5a1d0c37-0000-4000-8000-00000000000f", "no id"];
  expect((await connection.node.listGoneNodes({ nodeIds })).gone).toEqual([fenced.id]);
  const many = connection.node.listGoneNodes({ nodeIds: Array.from({ length: 101 }, () => kept.id) });
  await expect(many).rejects.toMatchObject({ code: Code.InvalidArgument });
});

test("the ports get a new certificate long before theirs is over, without a restart", async () => {
  let ahead = 0;
  const clock = { ...systemClock, now: () => new Date(Date.now() + ahead) };
  await using replica = await world.startLink({ clock, authorityEveryMs: 20 });
  const first = await presented(replica.enrollPort);
  ahead = 21 * dayMs;
  await until(
    "another certificate is presented",
    async () => (await presented(replica.enrollPort)).serial !== first.serial,
  );
  expect((await presented(replica.linkPort)).until).toBeGreaterThan(first.until);
});

test("a replica hears at once that the authority was replaced, and answers daemons of both", async () => {
  const authority = await openAuthority(world.database.db, secrets, { clock: systemClock, random: systemRandom });
  await using replica = await world.startLink({ authority, authorityEveryMs: 600_000 });
  const files = await aDaemon(world, replica, "node");
  await using agent = await anAgent(replica, files);
  const before = await presented(replica.linkPort);
  await world.database.db.transaction().execute((tx) => startRotation(tx, { secrets, now: new Date() }));
  await until("another certificate", async () => (await presented(replica.linkPort)).serial !== before.serial);
  await agent.next("renewNow");
  // It knows the older authority alone, and is understood all the same.
  await using _ = await anAgent(replica, files, { hello: { instanceId: "instance-2" } });
});

async function presented(port: number): Promise<{ serial: string; until: number }> {
  const socket = tlsConnect({ host: "127.0.0.1", port, servername: "control.svc.internal", rejectUnauthorized: false });
  socket.on("error", () => {});
  await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  const { raw } = socket.getPeerCertificate();
  socket.destroy();
  const certificate = new X509Certificate(raw);
  return { serial: certificate.serialNumber, until: certificate.validToDate.getTime() };
}
