// @pure
import { BlockList, isIP } from "node:net";

/** A set of addresses and networks in CIDR notation, also such as are written in another way. */
export function addressSet(entries: readonly string[]): (address: string) => boolean {
  const set = new BlockList();
  for (const entry of entries) {
    const [address = "", bits] = entry.split("/");
    const family = familyOf(address);
    if (family === null) continue;
    if (bits === undefined) set.addAddress(address, family);
    else set.addSubnet(address, Number(bits), family);
  }
  return (address) => {
    const family = familyOf(address);
    return family !== null && set.check(address, family);
  };
}

const familyOf = (address: string): "ipv4" | "ipv6" | null => {
  const version = isIP(address);
  if (version === 0) return null;
  return version === 4 ? "ipv4" : "ipv6";
};
