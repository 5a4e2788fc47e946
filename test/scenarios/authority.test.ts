import { mkdtemp, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as tlsConnect } from "node:tls";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { rejoin } from "@svc/agent/rejoin";
import { openAuthority } from "@svc/control/fleet/ca/authority";
import { readRequest } from "@svc/control/fleet/ca/certificates";
import { readRotation, startRotation } from "@svc/control/fleet/ca/rotation/rotate";
import { aCertificateRequest } from "@svc/control/fleet/ca/testing";
import { keys } from "@svc/control/fleet/cluster/keys";
import type { Link } from "@svc/control/fleet/daemons/start";
import { aWorld, type World } from "@svc/control/fleet/daemons/testing";
import { createBootstrapToken } from "@svc/control/fleet/nodes/tokens";
import { createSecrets } from "@svc/control/stores/secrets";
import { NodeService, type SessionRequestSchema, type SessionResponse } from "@svc/proto/node";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { createWake } from "@svc/runtime/wake";
import {
  createEndpoints,
  createTransport,
  type Identity,
  joinCluster,
  loadIdentity,
  renewLoop,
  runSession,
} from "@svc/uplink";
import { afterEach, beforeEach, expect, test } from "vitest";
import { waitFor } from "../support/wait-for.ts";

const quiet = { info: () => {}, warn: () => {} };
const dayMs = 86_400_000;
const inTimeMs = 20_000;
/** As `aWorld` seals. */
const secrets = createSecrets([Buffer.alloc(32, 1)]);

let world: World;
let dir: string;
let cleanup: AsyncDisposableStack;
beforeEach(async () => {
  cleanup = new AsyncDisposableStack();
  world = cleanup.use(await aWorld());
  dir = await mkdtemp(join(tmpdir(), "svc-authority-"));
  cleanup.defer(() => rm(dir, { recursive: true, force: true }));
});
afterEach(() => cleanup.disposeAsync());

const stateOf = async () => {
  const state = await readRotation(world.database.db, new Date());
  if (state === null) throw new Error("there is no authority");
  return state;
};
const rotate = () => world.database.db.transaction().execute((tx) => startRotation(tx, { secrets, now: new Date() }));
const heldUpBy = async () => (await stateOf()).rotation?.heldUpBy.map(({ name }) => name) ?? [];
const certificatesIn = (pem: string) => pem.split("BEGIN CERTIFICATE").length - 1;

/** A replica with what another process would have of its own. */
async function aReplica(): Promise<Link> {
  const authority = await openAuthority(world.database.db, secrets, { clock: systemClock, random: systemRandom });
  return cleanup.use(await world.startLink({ authority, authorityEveryMs: 100 }));
}
const linkUrls = (links: readonly Link[]) => links.map(({ linkPort }) => `https://127.0.0.1:${linkPort}`);
const enrollUrls = (links: readonly Link[]) => links.map(({ enrollPort }) => `https://127.0.0.1:${enrollPort}`);

async function aToken(): Promise<string> {
  const { id, caSha256 } = { id: world.authority.clusterId, caSha256: (await stateOf()).caSha256 };
  const asked = { role: "node", ttlSeconds: 600, createdBy: null, clusterId: id, caSha256, now: new Date() } as const;
  return (await createBootstrapToken(world.database.db, asked)).token;
}

const joinAs = (name: string, links: readonly Link[], token: string): Promise<Identity> =>
  joinCluster({
    ...{ clock: systemClock, random: systemRandom },
    ...{ dir: join(dir, name), enrollUrls: enrollUrls(links), token, proposedName: name, log: quiet },
    signal: AbortSignal.timeout(inTimeMs),
  });

interface Daemon extends AsyncDisposable {
  /** Sessions that it began. */
  sessions(): number;
  welcomes(): number;
}

let daemons = 0;

/** What an agent has of the link: its identity, renewals, a session, and no containers. */
function runDaemon(identity: Identity, links: readonly Link[]): Daemon {
  const stop = new AbortController();
  const endpoints = createEndpoints(linkUrls(links), systemRandom);
  const renewal = createWake(systemClock);
  let transport = createTransport(systemClock, identity, endpoints);
  let sessions = 0;
  let welcomes = 0;
  daemons += 1;
  const address = `127.0.1.${daemons}`;
  const common = { clock: systemClock, random: systemRandom, signal: stop.signal, log: quiet };
  const renewing = renewLoop({
    ...common,
    ...{ dir: join(dir, identity.name), identity, wanted: renewal },
    renew: (csr, signal) => createClient(NodeService, transport.transport).renewCertificate({ csr }, { signal }),
    onRenewed(renewed) {
      const former = transport;
      transport = createTransport(systemClock, renewed, endpoints);
      former.close();
    },
  });
  const session = runSession<MessageInitShape<typeof SessionRequestSchema>, SessionResponse>({
    ...common,
    endpoints,
    connect: (requests, signal) => createClient(NodeService, transport.transport).session(requests, { signal }),
    onOpen(send) {
      sessions += 1;
      send({
        message: {
          case: "hello",
          value: {
            ...{ instanceId: `instance of ${identity.name}`, bootId: "boot", version: "0.1.0", address },
            capacity: { memoryMb: 2048n, cpuMillicores: 2000n, pids: 4096n, diskMb: 10_000n },
            platform: { os: "linux", architecture: "amd64" },
          },
        },
      });
    },
    onMessage({ message }, send) {
      if (message.case === "welcome") {
        welcomes += 1;
        send({ message: { case: "inventory", value: { items: [], runs: [], final: true } } });
      }
      if (message.case === "assign") {
        send({ message: { case: "applied", value: { resultsIn: message.value.resultsIn } } });
      }
      if (message.case === "renewNow") renewal.signal();
    },
    onClose: () => {},
    renew: (n) => ({ message: { case: "renew", value: { n } } }),
  });
  return cleanup.use({
    sessions: () => sessions,
    welcomes: () => welcomes,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await Promise.all([renewing, session]);
      transport.close();
    },
  });
}

/** Whether control lets the holder of an identity in, as far as TLS decides. */
const isLetIn = (link: Link, { certificatePem, privateKeyPem, caPem }: Identity): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = tlsConnect({
      ...{ host: "127.0.0.1", port: link.linkPort, servername: "control.svc.internal", ALPNProtocols: ["h2"] },
      ...{ ca: caPem, cert: certificatePem, key: privateKeyPem },
    });
    // With TLS 1.3 the server judges after the client counts the connection as made: only then it sends its settings.
    socket.once("data", () => socket.destroy()).once("data", () => resolve(true));
    socket.once("error", () => resolve(false)).once("close", () => resolve(false));
  });

test("the authority is replaced under a running fleet, and waits for the machine that is off", async () => {
  const [first, second] = [await aReplica(), await aReplica()];
  const links = [first, second];
  const older = await aToken();
  const before: Identity[] = [];
  for (const name of ["one", "two", "off"]) before.push(await joinAs(name, links, await aToken()));
  const [one, two, off] = before;
  if (one === undefined || two === undefined || off === undefined) throw new Error("three daemons");
  const running = [runDaemon(one, links), runDaemon(two, links)];
  const sessionOf = ({ id }: Identity) => world.read<{ detached?: boolean }>(keys.nodeSession(id));
  for (const each of [one, two]) await waitFor("a session", inTimeMs, () => sessionOf(each));
  // The session is known before its daemon hears that it is welcome.
  const welcomed = (times: number) => () => running.every(({ welcomes }) => welcomes() >= times);
  await waitFor("both to be welcome", inTimeMs, welcomed(1));
  // Whoever looks at the fleet meanwhile sees no machine go.
  let gaps = 0;
  const look = async () => {
    for (const each of [one, two]) if ((await sessionOf(each)) === null) gaps += 1;
  };
  // A store that does not answer for a moment says nothing of the machines.
  const watching = setInterval(() => void look().catch(() => {}), 20);
  cleanup.defer(() => clearInterval(watching));

  await rotate();
  const oldCa = one.caPem;
  await waitFor("two to move", inTimeMs, async () => (await heldUpBy()).join() === "off");
  await waitFor("both to be welcome again", inTimeMs, welcomed(2));
  for (const { welcomes } of running) expect(welcomes()).toBe(2);
  for (const { name } of [one, two]) expect(certificatesIn((await loadIdentity(join(dir, name)))?.caPem ?? "")).toBe(2);
  // Machines join meanwhile, with tokens of either authority.
  const joined = await joinAs("older", links, older);
  const newer = await joinAs("newer", links, await aToken());
  runDaemon(joined, links);
  runDaemon(newer, links);
  await waitFor("both to have moved", inTimeMs, async () => (await heldUpBy()).join() === "off");

  // The machine comes back with the certificate that it had: it is let in, and moves like the others.
  runDaemon(off, links);
  await waitFor("the end of the rotation", inTimeMs, async () => (await stateOf()).rotation === null);
  clearInterval(watching);
  expect(gaps).toBe(0);
  for (const name of ["one", "two", "off", "older", "newer"]) {
    await waitFor(`${name} to trust the new authority alone`, inTimeMs, async () => {
      const { caPem } = (await loadIdentity(join(dir, name))) ?? { caPem: oldCa };
      return certificatesIn(caPem) === 1 && caPem !== oldCa;
    });
  }
  for (const link of links) {
    await waitFor(
      "a certificate of the old authority to be refused",
      inTimeMs,
      async () => !(await isLetIn(link, one)),
    );
  }
  const now = await loadIdentity(join(dir, "one"));
  expect(now !== null && (await isLetIn(first, now))).toBe(true);
  // The token that names the old authority does not even reach control.
  await expect(joinAs("late", links, older)).rejects.toThrow(/its CA was replaced and a new token is needed/);
});

test("a replica that dies right after the start of a replacement leaves the rest to the next one", async () => {
  const doomed = await aReplica();
  const identity = await joinAs("one", [doomed], await aToken());
  await rotate();
  await doomed[Symbol.asyncDispose]();
  expect(await heldUpBy()).toEqual(["one"]);
  const next = await aReplica();
  const daemon = runDaemon(identity, [next]);
  await waitFor("the end of the rotation", inTimeMs, async () => (await stateOf()).rotation === null);
  expect(daemon.sessions()).toBeGreaterThanOrEqual(2);
  // In the first it may have moved before it was welcomed.
  await waitFor("the daemon to be welcome", inTimeMs, () => daemon.welcomes() >= 1);
});

test("a machine whose certificate is over comes back under another id, once the former node is fenced", async () => {
  const links = [await aReplica()];
  const home = join(dir, "sleeper");
  const tokenFile = join(dir, "token");
  await writeFile(tokenFile, await aToken());
  const former = await joinAs("sleeper", links, await readFile(tokenFile, "utf8"));
  await utimes(tokenFile, new Date(Date.now() - 50 * dayMs), new Date(Date.now() - 50 * dayMs));
  await expire(home, former);

  const stop = new AbortController();
  cleanup.defer(() => stop.abort());
  const warned: string[] = [];
  const log = { ...quiet, warn: (_: object, message: string) => void warned.push(message) };
  let taken: Identity | null = null;
  let asked = 0;
  const coming = rejoin({
    clock: systemClock,
    random: systemRandom,
    config: { dir: home, enrollUrls: enrollUrls(links), bootstrapTokenFile: tokenFile, name: "sleeper" },
    former,
    async askGone(next, nodeIds) {
      asked += 1;
      const link = createTransport(systemClock, next, createEndpoints(linkUrls(links), systemRandom));
      try {
        return (await createClient(NodeService, link.transport).listGoneNodes({ nodeIds })).gone;
      } finally {
        link.close();
      }
    },
    signal: stop.signal,
    log: log as unknown as Parameters<typeof rejoin>[0]["log"],
    waits: { lookEveryMs: 20, tokenEveryMs: 20, askEveryMs: 20 },
  }).then((next) => {
    taken = next;
    return next;
  });
  await waitFor("the line that says what to do", inTimeMs, () => warned.some((line) => line.includes(tokenFile)));
  // The token that it joined with is still there, and is not tried again.
  expect(warned).toHaveLength(1);

  await writeFile(tokenFile, await aToken());
  await waitFor("the new identity", inTimeMs, () => warned.some((line) => line.includes("joined anew")));
  await waitFor("control to be asked twice", inTimeMs, () => asked >= 2);
  expect(taken).toBeNull();
  expect((await loadIdentity(home))?.id).toBe(former.id);

  await world.database.db
    .updateTable("node")
    .set({ lifecycle: "fenced", incarnation: 2 })
    .where("id", "=", former.id)
    .execute();
  const next = await coming;
  expect(next?.id).not.toBe(former.id);
  expect(next).toMatchObject({ name: "sleeper-2", role: "node" });
});

/** Puts a certificate that ended yesterday in the place of the one in `home`. */
async function expire(home: string, identity: Identity): Promise<void> {
  const { der, privateKeyPem } = await aCertificateRequest();
  const issuedAt = new Date(Date.now() - 31 * dayMs);
  const who = { role: "node", id: identity.id, incarnation: 1 } as const;
  const { certificate } = await world.authority.issueDaemon(who, await readRequest(der), issuedAt);
  const kept = { ...identity, certificatePem: certificate, privateKeyPem, incarnation: "1" };
  await writeFile(join(home, "identity.json"), JSON.stringify(kept));
}
