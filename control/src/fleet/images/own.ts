import { normaliseRegistry, parseAddress } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { addressesOf, type ResolveAddresses } from "./resolve.ts";

/** Where the cluster's own registry is. */
export interface OwnRegistry {
  /** As image references name it. */
  host: string;
  /** As tenants reach it, who push images of their own; null: they do not. */
  publicHost: string | null;
  hostname: string;
  port: number;
}

/** @param url of the cluster's registry, as the settings have it */
export function ownRegistry(url: string, publicHost: string | null = null): OwnRegistry {
  const { host, protocol } = new URL(url);
  const written = host.replace(/\.(?=:|$)/, "");
  return { host: normaliseRegistry(written) ?? written, publicHost, ...placeOf(`${protocol}//${host}`) };
}

/**
 * Whether `registry`, a normalised host, is the cluster's own by its text. Loopback has many names, and they are all
 * this machine.
 */
export function isNamedOwn(registry: string, own: OwnRegistry): boolean {
  if (registry === own.host || registry === own.publicHost) return true;
  // An operator's list may hold what is no host at all.
  if (!URL.canParse(`https://${registry}`)) return false;
  const { hostname, port } = placeOf(`https://${registry}`);
  return port === own.port && isSameAddress(hostname, own.hostname);
}

/** Whether `registry` is the cluster's own under another name: at the same address and port. Throws what `resolve` throws. */
export async function leadsToOwn(
  clock: Clock,
  registry: string,
  own: OwnRegistry,
  resolve: ResolveAddresses,
): Promise<boolean> {
  if (isNamedOwn(registry, own)) return true;
  const { hostname, port } = placeOf(`https://${registry}`);
  if (port !== own.port) return false;
  const [theirs, ours] = await Promise.all([
    addressesOf(clock, hostname, resolve),
    addressesOf(clock, own.hostname, resolve),
  ]);
  return theirs.some((address) => ours.some((each) => isSameAddress(address, each)));
}

function placeOf(url: string): Pick<OwnRegistry, "hostname" | "port"> {
  const { protocol, hostname, port } = new URL(url);
  return {
    hostname: hostname.replace(/^\[|\]$|\.$/g, ""),
    port: port === "" ? (protocol === "http:" ? 80 : 443) : Number(port),
  };
}

const isSameAddress = (one: string, other: string): boolean => simplest(one) === simplest(other);

/** One spelling for all of loopback, as which the unspecified address is dialled too, and for what IPv6 has of IPv4. */
function simplest(address: string): string {
  if (/^(?:.+\.)?localhost$/.test(address)) return "loopback";
  const bytes = parseAddress(address);
  if (bytes === null) return address;
  const isMapped = bytes.length === 16 && bytes.slice(0, 12).join() === "0,0,0,0,0,0,0,0,0,0,255,255";
  const plain = isMapped ? bytes.slice(12) : bytes;
  const isHere =
    plain.length === 4 ? plain[0] === 127 || plain[0] === 0 : plain.slice(0, 15).every((byte) => byte === 0);
  return isHere ? "loopback" : plain.join(".");
}
