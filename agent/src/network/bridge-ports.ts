import { access, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Where the kernel shows network interfaces. */
const interfacesDir = "/sys/class/net";

/**
 * Keeps everything that is plugged into a bridge at this moment apart: from then on no frame, of whatever protocol, goes
 * from one of its ports to another, but to the host and from there only. Fine when a port goes meanwhile. Throws where
 * there is no such bridge or a port cannot be kept apart, which needs a kernel from 4.18 on.
 */
export async function isolatePorts(bridge: string): Promise<void> {
  const directory = join(interfacesDir, bridge, "brif");
  for (const port of await readdir(directory)) {
    const file = join(directory, port, "isolated");
    try {
      if ((await readFile(file, "utf8")).trim() !== "1") await writeFile(file, "1", { flag: "r+" });
    } catch (cause) {
      if (await isThere(join(directory, port))) throw cause;
    }
  }
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
