import { isIPv6 } from "node:net";

/**
 * What counts as one client: an IPv4 address, or the /64 of an IPv6 address, of which anybody has 2^64 and may use a
 * new one for each request. An IPv4 address in the clothes of an IPv6 one is the former.
 */
export function addressGroup(address: string): string {
  return groupOf(address, 64);
}

/**
 * The /48 of an IPv6 address, which is what one customer of a network easily has: 65536 of the above. Null for an IPv4
 * address.
 */
export function addressSite(address: string): string | null {
  const site = groupOf(address, 48);
  return site.includes("/") ? site : null;
}

/** The network that the client is in: 24 bits of IPv4, 48 of IPv6. What is no address is a network of its own. */
export const addressNetwork = (address: string): string =>
  addressSite(address) ?? addressGroup(address).replace(/^(\d+\.\d+\.\d+)\.\d+$/, "$1.0/24");

function groupOf(address: string, bits: 48 | 64): string {
  const plain = address.split("%", 1)[0] ?? address;
  if (!isIPv6(plain)) return plain;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(plain)?.[1];
  if (mapped !== undefined) return mapped;
  const groups = expanded(plain);
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    const [high = 0, low = 0] = groups.slice(6);
    return [high >> 8, high & 255, low >> 8, low & 255].join(".");
  }
  return `${groups
    .slice(0, bits / 16)
    .map((group) => group.toString(16))
    .join(":")}::/${bits}`;
}

/** The eight groups of an IPv6 address; one that ends in IPv4 notation has its last two left at zero. */
function expanded(address: string): number[] {
  const [left = "", right] = address.split("::");
  const groups = (half: string) => half.split(":").filter((group) => group !== "" && !group.includes("."));
  const head = groups(left);
  const tail = right === undefined ? [] : groups(right);
  const zeros = Math.max(0, 8 - head.length - tail.length);
  return [...head, ...Array.from({ length: right === undefined ? 0 : zeros }, () => "0"), ...tail].map((group) =>
    Number.parseInt(group, 16),
  );
}
