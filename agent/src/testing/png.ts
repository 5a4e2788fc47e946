import { inflateSync } from "node:zlib";

/** Width, height, and red, green and blue of the pixel in the upper left: that one says what it is by every filter of PNG. */
export function lookAtPng(png: Buffer): { width: number; height: number; corner: number[] } {
  const data: Buffer[] = [];
  for (let at = 8; at < png.byteLength; at += 12 + png.readUInt32BE(at)) {
    if (png.toString("latin1", at + 4, at + 8) === "IDAT")
      data.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  const corner = [...inflateSync(Buffer.concat(data)).subarray(1, 4)];
  return { width: png.readUInt32BE(16), height: png.readUInt32BE(20), corner };
}
