import type { CaaRecord } from "node:dns";
import { Resolver as Cares } from "node:dns/promises";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import { createLimiter, LimiterFull } from "@svc/runtime/limiter";
import { type Answer, agreedBy, firstKnown, foundOf, unknown } from "./answer.ts";

/** One property of a CAA record (RFC 8659). */
export interface Caa {
  critical: boolean;
  /** `issue`, `issuewild`, `iodef` or another. */
  tag: string;
  value: string;
}

/** The questions. None of them throws. Names are A-labels; a trailing dot does not matter. */
export interface Questions {
  /** Of each TXT record its strings put together. */
  txt(name: string): Promise<Answer<string>>;
  /** IPv4 and IPv6 addresses, at the end of at most 8 CNAMEs. Unknown unless both kinds are known. */
  addresses(name: string): Promise<Answer<string>>;
  /** Of this very name: climbing to its parents is up to who asks. */
  caa(name: string): Promise<Answer<Caa>>;
  /** Names of the servers of the zone that begins at this very name. */
  ns(name: string): Promise<Answer<string>>;
}

/** Asks its servers in their order until one knows. */
export interface Resolver extends Questions {
  /** Each server for itself, in their order. */
  readonly servers: readonly Questions[];
  /** Another server, `ip:port`, which shares the room for questions. */
  at(server: string): Questions;
}

interface ResolverOptions {
  clock: Clock;
  /** `ip` or `ip:port`, IPv6 in brackets where there is a port. Empty: the system's servers. */
  servers: readonly string[];
  /** Of one question to one server, all repetitions included. */
  timeoutMs: number;
}

/** A burst of more loses datagrams on the machine's own socket buffers. */
const inFlightMax = 64;
const waitersMax = 4_096;
const cnamesMax = 8;

/** How c-ares says that a server knows that there is nothing. All else is no knowledge. */
const absentCodes = new Set(["ENOTFOUND", "ENODATA"]);

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? "an error of its own";

/** Those that are asked: the system's where none is named. */
export const serversOf = (named: readonly string[]): readonly string[] =>
  named.length === 0 ? new Cares().getServers() : named;

/** A resolver over DNS itself: it reads no hosts file and keeps no answer. */
export function createResolver({ clock, servers, timeoutMs }: ResolverOptions): Resolver {
  const limiter = createLimiter({ total: inFlightMax }, { total: waitersMax });
  const each = serversOf(servers).map((server) => createQuestions(clock, limiter, server, timeoutMs));
  const inTurn = async <T>(ask: (server: Questions) => Promise<Answer<T>>): Promise<Answer<T>> => {
    const answers: Answer<T>[] = [];
    for (const server of each) {
      const answer = await ask(server);
      if (answer.kind !== "unknown") return answer;
      answers.push(answer);
    }
    return each.length === 0 ? unknown("there is no DNS server to ask") : firstKnown(answers);
  };
  return {
    servers: each,
    txt: (name) => inTurn((server) => server.txt(name)),
    addresses: (name) => inTurn((server) => server.addresses(name)),
    caa: (name) => inTurn((server) => server.caa(name)),
    ns: (name) => inTurn((server) => server.ns(name)),
    at: (server) => createQuestions(clock, limiter, server, timeoutMs),
  };
}

/**
 * What servers agree on, each asked for itself: two of them, where there are two. `ask` may narrow an answer to what
 * matters, so that they need not agree on anything else.
 */
export async function agreed<T>(
  resolver: Resolver,
  ask: (server: Questions) => Promise<Answer<T>>,
): Promise<Answer<T>> {
  return agreedBy(await Promise.all(resolver.servers.map(ask)));
}

function createQuestions(
  clock: Clock,
  limiter: ReturnType<typeof createLimiter>,
  server: string,
  timeoutMs: number,
): Questions {
  /** A channel per question: c-ares' own would keep answers, and cancel all questions together. */
  const query = async <T>(ask: (channel: Cares) => Promise<T[]>): Promise<Answer<T>> => {
    // The second try of c-ares waits twice as long as the first one.
    const channel = new Cares({ timeout: Math.ceil(timeoutMs / 3), tries: 2 });
    channel.setServers([server]);
    try {
      return foundOf(await within(clock, timeoutMs, ask(channel), () => Promise.reject(timedOut)));
    } catch (error) {
      const code = codeOf(error);
      return absentCodes.has(code) ? { kind: "absent" } : unknown(`${server} answers with ${code}`);
    } finally {
      channel.cancel();
    }
  };
  const limited = async <T>(ask: (channel: Cares) => Promise<T[]>): Promise<Answer<T>> => {
    try {
      return await limiter(() => query(ask));
    } catch (error) {
      if (error instanceof LimiterFull) return unknown("too many questions of DNS wait");
      throw error;
    }
  };
  const addressesOf = async (name: string): Promise<Answer<string>> => {
    const [v4, v6] = await Promise.all([
      limited((channel) => channel.resolve4(name)),
      limited((channel) => channel.resolve6(name)),
    ]);
    if (v4.kind === "unknown") return v4;
    if (v6.kind === "unknown") return v6;
    return foundOf([...valuesOf(v4), ...valuesOf(v6)]);
  };
  /** Recursors follow CNAMEs themselves; a server that knows only its own zone leaves the next one to us. */
  const chase = async (name: string, hops: number): Promise<Answer<string>> => {
    const found = await addressesOf(name);
    if (found.kind !== "absent") return found;
    const alias = await limited((channel) => channel.resolveCname(name));
    if (alias.kind !== "found") return alias;
    const [target] = alias.values;
    if (target === undefined || hops === cnamesMax)
      return unknown(`${name} leads through more than ${cnamesMax} CNAMEs`);
    return chase(target, hops + 1);
  };
  return {
    txt: async (name) => {
      const answer = await limited((channel) => channel.resolveTxt(name));
      return answer.kind === "found" ? foundOf(answer.values.map((strings) => strings.join(""))) : answer;
    },
    addresses: (name) => chase(name, 1),
    caa: async (name) => {
      const answer = await limited((channel) => channel.resolveCaa(name));
      return answer.kind === "found" ? foundOf(answer.values.flatMap(caaOf)) : answer;
    },
    ns: (name) => limited((channel) => channel.resolveNs(name)),
  };
}

const timedOut = Object.assign(new Error("no answer in time"), { code: "ETIMEOUT" });

const valuesOf = <T>(answer: Answer<T>): T[] => (answer.kind === "found" ? answer.values : []);

/** Node names a property's field after its tag. */
const caaOf = ({ critical, ...fields }: CaaRecord): Caa[] =>
  Object.entries(fields)
    .filter(([tag]) => tag !== "type")
    .map(([tag, value]) => ({ critical: critical !== 0, tag, value: String(value) }));
