import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { isFileError } from "@svc/runtime/durable-file";
import { type CopyStatus, readCopyStatus, statusMaxBytes } from "./status.ts";

/**
 * What a keeper told last of the copy in a volume; null when it told nothing that can be read. The keeper may put there what it
 * likes: no link is followed, nothing is waited for, and no more is read than a status has.
 *
 * @param directory of the volume, on this machine
 */
export async function findCopyStatus(directory: string): Promise<CopyStatus | null> {
  try {
    await using file = await open(
      join(directory, "status"),
      constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
    );
    if (!(await file.stat()).isFile()) return null;
    const { buffer, bytesRead } = await file.read(Buffer.alloc(statusMaxBytes + 1), 0, statusMaxBytes + 1, 0);
    return bytesRead > statusMaxBytes ? null : readCopyStatus(buffer.subarray(0, bytesRead).toString("utf8"));
  } catch (cause) {
    if (isFileError(cause, "ENOENT", "ELOOP", "ENXIO")) return null;
    throw cause;
  }
}
