/**
 * Which addresses and host names the platform may contact for somebody else (registries, webhooks).
 * The address that is dialled has to be the one that was judged here.
 */

interface Range {
  bytes: readonly number[];
  bits: number;
}

const v4 = (address: string, bits: number): Range => ({ bytes: address.split(".").map(Number), bits });
const v6 = (address: string, bits: number): Range => ({ bytes: parseV6(address) ?? [], bits });

// IANA special-purpose registries, multicast, reserved space, and cloud metadata services on public-looking addresses.
const blockedV4: readonly Range[] = [
  v4("0.0.0.0", 8),
  v4("10.0.0.0", 8),
  v4("100.64.0.0", 10),
  v4("127.0.0.0", 8),
  v4("168.63.129.16", 32),
  v4("169.254.0.0", 16),
  v4("172.16.0.0", 12),
  v4("192.0.0.0", 24),
  v4("192.0.2.0", 24),
  v4("192.31.196.0", 24),
  v4("192.52.193.0", 24),
  v4("192.88.99.0", 24),
  v4("192.168.0.0", 16),
  v4("192.175.48.0", 24),
  v4("198.18.0.0", 15),
  v4("198.51.100.0", 24),
  v4("203.0.113.0", 24),
  v4("224.0.0.0", 3),
];
const globalUnicast = v6("2000::", 3);
// Protocol assignments (Teredo among them), documentation, 6to4.
const blockedV6: readonly Range[] = [v6("2001::", 23), v6("2001:db8::", 32), v6("2002::", 16), v6("3fff::", 20)];
const v4Mapped = v6("::ffff:0:0", 96);
const nat64 = v6("64:ff9b::", 96);

const within = (bytes: readonly number[], range: Range): boolean =>
  range.bytes.length === bytes.length &&
  range.bytes.every((byte, at) => {
    const bits = Math.min(8, Math.max(0, range.bits - at * 8));
    const mask = (0xff << (8 - bits)) & 0xff;
    return ((bytes[at] ?? 0) & mask) === (byte & mask);
  });

/** Four or sixteen bytes of an IP address in its usual spelling; null for anything else (octal, hex, zone ids, brackets). */
export const parseAddress = (text: string): number[] | null => parseV4(text) ?? parseV6(text);

/** Whether `address` is on the public internet. False for whatever is not an address at all. */
export function isPublicAddress(address: string): boolean {
  const bytes = parseAddress(address);
  if (bytes === null) return false;
  if (bytes.length === 4) return isPublicV4(bytes);
  if (within(bytes, v4Mapped) || within(bytes, nat64)) return isPublicV4(bytes.slice(12));
  return within(bytes, globalUnicast) && !blockedV6.some((range) => within(bytes, range));
}

const isPublicV4 = (bytes: readonly number[]): boolean => !blockedV4.some((range) => within(bytes, range));

function parseV4(text: string): number[] | null {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part))) return null;
  const bytes = parts.map(Number);
  return bytes.every((byte) => byte <= 255) ? bytes : null;
}

function parseV6(text: string): number[] | null {
  if (!/^[0-9a-fA-F:.]{2,45}$/.test(text)) return null;
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const [left = null, right = []] = halves.map((half) => (half === "" ? [] : groups(half.split(":"))));
  if (left === null || right === null) return null;
  const missing = 16 - left.length - right.length;
  if (halves.length === 1) return missing === 0 ? left : null;
  // "::" stands for at least one group of zeros.
  return missing >= 2 ? [...left, ...new Array<number>(missing).fill(0), ...right] : null;
}

/** Bytes of colon-separated groups, the last of which may be dotted; null when one is malformed. */
function groups(parts: readonly string[]): number[] | null {
  const bytes: number[] = [];
  for (const [at, part] of parts.entries()) {
    const dotted = at === parts.length - 1 ? parseV4(part) : null;
    if (dotted !== null) bytes.push(...dotted);
    else if (/^[0-9a-fA-F]{1,4}$/.test(part)) {
      const group = Number.parseInt(part, 16);
      bytes.push(group >> 8, group & 0xff);
    } else return null;
  }
  return bytes;
}

const privateSuffixes = [
  "local",
  "internal",
  "localhost",
  "home.arpa",
  "localdomain",
  "lan",
  "intranet",
  "onion",
] as const;
const publicPorts: readonly number[] = [443, 5000, 5050, 8443];

/**
 * Why the platform will not contact `host`, all of it (`name` or `name:port`, lower case); null when its name is fine.
 * `allowList` holds exact `name` or `name:port` entries of private registries that the operator trusts.
 * A fine name is not enough: every address it resolves to has to pass `isPublicAddress`, unless allowed here.
 */
export function hostProblem(host: string, allowList: readonly string[] = []): string | null {
  if (allowList.includes(host)) return null;
  const match = /^([a-z0-9.-]+)(?::([0-9]{1,5}))?$/.exec(host);
  if (match === null) return `"${host}" is not a host name.`;
  const [, name = "", port] = match;
  const badPort =
    port === undefined || publicPorts.includes(Number(port))
      ? null
      : `Port ${port} is not allowed: ${publicPorts.slice(0, -1).join(", ")} and ${publicPorts.at(-1)} are.`;
  const badName = nameProblem(name);
  return badPort === null ? badName : [badPort, ...(badName === null ? [] : [badName])].join(" ");
}

function nameProblem(name: string): string | null {
  const labels = name.split(".");
  if (name.length > 253 || !labels.every((label) => /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(label)))
    return `"${name}" is not a host name.`;
  // A resolver reads all-digit and 0x… last labels as an address, in several spellings.
  if (/^([0-9]+|0x[0-9a-f]*)$/.test(labels.at(-1) ?? "")) return "Write a host name, not an IP address.";
  if (labels.length < 2) return `"${name}" is not a public host name.`;
  if (privateSuffixes.some((suffix) => name === suffix || name.endsWith(`.${suffix}`)))
    return `"${name}" is not a public host name.`;
  return null;
}

/** As in an address of the web: brackets around an IPv6 address, which has colons of its own. */
export const hostAndPort = (host: string, port: number): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;
