// @pure

const signature = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const headerAt = 12;
const endBytes = 12;

/** Width and height of a PNG that begins and ends as one does; null for anything else. */
export function sizeOfPng(bytes: Buffer): { width: number; height: number } | null {
  if (bytes.byteLength < headerAt + 21 + endBytes) return null;
  if (!signature.every((byte, at) => bytes[at] === byte)) return null;
  if (bytes.toString("latin1", headerAt, headerAt + 4) !== "IHDR") return null;
  if (bytes.toString("latin1", bytes.byteLength - 8, bytes.byteLength - 4) !== "IEND") return null;
  return { width: bytes.readUInt32BE(headerAt + 4), height: bytes.readUInt32BE(headerAt + 8) };
}
