import { baseImagePrefix } from "@svc/proto/cluster-registry";
import type { Image } from "../engine/engine.ts";
import { parseReference } from "../images/classify.ts";
import type { Job } from "./job.ts";

/**
 * What an image has of a base image in the cluster's registry becomes the project's there without being sent, and the
 * engine, which is about to push, finds it in place: packing and sending a base image again for each project would take
 * longer than most builds. Not being able to costs only that time.
 */
export async function shareBaseLayers(
  { engine, client, access, spec, signal, log }: Pick<Job, "engine" | "client" | "access" | "spec" | "signal" | "log">,
  image: Image,
): Promise<void> {
  const to = spec.targetRepository;
  try {
    const names = await engine.listImageNames(`${access.host}/${baseImagePrefix}`);
    const known = await Promise.all(
      names.map(async (name) => ({ name, layers: (await engine.findImage(name))?.layers ?? [] })),
    );
    const base = parseReference(baseOf(image.layers, known)?.name ?? "");
    if (base === null) return;
    const { manifest } = await client.getManifest(base.repository, base.digest, { signal });
    for (const { digest } of manifest.layers ?? []) {
      if (!(await client.hasBlob(to, digest, { signal })))
        await client.mountBlob(to, digest, base.repository, { signal });
    }
  } catch (cause) {
    signal.throwIfAborted();
    log.warn({ to, reason: String(cause) }, "the layers of a base image are sent again");
  }
}

/** The image that `layers` begin with; the one with the most layers when there are several. */
export function baseOf<T extends { layers: readonly string[] }>(
  layers: readonly string[],
  candidates: readonly T[],
): T | null {
  const bases = candidates.filter(
    (each) => each.layers.length > 0 && each.layers.every((layer, index) => layer === layers[index]),
  );
  return bases.toSorted((a, b) => b.layers.length - a.layers.length)[0] ?? null;
}
