import { createHash, createPrivateKey, randomBytes, X509Certificate } from "node:crypto";
import { chmod, mkdir, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Certificate, Certificates as CertificatesMessage } from "@svc/proto/edge";
import { readIfThere, syncDirectory, writeDurably } from "@svc/runtime/durable-file";
import { createLimiter } from "@svc/runtime/limiter";
import type { Log } from "../log.ts";
import { fileNameOf, isCertificateName, nameOfFile } from "./names.ts";
import { openServingFiles, type ServingFiles } from "./serving.ts";

/** The certificates that this edge shows, as control told them last. */
export interface Certificates {
  /** Puts a message into force, after those before it. On disk when it returns. What could not be taken over, or an empty text. */
  learn(message: CertificatesMessage): Promise<string>;
  /** Why some are not here that control told, by this machine's fault; null: all are. */
  problem(): string | null;
  /** When each of those that are shown ends. */
  ends(): Date[];
  /** Secret part of the address at which Caddy asks itself for certificates. Stays the same for as long as the disk does. */
  readonly path: string;
}

const writesAtOnce = 16;
const problemsTold = 5;
const pathPattern = /^[A-Za-z0-9_-]{43}$/;

/**
 * Reads what was told last and makes the directory that Caddy reads from it, so that visitors are served while control is
 * away, and after the machine was started anew.
 *
 * @param dir on disk, readable by this program only
 * @param servingDir in memory
 */
export async function openCertificates(dir: string, servingDir: string, log: Log): Promise<Certificates> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await chmod(dir, 0o700);
  const serving = openServingFiles(servingDir, { dir: 0o750, file: 0o640 });
  /** What is on disk and served, by name. */
  const { held, damaged } = await restore(dir, serving, log);
  /** Names whose certificate is not as control told it. */
  const unkept = new Set(damaged);
  const path = await secretPath(dir);
  const limit = createLimiter({ total: writesAtOnce });
  /** Names that were in parts of a whole set that is still coming. */
  let seen: Set<string> | null = null;
  let last: Promise<unknown> = Promise.resolve();

  async function put({ name, chain, privateKey }: Certificate): Promise<void> {
    const pem = `${chain.trim()}\n${privateKey.trim()}\n`;
    const known = heldOf(pem);
    if (held.get(name)?.digest === known.digest) return void unkept.delete(name);
    await writeDurably(join(dir, fileNameOf(name)), pem, { mode: 0o600 });
    serving.put(fileNameOf(name), pem);
    held.set(name, known);
    unkept.delete(name);
  }

  async function remove(name: string): Promise<void> {
    // First what visitors get: TLS for this name ends here.
    serving.remove(fileNameOf(name));
    held.delete(name);
    unkept.delete(name);
    await rm(join(dir, fileNameOf(name)), { force: true });
  }

  async function apply({ first, more, upserts, removedNames }: CertificatesMessage): Promise<string> {
    const problems: string[] = [];
    if (first) seen = new Set();
    const attempt = async (name: string, work: () => Promise<void>): Promise<void> => {
      try {
        await work();
      } catch (err) {
        log.error({ name, err }, "a certificate could not be kept");
        problems.push(`${name}: not kept`);
        unkept.add(name);
      }
    };
    const usable = upserts.filter((each) => {
      seen?.add(each.name);
      const problem = problemOf(each);
      if (problem === null) return true;
      log.error({ name: each.name, problem }, "control told a certificate that makes no sense");
      problems.push(`${each.name}: ${problem}`);
      return false;
    });
    await Promise.all(usable.map((each) => limit(() => attempt(each.name, () => put(each)))));
    const whole = more ? null : seen;
    const gone = whole === null ? [] : [...held.keys()].filter((name) => !whole.has(name));
    if (whole !== null) for (const name of [...unkept]) if (!whole.has(name)) unkept.delete(name);
    if (!more) seen = null;
    const leaving = [...removedNames.filter((name) => held.has(name)), ...gone];
    for (const name of removedNames) seen?.delete(name);
    for (const name of leaving) await attempt(name, () => remove(name));
    if (leaving.length > 0) await syncDirectory(dir);
    if (upserts.length + leaving.length > 0)
      log.info({ taken: upserts.length, removed: leaving.length, held: held.size }, "certificates of control");
    const untold = problems.length - problemsTold;
    return [...problems.slice(0, problemsTold), ...(untold > 0 ? [`and ${untold} more`] : [])].join("; ");
  }

  return {
    path,
    problem: () => (unkept.size === 0 ? null : `certificates of ${unkept.size} names could not be kept`),
    ends: () => [...held.values()].map(({ end }) => end),
    learn(message) {
      const applied = last.then(() => apply(message));
      last = applied.catch(() => {});
      return applied;
    },
  };
}

interface Held {
  /** Of chain and key. */
  digest: string;
  end: Date;
}

/** Of a chain and its key, in one text. */
const heldOf = (pem: string): Held => ({
  digest: createHash("sha256").update(pem).digest("hex"),
  end: new Date(new X509Certificate(pem).validTo),
});

/** Why a certificate is not served: what Caddy cannot read would end every handshake for the name. */
function problemOf({ name, chain, privateKey }: Certificate): string | null {
  if (!isCertificateName(name)) return "not a name";
  try {
    const leaf = new X509Certificate(chain);
    if (!leaf.checkPrivateKey(createPrivateKey(privateKey))) return "the key is another one's";
    return leaf.checkHost(name.replace(/^\*/, "a")) === undefined ? "it is for another name" : null;
  } catch {
    return "it cannot be read";
  }
}

/** What is on disk comes into force, and nothing else does. */
async function restore(
  dir: string,
  serving: ServingFiles,
  log: Log,
): Promise<{ held: Map<string, Held>; damaged: string[] }> {
  const held = new Map<string, Held>();
  const damaged: string[] = [];
  const limit = createLimiter({ total: writesAtOnce });
  const take = async (file: string): Promise<void> => {
    const path = join(dir, file);
    if (file.endsWith(".tmp")) return rm(path, { force: true });
    const name = nameOfFile(file);
    if (name === null) return;
    const pem = await readFile(path, "utf8");
    const at = pem.indexOf("-----BEGIN PRIVATE KEY-----");
    const problem =
      at < 0
        ? "it cannot be read"
        : problemOf({ name, chain: pem.slice(0, at), privateKey: pem.slice(at) } as Certificate);
    if (problem !== null) {
      log.error({ name, problem }, "a kept certificate is damaged: until control tells it, the name has none");
      damaged.push(name);
      return rename(path, `${path}${damagedEnding}`);
    }
    serving.put(file, pem);
    held.set(name, heldOf(pem));
  };
  await Promise.all((await readdir(dir)).map((file) => limit(() => take(file))));
  await removeOldDamage(dir);
  for (const file of serving.names()) if (!held.has(nameOfFile(file) ?? "")) serving.remove(file);
  return { held, damaged };
}

const damagedEnding = ".damaged";
/** For somebody to look at: more of them say no more. */
const damagedKept = 3;

/** Of what was found damaged the newest stay. They hold keys, and nobody else would ever remove them. */
async function removeOldDamage(dir: string): Promise<void> {
  const files = (await readdir(dir)).filter((file) => file.endsWith(damagedEnding));
  const times = await Promise.all(files.map(async (file) => ({ file, atMs: (await stat(join(dir, file))).ctimeMs })));
  // Of those that were put aside together, those that come last by name.
  const newest = times.sort((a, b) => b.atMs - a.atMs || (a.file < b.file ? 1 : -1));
  for (const { file } of newest.slice(damagedKept)) await rm(join(dir, file), { force: true });
}

/** Made once: another one would be another configuration of Caddy, and loading that cuts connections. */
async function secretPath(dir: string): Promise<string> {
  const path = join(dir, "path");
  const kept = (await readIfThere(path))?.trim() ?? "";
  if (pathPattern.test(kept)) return kept;
  const made = randomBytes(32).toString("base64url");
  await writeDurably(path, made, { mode: 0o600 });
  return made;
}
