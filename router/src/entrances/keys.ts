import { createHash, X509Certificate } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";
import type { Identity } from "@svc/uplink";
import type { EntranceFiles } from "../render/entrance-tls.ts";
import { type ShownCertificate, takesOver } from "./rules.ts";

type Shown = Pick<Identity, "certificatePem" | "privateKeyPem" | "caPem">;

/** What this edge shows at entrances of nodes, in files of its own for each certificate: Caddy reads a file once. */
export interface EntranceKeys {
  /** What is to be shown now. Null while no route ever led to an entrance, and before this edge has ever joined a cluster. */
  current(): EntranceFiles | null;
  /** Routes lead to entrances from now on, also for a later life of this router. On disk when it returns. */
  need(): Promise<void>;
  /** Shown from the next configuration of Caddy on, or once the one before is nearly over. On disk when it returns. */
  use(identity: Shown): Promise<void>;
  /** Caddy has a configuration that names these files, or none: others are not needed any more. */
  settle(inForce: EntranceFiles | null): Promise<void>;
}

interface KeySet {
  name: string;
  files: EntranceFiles;
  certificate: ShownCertificate;
}

const [currentName, neededName] = ["current", "needed"];
const setPattern = /^[0-9a-f]{16}$/;
const mode = 0o640;

/**
 * @param dir on disk: a Caddy that starts before the router, with the configuration that it had, has to find the files. Its
 * group is Caddy's
 */
export async function openEntranceKeys(clock: Clock, dir: string): Promise<EntranceKeys> {
  await mkdir(dir, { recursive: true, mode: 0o750 });
  const markOf = (name: string) => join(dir, name);
  let shown = await readSet(dir, (await readIfThere(markOf(currentName)))?.trim() ?? "");
  let given = shown;
  let isNeeded = (await readIfThere(markOf(neededName))) !== null;

  const current = (): KeySet | null => {
    if (!isNeeded) return null;
    if (given !== null && takesOver(shown?.certificate ?? null, given.certificate, clock.now().getTime()))
      shown = given;
    return shown;
  };
  /** Remembers what is shown, and removes what neither is nor will be. */
  const keepShown = async (): Promise<void> => {
    if (shown !== null) await writeDurably(markOf(currentName), `${shown.name}\n`, { mode });
    const kept = new Set([shown?.name, given?.name]);
    for (const name of await readdir(dir)) {
      if (setPattern.test(name) && !kept.has(name)) await rm(join(dir, name), { recursive: true, force: true });
    }
  };
  let last: Promise<unknown> = Promise.resolve();
  /** One after the other: what is being written is nobody's yet, and would be removed. */
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  };
  return {
    current: () => current()?.files ?? null,
    async need() {
      if (isNeeded) return;
      await writeDurably(markOf(neededName), "\n", { mode });
      isNeeded = true;
    },
    use: ({ certificatePem, privateKeyPem, caPem }) =>
      inTurn(async () => {
        const name = createHash("sha256")
          .update([certificatePem, privateKeyPem, caPem].join())
          .digest("hex")
          .slice(0, 16);
        if (name === given?.name) return;
        const files = filesOf(dir, name);
        await mkdir(join(dir, name), { recursive: true, mode: 0o750 });
        await writeDurably(files.certificate, certificatePem, { mode });
        await writeDurably(files.key, privateKeyPem, { mode });
        await writeDurably(files.ca, caPem, { mode });
        given = { name, files, certificate: certificateOf(certificatePem, caPem) };
        if (isNeeded) return;
        // Caddy has none of those before.
        shown = given;
        await keepShown();
      }),
    settle: (inForce) =>
      inTurn(async () => {
        // Another one may have come while Caddy was told of this one.
        if (inForce?.key !== current()?.files.key) return;
        await keepShown();
      }),
  };
}

/** Null for one that is not whole. */
async function readSet(dir: string, name: string): Promise<KeySet | null> {
  if (!setPattern.test(name)) return null;
  const files = filesOf(dir, name);
  const [certificatePem, caPem] = await Promise.all([readIfThere(files.certificate), readIfThere(files.ca)]);
  if (certificatePem === null || caPem === null) return null;
  return { name, files, certificate: certificateOf(certificatePem, caPem) };
}

function certificateOf(certificatePem: string, caPem: string): ShownCertificate {
  const { subjectAltName = "", validFrom, validTo } = new X509Certificate(certificatePem);
  return { subject: subjectAltName, fromMs: Date.parse(validFrom), untilMs: Date.parse(validTo), caPem };
}

const filesOf = (dir: string, set: string): EntranceFiles => ({
  certificate: join(dir, set, "certificate.pem"),
  key: join(dir, set, "key.pem"),
  ca: join(dir, set, "ca.pem"),
});
