import { isIP } from "node:net";
import { hostProblem, isPublicAddress, parseAddress } from "@svc/proto";
import { type DialledAddress, type Egress, EgressBlocked } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { addressesOf, type ResolveAddresses } from "./resolve.ts";

/** Every address of a name unless one of them is private. Throws what `resolve` throws. */
export async function publicAddresses(
  clock: Clock,
  resolve: ResolveAddresses,
  hostname: string,
): Promise<string[] | "private"> {
  const addresses = await addressesOf(clock, hostname, resolve);
  // One public address among private ones would be enough to be dialled, so all of them count.
  return addresses.every(isPublicAddress) ? addresses : "private";
}

/**
 * Lets a webhook lead only to public hosts over https, and besides to whatever is on a network of the operator's own that
 * `isAllowed` knows: there over http too, and at any port. The addresses that were judged are the ones that are dialled.
 */
export function createWebhookEgress(
  clock: Clock,
  resolve: ResolveAddresses,
  isAllowed: (address: string) => boolean,
): Egress {
  const publicOnly = createEgress(clock, resolve, []);
  return async (origin) => {
    const name = origin.hostname.replace(/^\[|\]$/g, "");
    const addresses = isIP(name) === 0 ? await addressesOf(clock, name, resolve) : [name];
    if (addresses.length > 0 && addresses.every(isAllowed)) return addresses.map(dialled);
    return publicOnly(origin);
  };
}

const dialled = (address: string): DialledAddress => ({
  address,
  family: parseAddress(address)?.length === 4 ? 4 : 6,
});

/**
 * Lets a registry lead only to public hosts over https, and to those that `allow` names (`name` or `name:port`, as
 * the operator wrote them) whatever they are. The addresses that were judged are the ones that are dialled.
 */
export function createEgress(clock: Clock, resolve: ResolveAddresses, allow: readonly string[]): Egress {
  return async (origin) => {
    if (allow.includes(origin.host)) return null;
    if (origin.protocol !== "https:") throw new EgressBlocked(`${origin.host} is not reached over https`);
    const problem = hostProblem(origin.host);
    if (problem !== null) throw new EgressBlocked(problem);
    const addresses = await publicAddresses(clock, resolve, origin.hostname);
    if (addresses === "private") throw new EgressBlocked(`${origin.host} is not on the public internet`);
    return addresses.map(dialled);
  };
}
