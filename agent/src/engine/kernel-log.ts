import { constants } from "node:fs";
import { open } from "node:fs/promises";

const kernelLog = "/dev/kmsg";
/** Longer than any record; each read brings one. */
const recordMaxBytes = 16 * 1024;
/** More than a kernel keeps. */
const recordsMax = 100_000;

/** The records that the kernel keeps, oldest first; none where it does not show them to us. */
export async function readKernelLog(): Promise<string[]> {
  const records: string[] = [];
  try {
    // Without waiting for the next record after the last one.
    await using log = await open(kernelLog, constants.O_RDONLY | constants.O_NONBLOCK);
    const buffer = Buffer.alloc(recordMaxBytes);
    while (records.length < recordsMax) records.push(await readRecord(log, buffer));
  } catch {
    // The end, or nothing to see.
  }
  return records;
}

async function readRecord(log: { read(buffer: Buffer): Promise<{ bytesRead: number }> }, buffer: Buffer) {
  for (;;) {
    try {
      const { bytesRead } = await log.read(buffer);
      return buffer.toString("utf8", 0, bytesRead);
    } catch (cause) {
      // What was to be read next has made room for something newer.
      if ((cause as NodeJS.ErrnoException).code !== "EPIPE") throw cause;
    }
  }
}
