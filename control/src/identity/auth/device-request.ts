import { z } from "zod";

/** What is known of who asks to be let in by the device flow. */
export interface DeviceRequest {
  /** As the program names its machine, unproven; null when it does not. */
  hostname: string | null;
  /** The address that the request came from, as we saw it. */
  address: string;
}

const stored = z.object({ hostname: z.string().nullable(), address: z.string() });
const hostnameScope = /^host:([A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)$/;

/**
 * The request in the form in which it is kept with its code: in the field `scope`, which the flow has no
 * other use for. A program says `host:<name>` there.
 */
export function describeDeviceRequest(scope: unknown, address: string): string {
  const hostname = typeof scope === "string" ? (hostnameScope.exec(scope)?.[1] ?? null) : null;
  return JSON.stringify({ hostname, address } satisfies DeviceRequest);
}

/** The request that was kept; null when it was not written by `describeDeviceRequest`. */
export function readDeviceRequest(scope: unknown): DeviceRequest | null {
  if (typeof scope !== "string") return null;
  try {
    return stored.parse(JSON.parse(scope));
  } catch {
    return null;
  }
}

/** A user code as people type it: any case, with or without the hyphen. Null when it cannot be one. */
export function normaliseUserCode(text: string): string | null {
  const code = text.replaceAll(/[^A-Za-z0-9]/g, "").toUpperCase();
  return /^[A-Z2-9]{8}$/.test(code) ? code : null;
}

/** A user code in two halves, which is easier to compare. */
export const displayUserCode = (code: string): string => `${code.slice(0, 4)}-${code.slice(4)}`;
