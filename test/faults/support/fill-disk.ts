import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Machine } from "./machine.ts";

const piece = Buffer.alloc(1024 ** 2);

/** Fills the disk of a machine to the last byte; that of its own, which `diskMb` gave it. Resolves with what makes room again. */
export async function fillDisk({ engine, disk }: Machine): Promise<() => Promise<void>> {
  if (engine === null) throw new Error("the machine is off");
  // As the machine sees it: its disk is mounted nowhere else.
  const path = join(`/proc/${engine.pid}/root`, disk, "filler");
  const file = await open(path, "wx");
  try {
    for (let size = piece.length; size >= 1; ) {
      // What fits in is written before an error tells that no more does.
      const isFull = await file.write(piece, 0, size).then(
        ({ bytesWritten }) => bytesWritten === 0,
        (error: NodeJS.ErrnoException) => {
          if (error.code === "ENOSPC") return true;
          throw error;
        },
      );
      if (isFull) size = Math.floor(size / 2);
    }
  } finally {
    await file.close();
  }
  return () => rm(path);
}
