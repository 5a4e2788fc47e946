import { readFile } from "node:fs/promises";
import { connect } from "node:tls";
import { writeDurably } from "@svc/runtime/durable-file";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { DatabaseProxy } from "../start.ts";
import { goneFile } from "../table/load.ts";
import { aBranch, anEntry } from "../testing/branch.ts";
import { anAuthority, type TestAuthority } from "../testing/certificates.ts";
import { cancelAt, endOf, pgClient, pgOutcome } from "../testing/pg-client.ts";
import { startPostgres, type TestPostgres } from "../testing/postgres.ts";
import { aPlace, bridge, type Place, startProxy } from "../testing/proxy.ts";
import { waitFor } from "../testing/wait-for.ts";

const [here, there] = ["7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b", "8e2f3a4b-5c6d-4e7f-9a0b-1c2d3e4f5a6b"];
const branch = aBranch();
const app = bridge(1);
const peerPort = 27_433;
const peerHost = bridge(5);
let server: TestPostgres;
let authority: TestAuthority;
/** Of the app's machine. */
let near: Place;
/** Of the server's. */
let far: Place;
const running: DatabaseProxy[] = [];

const nearEntry = (epoch: string, nodeId = there) =>
  anEntry(branch, { engine: "postgres", bridges: [app], at: { nodeId, host: peerHost, port: peerPort }, epoch });
const farEntry = (epoch: string, rest: { connectionLimit?: number; state?: "open" | "held" | "closed" } = {}) =>
  anEntry(branch, { engine: "postgres", bridges: [], at: { socket: server.socketPath }, epoch, ...rest });

beforeAll(async () => {
  server = await startPostgres();
  await server.add(branch);
  authority = await anAuthority();
  near = await aPlace();
  far = await aPlace({ SVC_DBPROXY_PEER_LISTEN: `${peerHost}:${peerPort}` });
  await authority.certify(near.dir, { id: here });
  await authority.certify(far.dir, { id: there });
  running.push(await startProxy(near), await startProxy(far));
  await Promise.all([near.put([nearEntry("1")]), far.put([farEntry("1")])]);
});
afterAll(async () => {
  for (const each of [...running, near, far, server]) await each?.[Symbol.asyncDispose]();
});

const openThere = async () => (await far.state()).connections[0]?.open;

test("an app reaches a server of another machine, which counts it", async () => {
  const client = await pgClient(app, branch);
  expect((await client.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  await waitFor(async () => (await openThere()) === 1);
  await client.end();
  await waitFor(async () => (await openThere()) === 0);
});

test("a wrong password is refused by the server, and counted where the app is", async () => {
  expect(await pgOutcome(app, branch, { password: "Wrong" })).toBe("28P01");
  await waitFor(async () => (await near.state()).connections[0]?.failedLogins === 1);
});

test("much passes both ways", async () => {
  const client = await pgClient(app, branch);
  const { rows } = await client.query("select length($1::text) as sent, repeat('y', 20000000) as back", [
    "x".repeat(20_000_000),
  ]);
  expect([rows[0].sent, rows[0].back.length]).toEqual([20_000_000, 20_000_000]);
  await client.end();
});

test("the limit is that of the server's machine", async () => {
  await far.put([farEntry("1", { connectionLimit: 1 })]);
  const client = await pgClient(app, branch);
  expect(await pgOutcome(app, branch)).toBe("53300");
  await client.end();
  await far.put([farEntry("1")]);
});

test("a query on another machine is cancelled", async () => {
  const client = await pgClient(app, branch);
  const sleeping = client.query("select pg_sleep(600)");
  sleeping.catch(() => {});
  await waitFor(
    async () =>
      (await server.admin("select 1 from pg_stat_activity where query like 'select pg_sleep%'")).rowCount === 1,
  );
  await cancelAt(app, client);
  await expect(sleeping).rejects.toMatchObject({ code: "57014" });
  await client.end();
});

test("a past epoch is refused, and a coming one is waited for", async () => {
  await far.put([farEntry("2")]);
  expect(await pgOutcome(app, branch)).toBe("57P03");
  await near.put([nearEntry("3")]);
  const outcome = pgOutcome(app, branch);
  await far.put([farEntry("3")]);
  expect(await outcome).toBe("in");
});

test("a session of another machine ends when its branch is closed here", async () => {
  const client = await pgClient(app, branch);
  const ended = endOf(client);
  await far.put([farEntry("3", { state: "closed" })]);
  await ended;
  expect(await pgOutcome(app, branch)).toBe("57P03");
  await far.put([farEntry("3")]);
});

test("a machine that is gone comes in no more, its sessions end, and a later process knows it from its start on", async () => {
  const client = await pgClient(app, branch);
  const ended = endOf(client);
  await far.refuse([here]);
  await ended;
  expect(await pgOutcome(app, branch)).toBe("57P03");
  await running.pop()?.[Symbol.asyncDispose]();
  running.push(await startProxy(far));
  expect(await pgOutcome(app, branch)).toBe("57P03");
  // What cannot be read changes nothing.
  await writeDurably(goneFile(far.dir), "{");
  expect(await pgOutcome(app, branch)).toBe("57P03");
  await far.refuse([there]);
  await waitFor(async () => (await pgOutcome(app, branch)) === "in");
  await far.refuse([]);
});

test("a proxy of another node than the table says is told nothing", async () => {
  await near.put([nearEntry("3", here)]);
  expect(await pgOutcome(app, branch)).toBe("57P03");
  await near.put([nearEntry("3")]);
  expect(await pgOutcome(app, branch)).toBe("in");
});

test.each([
  {
    who: "without the cluster's authority",
    certify: async (dir: string) => (await anAuthority()).certify(dir, { id: here }),
  },
  { who: "of another cluster", certify: (dir: string) => authority.certify(dir, { id: here, clusterId: there }) },
])("a proxy $who gets nowhere", async ({ certify }) => {
  await certify(near.dir);
  await waitFor(async () => (await pgOutcome(app, branch)) === "57P03");
  await authority.certify(near.dir, { id: here });
  // A certificate that is replaced is in use without a restart.
  await waitFor(async () => (await pgOutcome(app, branch)) === "in");
});

test("who has no certificate, or an edge's, is told nothing", async () => {
  const answerTo = async (options: { cert?: string; key?: string }) => {
    const socket = connect({
      ...{ host: peerHost, port: peerPort, rejectUnauthorized: false, ALPNProtocols: ["svc-database-proxy/1"] },
      ...options,
    });
    let answer = "";
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      answer += chunk.toString();
    });
    const body = JSON.stringify({ databaseId: branch.id, epoch: "3", purpose: "session" });
    socket.write(Buffer.concat([Buffer.from([0, body.length]), Buffer.from(body)]));
    await new Promise((resolve) => socket.once("close", resolve));
    return answer;
  };
  expect(await answerTo({})).toBe("");
  await using edge = await aPlace();
  await authority.certify(edge.dir, { id: here, role: "edge" });
  const [cert, key] = await Promise.all(
    ["certificate.pem", "key.pem"].map((name) => readFile(`${edge.dir}/${name}`, "utf8")),
  );
  expect(await answerTo({ cert: cert ?? "", key: key ?? "" })).toBe("");
});
