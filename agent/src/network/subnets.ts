/** A network of 13 containers: what one project and channel may use on one node. */
const prefixLength = 28;
const subnetSize = 2 ** (32 - prefixLength);

interface Block {
  first: number;
  last: number;
}

/**
 * A /28 of `pool` that overlaps nothing in `taken`, looked for from position `start` on (wrapping), so that
 * agents which share an engine begin at different places. Null when the pool is used up.
 *
 * @param taken subnets of every network of the engine; what is not IPv4 is ignored
 */
export function freeSubnet(
  pool: string,
  taken: readonly string[],
  start: number,
): { subnet: string; gateway: string } | null {
  const whole = parseBlock(pool);
  if (whole === null) return null;
  const used = taken.map(parseBlock).filter((block) => block !== null);
  const count = Math.floor((whole.last - whole.first + 1) / subnetSize);
  for (let step = 0; step < count; step += 1) {
    const first = whole.first + ((start + step) % count) * subnetSize;
    const block = { first, last: first + subnetSize - 1 };
    if (used.every((other) => !overlap(block, other))) {
      return { subnet: `${formatAddress(first)}/${prefixLength}`, gateway: formatAddress(first + 1) };
    }
  }
  return null;
}

function parseBlock(text: string): Block | null {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\/(\d{1,2})$/.exec(text);
  if (match === null) return null;
  const [a = 0, b = 0, c = 0, d = 0, bits = 0] = match.slice(1).map(Number);
  if ([a, b, c, d].some((octet) => octet > 255) || bits > 32) return null;
  const size = 2 ** (32 - bits);
  const address = a * 2 ** 24 + b * 2 ** 16 + c * 2 ** 8 + d;
  const first = address - (address % size);
  return { first, last: first + size - 1 };
}

const overlap = (a: Block, b: Block): boolean => a.first <= b.last && b.first <= a.last;

const formatAddress = (address: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join(".");
