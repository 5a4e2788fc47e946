import { setFlagsFromString } from "node:v8";

/**
 * How much larger than what was in use after a collection the heap may become before the next, in percent. V8 lets a heap
 * of this size double and more, and gives back little afterwards: what one burst made stays resident for good.
 */
const growingPercent = 20;

/**
 * Small buffers share slabs of this size, and one that lives keeps its whole slab: TLS copies three bytes for each
 * connection, and of Node's own slabs of 64 KB only some four connections shared one.
 */
const slabBytes = 2_048;

/** Makes a process small that holds thousands of connections for days. See docs/scale.md for what each of them saves. */
export function spareMemory(): void {
  Buffer.poolSize = slabBytes;
  setFlagsFromString(`--heap-growing-percent=${growingPercent}`);
}
