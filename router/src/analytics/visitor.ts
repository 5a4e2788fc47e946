import { hash } from "node:crypto";
import { isIPv4, isIPv6 } from "node:net";

const keyHexDigits = 16;

/**
 * What tells a visitor of a project apart from others on the day of the salt, and is of no use without that, nor on
 * another day, nor for another project.
 */
export function visitorKey(salt: string, projectId: string, address: string, userAgent: string): string {
  const text = [salt, projectId, householdOf(address), userAgent].join("\0");
  return hash("sha256", text, "hex").slice(0, keyHexDigits);
}

/** Of an IPv6 address only the network: a machine takes another address in it whenever it likes. */
export function householdOf(address: string): string {
  if (!isIPv6(address)) return address;
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1];
  if (mapped !== undefined && isIPv4(mapped)) return mapped;
  const [head = "", tail] = address.toLowerCase().split("%")[0]?.split("::") ?? [];
  const groups = (text: string | undefined) => (text === undefined || text === "" ? [] : text.split(":"));
  const [before, after] = [groups(head), groups(tail)];
  const between = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const all = [...before, ...new Array<string>(between).fill("0"), ...after];
  return all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}
