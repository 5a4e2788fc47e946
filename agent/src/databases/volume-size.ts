import { bytesBelow } from "../storage/written.ts";

/** Bytes that a database's volume takes on the disk, its log of changes included; 0 when it is gone. */
export const measureVolume = async (path: string): Promise<number> =>
  (await bytesBelow(path, Number.POSITIVE_INFINITY, "blocks")) ?? 0;
