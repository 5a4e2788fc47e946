import { createHash } from "node:crypto";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { z } from "zod";
import type { Log } from "../../log.ts";
import type { AcmeConfig } from "../../settings/settings.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Resolver } from "../../stores/dns/resolver.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { recheckAfterMs } from "../../stores/work/recheck.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import type { AcmeOrder } from "./acme/client.ts";
import { createRequest } from "./acme/csr.ts";
import { dnsValue, keyAuthorization, newKeyPem } from "./acme/jws.ts";
import { BadChain, readLeaf } from "./acme/leaf.ts";
import { AcmeError, readProblem } from "./acme/problem.ts";
import { tellOwner } from "./alerts.ts";
import { findObstacle } from "./checks.ts";
import type { FindIssuer, Issuer } from "./issuers.ts";
import { chooseCa, momentWithin, orderMoment } from "./rules.ts";
import {
  advised,
  type Certificate,
  type Circumstances,
  dropped,
  type Failure,
  failed,
  issued,
  moved,
  nextStep,
  type Order,
  orderPauseMs,
  type Step,
} from "./steps.ts";
import {
  addChallenge,
  endChallenges,
  findChallenge,
  getOrderKey,
  keyAad,
  listBelow,
  noteIssued,
  orderKeyAad,
  type SaveMore,
  type StoredChallenge,
  saveCertificate,
  spendOrder,
} from "./store.ts";
import { loadWanted, type WantedName } from "./wanted.ts";

export const certificateKind = "certificate";
/** Orders below one registered domain follow one another: they share its owner's limits at the CA. */
export const certificateWork = (registeredDomain: string) => ({
  kind: certificateKind,
  key: `certificate/${registeredDomain}`,
  payload: { registeredDomain },
});
const payload = z.object({ registeredDomain: z.string() });

/** Writes the record of a dns-01 challenge into the zone that has the content domain. Both may be repeated. */
export interface DnsWriter {
  /** @param name `_acme-challenge.` and the domain */
  put(name: string, value: string, signal: AbortSignal): Promise<void>;
  remove(name: string, value: string, signal: AbortSignal): Promise<void>;
}

export interface CertificateWorkDeps {
  clock: Clock;
  random: Random;
  db: Db;
  secrets: Secrets;
  resolver: Resolver;
  acme: AcmeConfig;
  findIssuer: FindIssuer;
  /** The name that custom domains point at. */
  edgeHost: string;
  /** `*.` and the content domain, and who writes its records; null: it has no certificate. */
  wildcard: { name: string; dns: DnsWriter } | null;
  /** Whether every edge that visitors may reach gives the answer with this token. */
  areEdgesAnswering(token: string): Promise<boolean>;
  log: Log;
}

/** Of one turn; what is left is done in the next one. */
const stepsMax = 50;
/** A CA may say when to look again, within these bounds. */
const lookAgain = { leastMs: 250, mostMs: 60_000 };

/** Characters of what a server or a program said. */
const reasonMax = 400;

export const challengeName = (name: string): string => `_acme-challenge.${name.replace(/^\*\./, "")}`;

/** Brings the certificates below one registered domain to where they should be, one name after another. */
export function certificateWorker(deps: CertificateWorkDeps): WorkHandler {
  const { clock, random, db, secrets, resolver, acme, findIssuer, log } = deps;

  async function save(before: Certificate, change: Partial<Certificate>, more: SaveMore = {}): Promise<Certificate> {
    const after = { ...before, ...change };
    await db.transaction().execute(async (tx) => {
      await saveCertificate(tx, after, more);
      if (before.order !== null && after.order === null) await endChallenges(tx, before.name, clock.now());
      if (before.state !== after.state || more.failure !== undefined) await tellOwner(tx, after, more.failure);
    });
    if (before.state !== after.state)
      log.info({ name: after.name, from: before.state, to: after.state, why: more.failure?.code }, "certificate");
    return after;
  }

  const fail = (certificate: Certificate, why: Failure): Promise<Certificate> =>
    save(certificate, failed(certificate, why, clock.now(), random.next()), { failure: why });

  async function circumstancesOf(certificate: Certificate, isWanted: boolean): Promise<Circumstances> {
    const challenge = certificate.state === "challenge_published" ? await findChallenge(db, certificate.name) : null;
    return { isWanted, isAnswered: challenge !== null && (await isAnswered(challenge)), now: clock.now() };
  }

  async function isAnswered({ kind, name, token, answer }: StoredChallenge): Promise<boolean> {
    if (kind === "http-01") return deps.areEdgesAnswering(token);
    const found = await resolver.txt(challengeName(name));
    return found.kind === "found" && found.values.includes(answer);
  }

  async function order(certificate: Certificate, wanted: WantedName, signal: AbortSignal): Promise<Certificate> {
    const { name, held } = certificate;
    const directory = chooseCa(acme.directories, certificate.caFailures);
    const issuer = await findIssuer(directory);
    const { meta } = await issuer.client.directory(signal);
    const about = { identities: meta?.caaIdentities ?? [], edgeHost: deps.edgeHost };
    const obstacle = await findObstacle(resolver, wanted, about);
    if (obstacle !== null) return fail(certificate, obstacle);
    const kid = await issuer.account(signal);
    const isRenewal = held !== null && held.issuer === directory;
    const now = clock.now();
    const { registeredDomain, ownerId } = wanted;
    const spending = { directory, name, registeredDomain, ownerId, isRenewal, now };
    const putOff = await spendOrder(db, spending, (spent) => orderMoment(spent, isRenewal, now));
    if (putOff !== null) {
      log.info({ name, until: putOff.until }, "a certificate waits for the CA's limits");
      return save(certificate, { nextAt: putOff.until });
    }
    const placed = await placeOrder(issuer, kid, name, isRenewal ? held.ariId : null, signal);
    const placedOrder: Order = { directory, url: placed.url, orderedAt: now };
    const orderKey = secrets.seal(Buffer.from(newKeyPem()), orderKeyAad(name));
    return save(certificate, moved("ordered", placedOrder, now), { orderKey });
  }

  /** A CA that does not accept what an order replaces is asked once more without that. */
  async function placeOrder(
    { client }: Issuer,
    kid: string,
    name: string,
    replaces: string | null,
    signal: AbortSignal,
  ): Promise<AcmeOrder> {
    const { meta, renewalInfo } = await client.directory(signal);
    const isOffered = meta?.profiles !== undefined && Object.hasOwn(meta.profiles, acme.profile);
    const about = { names: [name], ...(isOffered && { profile: acme.profile }) };
    if (replaces === null || renewalInfo === undefined) return client.newOrder(kid, about, signal);
    try {
      return await client.newOrder(kid, { ...about, replaces }, signal);
    } catch (error) {
      if (!(error instanceof AcmeError) || error.trouble !== "refused") throw error;
      log.warn({ name, err: error }, "the CA does not take a renewal for one");
      return client.newOrder(kid, about, signal);
    }
  }

  async function publish(certificate: Certificate, current: Order, signal: AbortSignal): Promise<Certificate> {
    const { client, kid, key } = await accountOf(current, signal);
    const { status, challenges } = await authorizationOf(client, kid, current, signal);
    if (status === "valid") return save(certificate, moved("validating", current, clock.now()));
    const { name } = certificate;
    const kind = name.startsWith("*.") ? "dns-01" : "http-01";
    const token = challenges.find(({ type }) => type === kind)?.token;
    if (status !== "pending" || token === undefined)
      return fail(certificate, refusal("refused", `The CA offers no challenge of type ${kind}.`));
    const authorization = keyAuthorization(token, key.thumbprint);
    const answer = kind === "dns-01" ? dnsValue(authorization) : authorization;
    await addChallenge(db, { token, name, kind, answer });
    const problem = kind === "dns-01" ? await writeRecord(challengeName(name), answer, signal) : null;
    if (problem !== null) return fail(certificate, refusal("dns-writer", problem));
    return save(certificate, moved("challenge_published", current, clock.now()));
  }

  /** Why the record could not be written, in one line; null: it is. */
  async function writeRecord(name: string, value: string, signal: AbortSignal): Promise<string | null> {
    try {
      await deps.wildcard?.dns.put(name, value, signal);
      return null;
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ name, err: error }, "a record of DNS was not written");
      return `${name} was not written. ${String(error instanceof Error ? error.message : error).replaceAll(/\s+/g, " ")}`.slice(
        0,
        reasonMax,
      );
    }
  }

  async function start(certificate: Certificate, current: Order, signal: AbortSignal): Promise<Certificate> {
    const { client, kid } = await accountOf(current, signal);
    const [{ challenges }, published] = await Promise.all([
      authorizationOf(client, kid, current, signal),
      findChallenge(db, certificate.name),
    ]);
    const challenge = challenges.find(({ token }) => token === published?.token);
    if (challenge === undefined) return fail(certificate, refusal("refused", "The CA has forgotten its challenge."));
    // One that has been started is not started again by this.
    if (challenge.status === "pending") await client.startChallenge(kid, challenge.url, signal);
    return save(certificate, moved("validating", current, clock.now()));
  }

  async function look(certificate: Certificate, current: Order, signal: AbortSignal): Promise<Certificate | Pause> {
    const { name } = certificate;
    const { client, kid } = await accountOf(current, signal);
    const found = await client.order(kid, current.url, signal);
    if (found.status === "invalid") return fail(certificate, await reasonOf(client, kid, found, signal));
    if (found.status === "ready") {
      const csr = await createRequest(await getOrderKey(db, secrets, name), [name]);
      return pauseOf(await client.finalize(kid, found, csr, signal));
    }
    if (found.status !== "valid" || found.certificate === undefined) return pauseOf(found);
    const chain = await client.download(kid, found.certificate, signal);
    return take(certificate, current, chain);
  }

  async function take(certificate: Certificate, { directory }: Order, chain: string): Promise<Certificate> {
    const { name } = certificate;
    const keyPem = await getOrderKey(db, secrets, name);
    const { ariId, notBefore, notAfter } = readLeaf(chain, keyPem, name);
    const now = clock.now();
    await noteIssued(db, directory, name, now);
    const held = { notBefore, notAfter, issuer: directory, ariId };
    const fingerprint = createHash("sha256").update(chain).digest("hex");
    const key = secrets.seal(Buffer.from(keyPem), keyAad(name));
    return save(certificate, issued(held, now, random.next()), { chain: { pem: chain, fingerprint, key } });
  }

  async function ask(certificate: Certificate, signal: AbortSignal): Promise<Certificate> {
    const { held } = certificate;
    if (held === null || held.ariId === null)
      return save(certificate, { askAt: null, nextAt: certificate.renewAt ?? clock.now() });
    try {
      const { client } = await findIssuer(held.issuer);
      const window = await client.renewalInfo(held.ariId, signal);
      const advice = window && { renewAt: momentWithin(window, random.next()), retryAfterMs: window.retryAfterMs };
      return await save(certificate, advised(certificate, advice, clock.now()));
    } catch (error) {
      if (!(error instanceof AcmeError)) throw error;
      // Without advice it goes by its life, as with a CA that gives none.
      log.warn({ name: certificate.name, err: error }, "the CA did not say when to renew");
      return save(certificate, advised(certificate, null, clock.now()));
    }
  }

  async function accountOf({ directory }: Order, signal: AbortSignal) {
    const issuer = await findIssuer(directory);
    return { ...issuer, kid: await issuer.account(signal) };
  }

  async function run(
    step: Step,
    certificate: Certificate,
    wanted: WantedName | undefined,
    signal: AbortSignal,
  ): Promise<Certificate | Pause> {
    const { order: current } = certificate;
    if (step.do === "order" && wanted !== undefined) return order(certificate, wanted, signal);
    if (step.do === "ask") return ask(certificate, signal);
    if (step.do === "give up") return fail(certificate, step.why);
    if (step.do === "drop") return save(certificate, dropped(certificate, clock.now()));
    if (current === null) return {};
    if (step.do === "publish") return publish(certificate, current, signal);
    if (step.do === "start") return start(certificate, current, signal);
    if (step.do === "look") return look(certificate, current, signal);
    return {};
  }

  /** As far as it goes now. Returns in how many milliseconds its order is to be looked at again; null: it has none. */
  async function bring(
    found: Certificate,
    wanted: WantedName | undefined,
    signal: AbortSignal,
  ): Promise<number | null> {
    let certificate = found;
    let pauseMs: number | undefined;
    for (let steps = 0; steps < stepsMax && !signal.aborted; steps += 1) {
      const step = nextStep(certificate, await circumstancesOf(certificate, wanted?.leadsHere === true));
      if (step.do === "rest" || step.do === "wait") break;
      const after = await run(step, certificate, wanted, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        return failOf(certificate, error);
      });
      if (!("state" in after)) {
        pauseMs = after.pauseMs;
        break;
      }
      certificate = after;
    }
    if (certificate.order === null) return null;
    return pauseMs ?? recheckAfterMs(clock.now().getTime() - certificate.since.getTime());
  }

  async function failOf(certificate: Certificate, error: unknown): Promise<Certificate | Pause> {
    if (error instanceof BadChain) return fail(certificate, { ...refusal("nonsense", error.message), isCas: true });
    if (!(error instanceof AcmeError)) throw error;
    const { trouble, problem, retryAfterMs } = error;
    if (problem?.type === "accountDoesNotExist") {
      const issuer = await findIssuer(
        certificate.order?.directory ?? chooseCa(acme.directories, certificate.caFailures),
      );
      await issuer.forgetAccount();
    }
    const pauseMs = certificate.order === null ? null : orderPauseMs(trouble, retryAfterMs);
    if (pauseMs !== null) {
      log.warn({ name: certificate.name, err: error }, "the CA keeps an order waiting");
      // Until then no round has it looked at either.
      await save(certificate, { nextAt: new Date(clock.now().getTime() + pauseMs) });
      return { pauseMs };
    }
    const code = problem?.type ?? trouble;
    return fail(certificate, { code, text: error.message, isCas: trouble !== "refused", retryAfterMs });
  }

  return async (item, signal) => {
    const { registeredDomain } = payload.parse(item.payload);
    const wanted = await loadWanted(db, deps.wildcard?.name ?? null, registeredDomain);
    const all = await listBelow(db, registeredDomain);
    // What is under way first: whoever is done makes room.
    const inTurn = [...all].sort((a, b) => Number(b.order !== null) - Number(a.order !== null));
    for (const certificate of inTurn) {
      signal.throwIfAborted();
      const againMs = await bring(certificate, wanted.get(certificate.name), signal);
      if (againMs !== null) return { retryAfterMs: againMs, refund: true };
    }
    return { state: "done" };
  };
}

/** Nothing more can be done now; when to look again, where the CA decides about that. */
interface Pause {
  pauseMs?: number;
}

const pauseOf = ({ retryAfterMs }: Pick<AcmeOrder, "retryAfterMs">): Pause =>
  retryAfterMs === null ? {} : { pauseMs: Math.min(Math.max(retryAfterMs, lookAgain.leastMs), lookAgain.mostMs) };

const refusal = (code: string, text: string): Failure => ({ code, text, isCas: false, retryAfterMs: null });

async function authorizationOf(client: Issuer["client"], kid: string, { url }: Order, signal: AbortSignal) {
  const { authorizations } = await client.order(kid, url, signal);
  return client.authorization(kid, authorizations[0] ?? "", signal);
}

/** What the CA found wrong, as far as it says so. */
async function reasonOf(
  client: Issuer["client"],
  kid: string,
  { authorizations, error }: AcmeOrder,
  signal: AbortSignal,
): Promise<Failure> {
  const { challenges } = await client.authorization(kid, authorizations[0] ?? "", signal);
  const problem = readProblem(
    400,
    challenges.find((challenge) => challenge.error !== undefined)?.error ?? error ?? null,
  );
  return refusal(problem?.type ?? "refused", problem?.detail || "The CA refused the order and does not say why.");
}
