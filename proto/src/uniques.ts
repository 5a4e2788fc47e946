// @pure
/**
 * How many different keys there were, nearly: a HyperLogLog of 4,096 registers, which is wrong by 1.6 % on average. Up to
 * `exactMax` keys are kept as they are, so that few are counted exactly. Two of them unite without loss, in any order and as
 * often as one likes.
 */
export interface Uniques {
  /** Keys in hex, as long as there are few. Null: there are `registers`. */
  keys: Set<string> | null;
  registers: Uint8Array | null;
}

const indexBits = 12;
const registerCount = 2 ** indexBits;
const keyBytes = 8;
/** Of the bits after the index, the longest run of zeros at their beginning, and the one after it. */
const rankMax = 64 - indexBits + 1;
const exactMax = 256;
/** First byte of the encoding. */
const format = { keys: 1, registers: 2 } as const;

export const noUniques = (): Uniques => ({ keys: new Set(), registers: null });

/** @param key the first 8 bytes of a hash, in hex */
export function addUnique(uniques: Uniques, key: string): void {
  if (uniques.keys === null) {
    raise(registersOf(uniques), key);
    return;
  }
  uniques.keys.add(key);
  if (uniques.keys.size > exactMax) densify(uniques);
}

/** Adds the keys of `more`, which stays as it is. */
export function unite(uniques: Uniques, more: Uniques): void {
  if (more.keys !== null) {
    for (const key of more.keys) addUnique(uniques, key);
    return;
  }
  densify(uniques);
  const registers = registersOf(uniques);
  for (const [index, rank] of registersOf(more).entries()) if (rank > at(registers, index)) registers[index] = rank;
}

/** By Ertl's improved estimator, which needs no table of corrections. */
export function countUniques({ keys, registers }: Uniques): number {
  if (keys !== null || registers === null) return keys?.size ?? 0;
  const times = new Array<number>(rankMax + 1).fill(0);
  for (const rank of registers) times[rank] = at(times, rank) + 1;
  let sum = registerCount * tau(1 - at(times, rankMax) / registerCount);
  for (let rank = rankMax - 1; rank >= 1; rank -= 1) sum = (sum + at(times, rank)) / 2;
  sum += registerCount * sigma(at(times, 0) / registerCount);
  return Math.round(registerCount ** 2 / (2 * Math.LN2) / sum);
}

export function encodeUniques({ keys, registers }: Uniques): Uint8Array {
  if (keys === null) return Buffer.concat([Buffer.of(format.registers), registers ?? new Uint8Array(registerCount)]);
  return Buffer.concat([Buffer.of(format.keys), Buffer.from([...keys].sort().join(""), "hex")]);
}

/** Null for what nobody encoded. */
export function decodeUniques(bytes: Uint8Array): Uniques | null {
  const body = bytes.subarray(1);
  if (bytes[0] === format.registers) {
    if (body.length !== registerCount || body.some((rank) => rank > rankMax)) return null;
    return { keys: null, registers: Uint8Array.from(body) };
  }
  if (bytes[0] !== format.keys || body.length % keyBytes !== 0 || body.length > exactMax * keyBytes) return null;
  const text = Buffer.from(body).toString("hex");
  return { keys: new Set(text.match(/.{16}/g)), registers: null };
}

function densify(uniques: Uniques): void {
  if (uniques.keys === null) return;
  const { keys } = uniques;
  uniques.keys = null;
  uniques.registers = new Uint8Array(registerCount);
  for (const key of keys) raise(uniques.registers, key);
}

function raise(registers: Uint8Array, key: string): void {
  const index = Number.parseInt(key.slice(0, 3), 16);
  // 20 bits, then 32.
  const [high, low] = [Number.parseInt(key.slice(3, 8), 16), Number.parseInt(key.slice(8, 16), 16)];
  const zeros = high !== 0 ? Math.clz32(high) - 12 : 20 + Math.clz32(low);
  if (zeros + 1 > at(registers, index)) registers[index] = zeros + 1;
}

function sigma(empty: number): number {
  if (empty === 1) return Number.POSITIVE_INFINITY;
  let [x, y, z] = [empty, 1, empty];
  for (let before = -1; z !== before; y += y) {
    x *= x;
    before = z;
    z += x * y;
  }
  return z;
}

function tau(full: number): number {
  if (full === 0 || full === 1) return 0;
  let [x, y, z] = [full, 1, 1 - full];
  for (let before = -1; z !== before; ) {
    x = Math.sqrt(x);
    before = z;
    y /= 2;
    z -= (1 - x) ** 2 * y;
  }
  return z / 3;
}

const at = (numbers: ArrayLike<number>, index: number): number => numbers[index] ?? 0;

const registersOf = ({ registers }: Uniques): Uint8Array => registers ?? new Uint8Array(registerCount);
