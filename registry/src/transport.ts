import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";
import { Agent, type Dispatcher } from "undici";
import { type Challenge, mayAuthenticateAt, parseChallenge } from "./challenge.ts";
import { type Egress, guardedConnector } from "./egress.ts";
import { RegistryError, refused, unavailable } from "./errors.ts";
import type { Access, IssuedToken } from "./tokens.ts";

/** Gives a token with which the registry allows what a call needs. May throw whatever it likes. */
export type TokenSource = (access: readonly Access[], signal: AbortSignal | undefined) => Promise<IssuedToken>;

export interface RegistryOptions {
  /** Origin of the registry: `http://127.0.0.1:5000`. */
  url: string;
  username?: string;
  password?: string;
  /** Where tokens come from, in place of the service that the registry names: nothing is ever asked of that one. */
  tokens?: TokenSource;
  /** PEM of a private CA. */
  ca?: string;
  /** Judges every host before it is dialled, for a registry that somebody else named. Without it nothing is judged. */
  egress?: Egress;
  /** Hosts (`name` or `name:port`) besides the registry's own that may be given the credential in exchange for a token. */
  authHosts?: readonly string[];
  /** How long to wait for a connection, for the head of an answer, and between two pieces of a body. Default 30 s. */
  timeoutMs?: number;
  /** How long one whole transfer of a blob may take. Default 15 minutes. */
  transferTimeoutMs?: number;
}

export interface Call {
  method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path with query on the registry, or an absolute URL that the registry gave us. */
  path: string;
  headers?: Record<string, string>;
  body?: Buffer;
  signal?: AbortSignal | undefined;
  /** Tried again after a broken connection or a 5xx; only for calls that may be repeated. */
  repeatable?: boolean;
  /** Statuses after which a repeatable call is tried again, if others than the usual ones. */
  again?: readonly number[];
  /** Redirects are followed; else they are an answer like any other. */
  redirects?: boolean;
  /** What is being attempted, for error messages. */
  doing: string;
}

export type Answer = Dispatcher.ResponseData;

const attemptsMax = 3;
/** 500 too: a registry on plain files answers it when two clients store the same bytes at the same moment. */
const temporaryStatuses: readonly number[] = [429, 500, 502, 503, 504];
const redirectsMax = 5;
const tokenLifeMs = 60_000;
const smallBodyMax = 1024 * 1024;
const tokenLengthMax = 64 * 1024;
const tokensKept = 1000;

/** One registry's HTTP: timeouts, credentials, repeats and redirects in one place. */
export class Transport {
  readonly origin: URL;
  readonly clock: Clock;
  readonly #options: RegistryOptions;
  readonly #agent: Agent;
  readonly #tokens = new Map<string, { value: string; untilMs: number }>();
  // Once a registry has asked for a scheme it will ask again.
  #basic = false;

  constructor(clock: Clock, options: RegistryOptions) {
    this.clock = clock;
    this.#options = options;
    this.origin = new URL(options.url);
    const timeout = options.timeoutMs ?? 30_000;
    const connect = { timeout: Math.min(timeout, 10_000), ...(options.ca === undefined ? {} : { ca: options.ca }) };
    this.#agent = new Agent({
      connections: 32,
      connect: options.egress === undefined ? connect : guardedConnector(options.egress, connect),
      headersTimeout: timeout,
      bodyTimeout: timeout,
      keepAliveTimeout: 30_000,
    });
  }

  get transferTimeoutMs(): number {
    return this.#options.transferTimeoutMs ?? 900_000;
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  /** The answer to `call`, whatever its status. Throws RegistryError when there is none. */
  async send(call: Call): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      const last = !(call.repeatable ?? false) || attempt === attemptsMax;
      try {
        const answer = await this.#authorised(call);
        if (last || !(call.again ?? temporaryStatuses).includes(answer.statusCode)) return answer;
        await discard(answer);
      } catch (cause) {
        if (cause instanceof RegistryError) throw cause;
        if (call.signal?.aborted === true) throw interrupted(call);
        if (last) throw unavailable(`${call.doing}: the registry does not answer`, { temporary: true, cause });
      }
      await sleep(this.clock, 100 * 4 ** (attempt - 1), call.signal).catch(() => {
        throw interrupted(call);
      });
    }
  }

  /** Sends `call` with what is known of the registry's wishes, and once more after it has said them. */
  async #authorised(call: Call): Promise<Answer> {
    const target = new URL(call.path, this.origin);
    const access = accessOf(call, target);
    const { tokens } = this.#options;
    if (tokens !== undefined) return this.#withToken(call, target, access, tokens);
    const scope = scopeOf(access);
    const first = await this.#followed(call, target, this.#known(scope));
    if (first.statusCode !== 401) return first;
    const challenge = parseChallenge(first.headers["www-authenticate"]);
    await discard(first);
    const authorization = challenge === null ? null : await this.#answer(challenge, scope, call);
    if (authorization === null) throw refused(call.doing, 401);
    return this.#followed(call, target, authorization);
  }

  /** Sends `call` with a token of `tokens`. A refused one that was kept may be from before the registry had another key. */
  async #withToken(call: Call, target: URL, access: readonly Access[], tokens: TokenSource): Promise<Answer> {
    const scope = scopeOf(access);
    const kept = this.#known(scope);
    const first = await this.#followed(call, target, kept ?? (await this.#ask(tokens, access, call)));
    if (first.statusCode !== 401) return first;
    this.#tokens.delete(scope);
    if (kept === null) return first;
    await discard(first);
    return this.#followed(call, target, await this.#ask(tokens, access, call));
  }

  #known(scope: string): string | null {
    const token = this.#tokens.get(scope);
    if (token !== undefined && token.untilMs > this.clock.steadyMs()) return token.value;
    return this.#basic ? this.#basicHeader() : null;
  }

  async #ask(tokens: TokenSource, access: readonly Access[], { doing, signal }: Call): Promise<string> {
    try {
      const { token, expiresInSeconds } = await tokens(access, signal);
      return this.#keep(scopeOf(access), token, expiresInSeconds);
    } catch (cause) {
      if (cause instanceof RegistryError || signal?.aborted === true) throw cause;
      throw unavailable(`${doing}: there is no token for it now`, { temporary: true, cause });
    }
  }

  /** Keeps a token until shortly before it ends, and returns the header that shows it. */
  #keep(scope: string, token: string, expiresInSeconds: number | null): string {
    const isTold = expiresInSeconds !== null && expiresInSeconds > 20;
    const lifeMs = isTold ? (expiresInSeconds - 10) * 1000 : tokenLifeMs / 2;
    if (this.#tokens.size >= tokensKept) this.#tokens.clear();
    const value = `Bearer ${token}`;
    this.#tokens.set(scope, { value, untilMs: this.clock.steadyMs() + lifeMs });
    return value;
  }

  #basicHeader(): string | null {
    const { username, password } = this.#options;
    if (username === undefined || password === undefined) return null;
    return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
  }

  async #answer(challenge: Challenge, scope: string, call: Call): Promise<string | null> {
    if (challenge.scheme === "basic") {
      this.#basic = true;
      return this.#basicHeader();
    }
    const { authHosts = [], egress } = this.#options;
    const isPinned = mayAuthenticateAt(challenge.realm, this.origin, authHosts, { exactPort: egress !== undefined });
    const url = URL.parse(challenge.realm);
    // Where hosts are judged, a token may be asked for anywhere else too: without the credential.
    if (url === null || !/^https?:$/.test(url.protocol) || (!isPinned && egress === undefined))
      throw unavailable(`${call.doing}: the registry wants the credential sent to another host`);
    if (challenge.service !== null) url.searchParams.set("service", challenge.service);
    url.searchParams.set("scope", challenge.scope ?? scope);
    const { signal, doing } = call;
    const credential = isPinned ? this.#basicHeader() : null;
    const answer = await this.#dispatch(url, { method: "GET", path: url.pathname, signal, doing }, credential);
    if (answer.statusCode !== 200) {
      await discard(answer);
      throw refused(call.doing, answer.statusCode >= 500 ? answer.statusCode : 401);
    }
    const { token, access_token, expires_in } = (await readJson(answer, smallBodyMax, doing)) as Record<
      string,
      unknown
    >;
    const value = typeof token === "string" ? token : access_token;
    if (typeof value !== "string" || value.length > tokenLengthMax)
      throw unavailable(`${call.doing}: the registry's token service gave no token`);
    return this.#keep(scope, value, typeof expires_in === "number" ? expires_in : null);
  }

  /** Follows redirects of a storage back end; the credential stays with the registry's own origin. */
  async #followed(call: Call, target: URL, authorization: string | null): Promise<Answer> {
    let url = target;
    for (let hop = 0; ; hop++) {
      const answer = await this.#dispatch(url, call, url.origin === this.origin.origin ? authorization : null);
      const { location } = answer.headers;
      const moved = [301, 302, 303, 307, 308].includes(answer.statusCode) && typeof location === "string";
      if (!moved || !(call.redirects ?? false)) return answer;
      await discard(answer);
      const next = URL.parse(location, url.href);
      const downgraded = next?.protocol === "http:" && url.protocol === "https:";
      if (next === null || downgraded || !/^https?:$/.test(next.protocol) || hop === redirectsMax)
        throw unavailable(`${call.doing}: the registry redirects to where we do not follow`);
      url = next;
    }
  }

  #dispatch(url: URL, call: Call, authorization: string | null): Promise<Answer> {
    return this.#agent.request({
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method: call.method,
      headers: { ...call.headers, ...(authorization === null ? {} : { authorization }) },
      body: call.body ?? null,
      signal: call.signal ?? null,
    });
  }
}

/** What to throw when the call's signal ended it: our error for a deadline, the caller's own reason otherwise. */
function interrupted({ signal, doing }: Call): unknown {
  const reason: unknown = signal?.reason;
  const late = reason instanceof DOMException && reason.name === "TimeoutError";
  return late ? unavailable(`${doing}: took too long`, { temporary: true, cause: reason }) : reason;
}

/** What a call has to be allowed to do, as the registry sees it; nothing for one that is about no repository. */
function accessOf({ method }: Call, { pathname, searchParams }: URL): Access[] {
  const name = /^\/v2\/(.+?)\/(?:blobs|manifests|tags)\//.exec(pathname)?.[1];
  if (name === undefined) return [];
  if (method === "DELETE") return [{ type: "repository", name, actions: ["delete"] }];
  if (method === "GET" || method === "HEAD") return [{ type: "repository", name, actions: ["pull"] }];
  const from = searchParams.get("from");
  const mounted: Access[] = from === null ? [] : [{ type: "repository", name: from, actions: ["pull"] }];
  return [{ type: "repository", name, actions: ["pull", "push"] }, ...mounted];
}

const scopeOf = (access: readonly Access[]): string =>
  access.map(({ type, name, actions }) => `${type}:${name}:${actions.join(",")}`).join(" ");

/** Reads away a body that nobody wants, so that its connection can be used again. */
export async function discard(answer: Answer): Promise<void> {
  await answer.body.dump({ limit: 128 * 1024 }).catch(() => undefined);
}

/** A whole body of at most `maxBytes`. */
export async function readBody(answer: Answer, maxBytes: number, doing: string): Promise<Buffer> {
  const { bytes, isWhole } = await readStart(answer, maxBytes, doing);
  if (!isWhole) throw new RegistryError("ARTIFACT_TOO_LARGE", `${doing}: more than ${maxBytes} bytes`);
  return bytes;
}

/** What a body begins with: `maxBytes` at most, and whether that is all. */
export async function readStart(
  answer: Answer,
  maxBytes: number,
  doing: string,
): Promise<{ bytes: Buffer; isWhole: boolean }> {
  const parts: Buffer[] = [];
  let length = 0;
  try {
    for await (const part of answer.body as AsyncIterable<Buffer>) {
      length += part.length;
      parts.push(part);
      if (length > maxBytes) break;
    }
  } catch (cause) {
    throw unavailable(`${doing}: the registry's answer broke off`, { temporary: true, cause });
  }
  return { bytes: Buffer.concat(parts, Math.min(length, maxBytes)), isWhole: length <= maxBytes };
}

export async function readJson(answer: Answer, maxBytes: number, doing: string): Promise<unknown> {
  const body = await readBody(answer, maxBytes, doing);
  try {
    return JSON.parse(body.toString("utf8"));
  } catch (cause) {
    throw unavailable(`${doing}: the registry's answer is not JSON`, { cause });
  }
}
