import { Code, ConnectError } from "@connectrpc/connect";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createSecrets } from "../../stores/secrets.ts";
import { openAuthority } from "../ca/authority.ts";
import { startRotation } from "../ca/rotation/rotate.ts";
import { dropPrevious } from "../ca/store.ts";
import { aCertificateRequest } from "../ca/testing.ts";
import type { Link } from "./start.ts";
import { aDaemon, anAgent, asNode, aWorld, until, type World } from "./testing.ts";

/** As `aWorld` seals. */
const secrets = createSecrets([Buffer.alloc(32, 1)]);

let world: World;
let link: Link;
beforeAll(async () => {
  world = await aWorld();
  const authority = await openAuthority(world.database.db, secrets, { clock: systemClock, random: systemRandom });
  link = await world.startLink({ authority });
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

const trustOfRow = async (id: string) =>
  (await world.database.db.selectFrom("node").select("certificate_trust").where("id", "=", id).executeTakeFirst())
    ?.certificate_trust;

test("what was connected with a certificate of the authority before is ended and refused once that is dropped", async () => {
  const { db } = world.database;
  const files = await aDaemon(world, link, "node");
  using connection = asNode(link, files);
  await using agent = await anAgent(link, files);
  const call = () => connection.node.listGoneProjects({ projectIds: [] });
  const renew = async () => {
    const { der, privateKeyPem } = await aCertificateRequest();
    const { certificateChain, ca } = await connection.node.renewCertificate({ csr: Uint8Array.from(der) });
    return { ...files, certificate: certificateChain, privateKey: privateKeyPem, ca };
  };
  // A daemon that opens no session tells what it trusts all the same.
  await db.updateTable("node").set({ certificate_trust: null }).where("id", "=", files.id).execute();
  await renew();
  const trusted = await trustOfRow(files.id);
  expect(trusted).toMatch(/^[0-9a-f]{32}$/);

  await db.transaction().execute((tx) => startRotation(tx, { secrets, now: new Date() }));
  await agent.next("renewNow");
  const renewed = await renew();
  expect(await trustOfRow(files.id)).toBe(trusted);
  await call();

  await db.transaction().execute((tx) => dropPrevious(tx, new Date()));
  expect(await agent.next("goAway")).toMatchObject({ reconnectAfterMs: 0 });
  await agent.ended;
  await until("the open connection to be refused", async () => {
    const failure = await call().catch((error: unknown) => error);
    return ConnectError.from(failure).code === Code.Unauthenticated;
  });
  await using _ = await anAgent(link, renewed, { hello: { instanceId: "instance-2" } });
});
