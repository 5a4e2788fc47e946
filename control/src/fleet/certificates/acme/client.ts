import type { Clock } from "@svc/runtime/clock";
import type { z } from "zod";
import { type CaAnswer, type CallCa, createCallCa } from "./call.ts";
import { type AccountKey, signJws } from "./jws.ts";
import { AcmeError, readProblem, readRetryAfter, troubleOf } from "./problem.ts";
import {
  type Authorization,
  authorizationShape,
  type Challenge,
  challengeShape,
  type Directory,
  directoryShape,
  orderShape,
  renewalShape,
} from "./shapes.ts";

export interface AcmeOrder extends z.infer<typeof orderShape> {
  url: string;
  /** When to ask for it again; null when the CA did not say. */
  retryAfterMs: number | null;
}

export interface SuggestedWindow {
  start: Date;
  end: Date;
  /** When to ask again; null when the CA did not say. */
  retryAfterMs: number | null;
}

/** One account at one CA (RFC 8555). Every method throws `AcmeError`, or the reason of the signal, and is bounded in time. */
export interface AcmeClient {
  /** What the CA offers, read once. */
  directory(signal: AbortSignal): Promise<Directory>;
  /** The account's URL, made when there is none of this key. Agrees to the CA's terms. */
  register(email: string | null, signal: AbortSignal): Promise<string>;
  /** @param about.replaces the ARI id of the certificate that it renews */
  newOrder(
    kid: string,
    about: { names: readonly string[]; profile?: string; replaces?: string },
    signal: AbortSignal,
  ): Promise<AcmeOrder>;
  order(kid: string, url: string, signal: AbortSignal): Promise<AcmeOrder>;
  authorization(kid: string, url: string, signal: AbortSignal): Promise<Authorization>;
  /** Lets the CA look whether a challenge is answered. */
  startChallenge(kid: string, url: string, signal: AbortSignal): Promise<Challenge>;
  /** @param csr PKCS#10 in DER */
  finalize(
    kid: string,
    order: Pick<AcmeOrder, "url" | "finalize">,
    csr: Buffer,
    signal: AbortSignal,
  ): Promise<AcmeOrder>;
  /** The chain in PEM, leaf first. */
  download(kid: string, url: string, signal: AbortSignal): Promise<string>;
  /** When to renew a certificate; null when the CA does not say such things. */
  renewalInfo(ariId: string, signal: AbortSignal): Promise<SuggestedWindow | null>;
}

export interface AcmeOptions {
  clock: Clock;
  directoryUrl: string;
  /** PEM; null for the system's authorities. */
  rootPem: string | null;
  key: AccountKey;
  userAgent: string;
}

const noncesKept = 8;
/** A nonce may have had its time, and a CA that tests its clients refuses some for no reason. */
const nonceAttempts = 8;

export function createAcmeClient(options: AcmeOptions): AcmeClient {
  const { clock, directoryUrl, key } = options;
  const call = createCallCa(options);
  const nonces: string[] = [];
  let known: Directory | null = null;

  const directory = async (signal: AbortSignal): Promise<Directory> => {
    known ??= parse(directoryShape, await get(call, directoryUrl, signal, clock));
    return known;
  };

  const keepNonce = ({ headers }: CaAnswer): void => {
    const nonce = headers["replay-nonce"];
    if (typeof nonce === "string" && nonces.length < noncesKept) nonces.push(nonce);
  };

  async function takeNonce(signal: AbortSignal): Promise<string> {
    const kept = nonces.pop();
    if (kept !== undefined) return kept;
    const { newNonce } = await directory(signal);
    const answer = await call({ method: "HEAD", url: newNonce }, signal);
    if (answer.status >= 300) throw errorOf(answer, clock.now());
    const nonce = answer.headers["replay-nonce"];
    if (typeof nonce !== "string") throw new AcmeError("nonsense", "the CA gives no nonce");
    return nonce;
  }

  /** A signed request. `payload` null asks for a resource as it is. */
  async function post(
    url: string,
    { kid, payload, accept }: { kid: string | null; payload: unknown; accept?: string },
    signal: AbortSignal,
  ): Promise<CaAnswer> {
    for (let attempt = 1; ; attempt += 1) {
      const nonce = await takeNonce(signal);
      const body = signJws(key, { url, nonce, kid }, payload);
      const answer = await call({ method: "POST", url, body, ...(accept !== undefined && { accept }) }, signal);
      keepNonce(answer);
      if (answer.status < 300) return answer;
      const error = errorOf(answer, clock.now());
      if (error.problem?.type !== "badNonce" || attempt >= nonceAttempts) throw error;
    }
  }

  const read = async <T>(shape: z.ZodType<T>, kid: string, url: string, signal: AbortSignal): Promise<T> =>
    parse(shape, await post(url, { kid, payload: null }, signal));

  const orderOf = (answer: CaAnswer, url: string): AcmeOrder => ({
    ...parse(orderShape, answer),
    url,
    retryAfterMs: readRetryAfter(answer.headers["retry-after"], clock.now()),
  });

  return {
    directory,
    async register(email, signal) {
      const { newAccount } = await directory(signal);
      const payload = { termsOfServiceAgreed: true, ...(email !== null && { contact: [`mailto:${email}`] }) };
      return locationOf(await post(newAccount, { kid: null, payload }, signal));
    },
    async newOrder(kid, { names, profile, replaces }, signal) {
      const { newOrder } = await directory(signal);
      const identifiers = names.map((value) => ({ type: "dns", value }));
      const payload = { identifiers, ...(profile && { profile }), ...(replaces && { replaces }) };
      const answer = await post(newOrder, { kid, payload }, signal);
      return orderOf(answer, locationOf(answer));
    },
    order: async (kid, url, signal) => orderOf(await post(url, { kid, payload: null }, signal), url),
    authorization: (kid, url, signal) => read(authorizationShape, kid, url, signal),
    startChallenge: async (kid, url, signal) => parse(challengeShape, await post(url, { kid, payload: {} }, signal)),
    async finalize(kid, order, csr, signal) {
      const payload = { csr: csr.toString("base64url") };
      return orderOf(await post(order.finalize, { kid, payload }, signal), order.url);
    },
    async download(kid, url, signal) {
      const accept = "application/pem-certificate-chain";
      return (await post(url, { kid, payload: null, accept }, signal)).body;
    },
    async renewalInfo(ariId, signal) {
      const { renewalInfo } = await directory(signal);
      if (renewalInfo === undefined) return null;
      const answer = await get(call, `${renewalInfo.replace(/\/$/, "")}/${ariId}`, signal, clock);
      const { start, end } = parse(renewalShape, answer).suggestedWindow;
      const window = { start: new Date(start), end: new Date(end) };
      if (window.end <= window.start)
        throw new AcmeError("nonsense", "the CA suggests a window that ends before it begins");
      return { ...window, retryAfterMs: readRetryAfter(answer.headers["retry-after"], clock.now()) };
    },
  };
}

async function get(call: CallCa, url: string, signal: AbortSignal, clock: Clock): Promise<CaAnswer> {
  const answer = await call({ method: "GET", url, accept: "application/json" }, signal);
  if (answer.status !== 200) throw errorOf(answer, clock.now());
  return answer;
}

function errorOf(answer: CaAnswer, now: Date): AcmeError {
  const { status, headers } = answer;
  const retryAfterMs = readRetryAfter(headers["retry-after"], now);
  const problem = readProblem(status, jsonOf(answer));
  if (problem === null) {
    const trouble = status >= 500 ? "away" : status === 429 ? "limited" : "nonsense";
    return new AcmeError(trouble, `the CA answers with status ${status}`, { retryAfterMs });
  }
  const text = problem.detail === "" ? problem.type : problem.detail;
  return new AcmeError(troubleOf(problem), text, { problem, retryAfterMs });
}

function jsonOf({ body }: CaAnswer): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}

function parse<T>(shape: z.ZodType<T>, answer: CaAnswer): T {
  const result = shape.safeParse(jsonOf(answer));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new AcmeError("nonsense", `the CA's answer is not as expected: ${issue?.path.join(".")} ${issue?.message}`);
}

function locationOf({ headers }: CaAnswer): string {
  const { location } = headers;
  if (location === undefined) throw new AcmeError("nonsense", "the CA does not say where its answer is");
  return location;
}
