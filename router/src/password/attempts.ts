import { readAddress } from "../address.ts";

/** How often passwords of sites may be tried. */
export interface Attempts {
  /**
   * Takes one attempt at the site's password. A refused one costs nothing.
   *
   * @param address of the visitor
   * @returns 0, or for how many milliseconds to wait
   */
  take(site: string, address: string, nowMs: number): number;
  /** The attempt was not made: it does not count for the site. For whoever asked it does, or asking were free. */
  refund(site: string, address: string): void;
  /** The attempt was right: it does not count, and further ones from there wait for nobody else's. */
  welcome(site: string, address: string): void;
}

/** A bucket of `atOnce` attempts, into which one comes back after each `everyMs`. */
interface Rate {
  atOnce: number;
  everyMs: number;
}

interface AttemptRates {
  /** Of an IPv4 address, or an IPv6 network of 64 bits. */
  client: Rate;
  /** Of the network of 24 or 48 bits that the client is in: that is what one customer has, with very many clients. */
  network: Rate;
  /** Of everybody at one site, so that many networks together do not guess fast either. */
  site: Rate;
  /** Of a network in the reserve, so that few networks do not use it up. */
  newcomer: Rate;
  /** Of everybody at one site once its own are used up. */
  reserve: Rate;
  /** Buckets that are remembered. */
  bucketsMax: number;
  /** Clients that are remembered for having been right. */
  knownMax: number;
}

const usual: AttemptRates = {
  client: { atOnce: 5, everyMs: 6_000 },
  network: { atOnce: 20, everyMs: 3_000 },
  site: { atOnce: 60, everyMs: 1_000 },
  newcomer: { atOnce: 2, everyMs: 1_800_000 },
  reserve: { atOnce: 10, everyMs: 3_000 },
  bucketsMax: 100_000,
  knownMax: 10_000,
};

interface Bucket {
  key: string;
  rate: Rate;
}

/** Looking through all buckets for some that are full again costs more than an attempt. */
const sweepEveryMs = 1_000;

/**
 * Three networks are enough to use up what a site has for everybody. A visitor from another one is not to wait for that:
 * those who have not tried lately have a little of a reserve, which takes some six hundred networks at once to use up.
 *
 * Only buckets that are full again are forgotten. When none is, clients that are not remembered have to wait; since a
 * site has not more than its own rate and its reserve, that takes many sites whose passwords are being guessed at once.
 */
export function createAttempts(rates: AttemptRates = usual): Attempts {
  const { bucketsMax, knownMax } = rates;
  /** When each bucket is full again. */
  const fullAt = new Map<string, number>();
  /** In the order in which they were right. */
  const known = new Set<string>();
  let sweptAt = Number.NEGATIVE_INFINITY;

  /** Each list of buckets is enough for an attempt; the first is the usual one. */
  function waysOf(name: string, address: string): Bucket[][] {
    const origin = originOf(address);
    const own = { key: `client ${name} ${origin.client}`, rate: rates.client };
    if (known.has(own.key)) return [[own]];
    const network = { key: `network ${name} ${origin.network}`, rate: rates.network };
    const newcomer = { key: `newcomer ${name} ${origin.network}`, rate: rates.newcomer };
    return [
      [own, network, { key: `site ${name}`, rate: rates.site }],
      [own, network, newcomer, { key: `reserve ${name}`, rate: rates.reserve }],
    ];
  }

  /** For how long not every one of the buckets has an attempt left. */
  const waitMs = (buckets: readonly Bucket[], nowMs: number): number =>
    Math.max(0, ...buckets.map(({ key, rate }) => afterOne(key, rate, nowMs) - nowMs - rate.atOnce * rate.everyMs));

  /** When the bucket would be full again after one more. */
  function afterOne(key: string, { atOnce, everyMs }: Rate, nowMs: number): number {
    const full = fullAt.get(key) ?? nowMs;
    const emptyNow = nowMs + atOnce * everyMs;
    // The clock was set back.
    if (full > emptyNow) fullAt.set(key, emptyNow);
    return Math.min(Math.max(full, nowMs), emptyNow) + everyMs;
  }

  function hasRoom(more: number, nowMs: number): boolean {
    if (fullAt.size + more <= bucketsMax) return true;
    if (Math.abs(nowMs - sweptAt) < sweepEveryMs) return false;
    sweptAt = nowMs;
    for (const [key, at] of fullAt) if (at <= nowMs) fullAt.delete(key);
    return fullAt.size + more <= bucketsMax;
  }

  function giveBack(buckets: readonly Bucket[]): void {
    for (const { key, rate } of buckets) {
      const at = fullAt.get(key);
      if (at !== undefined) fullAt.set(key, at - rate.everyMs);
    }
  }

  // Of the reserve nothing comes back: the site has one more instead.
  const usualWay = (name: string, address: string): Bucket[] => waysOf(name, address)[0] ?? [];

  return {
    take(name, address, nowMs) {
      const ways = waysOf(name, address);
      const open = ways.find((buckets) => waitMs(buckets, nowMs) === 0);
      if (open === undefined) return Math.ceil(Math.min(...ways.map((buckets) => waitMs(buckets, nowMs))));
      const missing = open.filter(({ key }) => !fullAt.has(key)).length;
      // Those who are known are not many.
      if (open.length > 1 && !hasRoom(missing, nowMs)) return rates.client.everyMs;
      for (const { key, rate } of open) fullAt.set(key, afterOne(key, rate, nowMs));
      return 0;
    },
    refund(name, address) {
      giveBack(usualWay(name, address).filter(({ rate }) => rate === rates.site));
    },
    welcome(name, address) {
      const way = usualWay(name, address);
      giveBack(way);
      const [own] = way;
      if (own === undefined) return;
      known.delete(own.key);
      known.add(own.key);
      for (const oldest of known) {
        if (known.size <= knownMax) break;
        known.delete(oldest);
      }
    },
  };
}

/**
 * Who counts as one client: an IPv4 address, or an IPv6 network of 64 bits, of which anybody has 2^64 addresses. And the
 * network that the client is in: 24 bits of IPv4, 48 of IPv6.
 */
export function originOf(address: string): { client: string; network: string } {
  const origin = readAddress(address);
  if (origin.kind === "unknown") return { client: origin.text, network: origin.text };
  if (origin.kind === "IPv4") return { client: origin.text, network: origin.text.replace(/\d+$/, "0/24") };
  const first = (count: number): string => origin.groups.slice(0, count).join(":");
  return { client: `${first(4)}::/64`, network: `${first(3)}::/48` };
}
