import { readFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";

/**
 * The directory that takes what is written, for each mount point with a writable layer of its own, as
 * `/proc/<pid>/mountinfo` has them. Of two mounts at one point the later covers the earlier.
 */
export function writableLayers(mountinfo: string): Map<string, string> {
  const layers = new Map<string, string>();
  for (const line of mountinfo.split("\n")) {
    const [head = "", tail] = line.split(" - ");
    if (tail === undefined) continue;
    const point = unescaped(head.split(" ")[4] ?? "");
    const [type, , options = ""] = tail.split(" ");
    const upper = type === "overlay" ? /(?:^|,)upperdir=([^,]+)/.exec(options)?.[1] : undefined;
    if (upper === undefined) layers.delete(point);
    else layers.set(point, unescaped(upper));
  }
  return layers;
}

/**
 * A layer as it is to be found. The engine names it from its own directory when it has so many layers below it that the
 * whole names do not fit into one call of the kernel.
 */
export const layerDirectory = (layer: string, engineDir: string): string =>
  isAbsolute(layer) ? layer : join(engineDir, "overlay2", layer);

/** Where a process's root is written to; null when that is no layer of its own, or the process is gone. */
export async function layerOfProcess(pid: number, engineDir: string): Promise<string | null> {
  const layer = writableLayers(await readMounts(pid)).get("/");
  return layer === undefined ? null : layerDirectory(layer, engineDir);
}

/** Those that this process sees, or another one does; empty when it is gone. */
export const readMounts = (pid: number | "self"): Promise<string> =>
  readFile(`/proc/${pid}/mountinfo`, "utf8").catch(() => "");

/** The kernel writes white space and backslashes in octal. */
const unescaped = (text: string): string =>
  text.replaceAll(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
