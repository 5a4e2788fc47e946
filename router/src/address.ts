// @pure
import { isIPv4, isIPv6 } from "node:net";

/** Where a visitor comes from. What is no address stays as it is. */
export type Origin =
  | { kind: "IPv4"; text: string }
  | { kind: "IPv6"; groups: string[] }
  | { kind: "unknown"; text: string };

/** Reads an address: an IPv4 one that is written as IPv6 is one of IPv4, and an IPv6 one has eight groups in their shortest form. */
export function readAddress(address: string): Origin {
  const text = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address;
  if (isIPv4(text)) return { kind: "IPv4", text };
  if (!isIPv6(text)) return { kind: "unknown", text };
  const [head = "", tail] = text.split("%")[0]?.split("::") ?? [];
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const all = [...before, ...Array.from({ length: zeros }, () => "0"), ...after];
  return { kind: "IPv6", groups: all.map((group) => Number.parseInt(group, 16).toString(16)) };
}
