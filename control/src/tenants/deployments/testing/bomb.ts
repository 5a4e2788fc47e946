import { constants, deflateRawSync } from "node:zlib";

/** Data that can stand anywhere in a compressed stream. */
const piece = (content: Uint8Array): Buffer =>
  deflateRawSync(content, { finishFlush: constants.Z_FULL_FLUSH, level: 9 });

const begin = Buffer.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3);

/** A gzip file that inflates to `headers`, each followed by `zeros` bytes of zeros, and then breaks off. */
export function aBomb(headers: readonly Uint8Array[], zeros: number): Buffer {
  const block = 64 * 1024 * 1024;
  const whole = zeros < block ? Buffer.alloc(0) : piece(Buffer.alloc(block));
  const rest = piece(Buffer.alloc(zeros % block));
  const filling = [...Array<Buffer>(Math.floor(zeros / block)).fill(whole), rest];
  return Buffer.concat([begin, ...headers.flatMap((header) => [piece(header), ...filling])]);
}
