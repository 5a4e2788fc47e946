import type { Random } from "@svc/runtime/random";
import type { BackOff } from "@svc/runtime/retry";

/** Addresses of control that a daemon may know: a replica each. */
export const endpointsMax = 9;

/** The endpoints of control that one daemon knows, and which of them it uses now. */
export interface Endpoints {
  readonly count: number;
  /** The one that is in use: sessions and calls that begin now go there. */
  current(): string;
  /** Every one of them, the one in use first. */
  all(): string[];
  /** Says that `failed` did not serve. The next one is in use from now on, unless somebody has moved on from it before. */
  moveOn(failed: string): void;
}

/**
 * Begins with any of `urls`, in an order of this process' own: a fleet that lost one replica spreads over the others
 * instead of going on to the same next one together.
 *
 * @param urls at least one
 * @param random asked once for each url
 */
export function createEndpoints(urls: readonly string[], random: Random): Endpoints {
  const order = shuffled(
    urls,
    urls.map(() => random.next()),
  );
  const [first] = order;
  if (first === undefined) throw new Error("control needs at least one endpoint");
  let used = first;
  return {
    count: order.length,
    current: () => used,
    all: () => [used, ...order.filter((url) => url !== used)],
    moveOn(failed) {
      used = nextEndpoint(order, used, failed);
    },
  };
}

/** A single replica of control, which no other one will do for. */
export const onlyEndpoint = (url: string): Endpoints => ({
  count: 1,
  current: () => url,
  all: () => [url],
  moveOn() {},
});

/** Which endpoint comes into use when `failed` failed: the one after it; when another was in use already, that one stays. */
export function nextEndpoint(order: readonly string[], used: string, failed: string): string {
  if (failed !== used) return used;
  return order[(order.indexOf(used) + 1) % order.length] ?? used;
}

/** The items by their random number, which makes every order equally likely. */
export function shuffled<T>(items: readonly T[], random: readonly number[]): T[] {
  return items
    .map((item, index) => ({ item, by: random[index] ?? 0 }))
    .sort((a, b) => a.by - b.by)
    .map(({ item }) => item);
}

/** Pauses between tries to reach control. */
export const linkBackOff: BackOff = { firstMs: 100, maxMs: 8_000 };

/**
 * As how many failures the back-off before the next try takes them. As long as an endpoint was not tried since the last success
 * the next try comes soon; a round that found none makes the following pause longer, however many endpoints it had.
 *
 * @param failures in a row, at least 1
 */
export const roundsFailed = (failures: number, endpoints: number): number =>
  failures % endpoints === 0 ? failures / endpoints : 1;

/** What is wrong with a list of endpoints in a setting; null when nothing is. */
export function endpointListProblem(text: string): string | null {
  const urls = splitEndpoints(text);
  if (urls.length > endpointsMax) return `must be at most ${endpointsMax} URLs`;
  for (const url of urls) if (!isEndpoint(url)) return "must be https://host:port, several separated by commas";
  if (new Set(urls.map((url) => new URL(url).origin)).size < urls.length) return "names an address twice";
  return null;
}

/** The URLs of a list that `endpointListProblem` finds nothing wrong with. */
export const splitEndpoints = (text: string): string[] => text.split(",").map((url) => url.trim());

function isEndpoint(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : null;
  return (
    url?.protocol === "https:" && url.pathname === "/" && url.search === "" && url.hash === "" && url.username === ""
  );
}
