import { isIPv4, isIPv6 } from "node:net";

/** How often passwords of sites may be tried. */
export interface Attempts {
  /**
   * Takes one attempt at the site's password. A refused one costs nothing.
   *
   * @param address of the visitor
   * @returns 0, or for how many milliseconds to wait
   */
  take(site: string, address: string, nowMs: number): number;
  /** The attempt was not made: it does not count. */
  giveBack(site: string, address: string): void;
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
  /** Buckets that are remembered. */
  bucketsMax: number;
  /** Clients that are remembered for having been right. */
  knownMax: number;
}

const usual: AttemptRates = {
  client: { atOnce: 5, everyMs: 6_000 },
  network: { atOnce: 20, everyMs: 3_000 },
  site: { atOnce: 60, everyMs: 1_000 },
  bucketsMax: 30_000,
  knownMax: 10_000,
};

/** Looking through all buckets for some that are full again costs more than an attempt. */
const sweepEveryMs = 1_000;

/**
 * Only buckets that are full again are forgotten. When none is, clients that are not remembered have to wait; since a
 * site has not more than its own rate, that takes many sites whose passwords are being guessed at once.
 */
export function createAttempts(rates: AttemptRates = usual): Attempts {
  const { client, network, site, bucketsMax, knownMax } = rates;
  /** When each bucket is full again. */
  const fullAt = new Map<string, number>();
  /** In the order in which they were right. */
  const known = new Set<string>();
  let sweptAt = Number.NEGATIVE_INFINITY;

  function bucketsOf(name: string, address: string): { key: string; rate: Rate }[] {
    const origin = originOf(address);
    const own = { key: `client ${name} ${origin.client}`, rate: client };
    if (known.has(own.key)) return [own];
    return [own, { key: `network ${name} ${origin.network}`, rate: network }, { key: `site ${name}`, rate: site }];
  }

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

  function giveBack(name: string, address: string): void {
    for (const { key, rate } of bucketsOf(name, address)) {
      const at = fullAt.get(key);
      if (at !== undefined) fullAt.set(key, at - rate.everyMs);
    }
  }

  return {
    take(name, address, nowMs) {
      const buckets = bucketsOf(name, address).map(({ key, rate }) => ({
        key,
        rate,
        after: afterOne(key, rate, nowMs),
      }));
      const waits = buckets.map(({ rate, after }) => after - nowMs - rate.atOnce * rate.everyMs);
      const waitMs = Math.max(0, ...waits);
      if (waitMs > 0) return Math.ceil(waitMs);
      const missing = buckets.filter(({ key }) => !fullAt.has(key)).length;
      // Those who are known are not many.
      if (buckets.length > 1 && !hasRoom(missing, nowMs)) return client.everyMs;
      for (const { key, after } of buckets) fullAt.set(key, after);
      return 0;
    },
    giveBack,
    welcome(name, address) {
      giveBack(name, address);
      const [own] = bucketsOf(name, address);
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
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? [];
  const plain = mapped ?? address;
  if (isIPv4(plain)) return { client: plain, network: plain.replace(/\d+$/, "0/24") };
  if (!isIPv6(plain)) return { client: plain, network: plain };
  const [head = "", tail] = plain.split("%")[0]?.split("::") ?? [];
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const groups = [...before, ...Array.from({ length: zeros }, () => "0"), ...after].map((group) =>
    Number.parseInt(group, 16).toString(16),
  );
  return { client: `${groups.slice(0, 4).join(":")}::/64`, network: `${groups.slice(0, 3).join(":")}::/48` };
}
