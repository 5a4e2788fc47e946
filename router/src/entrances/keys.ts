import { createHash } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";
import type { Identity } from "@svc/uplink";
import type { EntranceFiles } from "../render/entrance-tls.ts";

type Shown = Pick<Identity, "certificatePem" | "privateKeyPem" | "caPem">;

/** What this edge shows at entrances of nodes, in files of its own for each certificate: Caddy reads a file once. */
export interface EntranceKeys {
  /** Null before this edge has ever joined a cluster. */
  current(): EntranceFiles | null;
  /** From the next configuration of Caddy on. On disk when it returns. */
  use(identity: Shown): Promise<void>;
  /** Caddy has a configuration that names these files, or none: others are not needed any more. */
  settle(inForce: EntranceFiles | null): Promise<void>;
}

const currentName = "current";
const setPattern = /^[0-9a-f]{16}$/;

/**
 * @param dir on disk: a Caddy that starts before the router, with the configuration that it had, has to find the files. Its
 * group is Caddy's
 */
export async function openEntranceKeys(dir: string): Promise<EntranceKeys> {
  await mkdir(dir, { recursive: true, mode: 0o750 });
  const kept = (await readIfThere(join(dir, currentName)))?.trim() ?? "";
  let current = setPattern.test(kept) ? filesOf(dir, kept) : null;
  let last: Promise<unknown> = Promise.resolve();
  /** One after the other: what is being written is nobody's yet, and would be removed. */
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  };
  return {
    current: () => current,
    use: ({ certificatePem, privateKeyPem, caPem }) =>
      inTurn(async () => {
        const set = createHash("sha256")
          .update([certificatePem, privateKeyPem, caPem].join())
          .digest("hex")
          .slice(0, 16);
        const files = filesOf(dir, set);
        await mkdir(join(dir, set), { recursive: true, mode: 0o750 });
        await writeDurably(files.certificate, certificatePem, { mode: 0o640 });
        await writeDurably(files.key, privateKeyPem, { mode: 0o640 });
        await writeDurably(files.ca, caPem, { mode: 0o640 });
        await writeDurably(join(dir, currentName), `${set}\n`, { mode: 0o640 });
        current = files;
      }),
    settle: (inForce) =>
      inTurn(async () => {
        // Another one may have come while Caddy was told of this one.
        if (inForce !== current) return;
        for (const name of await readdir(dir)) {
          const isOther = setPattern.test(name) && filesOf(dir, name).key !== inForce?.key;
          if (isOther) await rm(join(dir, name), { recursive: true, force: true });
        }
      }),
  };
}

const filesOf = (dir: string, set: string): EntranceFiles => ({
  certificate: join(dir, set, "certificate.pem"),
  key: join(dir, set, "key.pem"),
  ca: join(dir, set, "ca.pem"),
});
