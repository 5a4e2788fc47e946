import { hash } from "node:crypto";
import { readAddress } from "../address.ts";

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
  const origin = readAddress(address);
  return origin.kind === "IPv6" ? origin.groups.slice(0, 4).join(":") : origin.text;
}
