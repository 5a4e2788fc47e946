import { mkdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import type { Gate } from "@svc/proto/edge";
import type { Clock, Timer } from "@svc/runtime/clock";
import { isFileError, writeDurably } from "@svc/runtime/durable-file";
import { z } from "zod";
import type { Log } from "../log.ts";
import { isRevision } from "../names.ts";
import type { GateFiles } from "./gate-files.ts";
import { dayOf, msUntilNextDay, validTokens } from "./token.ts";

/** What it takes to guard a site. */
export interface SiteGate {
  projectId: string;
  revision: string;
  /** Secret. */
  key: Uint8Array;
  /** bcrypt. */
  passwordHash: string;
}

/** The gates of password-protected sites: which there are, and which cookies open them. */
export interface Gates extends AsyncDisposable {
  /** Null while control has not told it: then nobody can pass. */
  find(revision: string): SiteGate | null;
  /** Control told these. On disk when it returns, and in force before. */
  learn(gates: readonly Gate[]): Promise<void>;
  /** Guards what routes name from now on; gates that none of them names are shut. */
  use(revisions: ReadonlySet<string>): void;
}

const stored = z.object({
  format: z.literal(1),
  gates: z.array(z.object({ projectId: z.string(), revision: z.string(), key: z.base64(), passwordHash: z.string() })),
});

const keyBytes = 32;
const bcryptHash = /^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$/;
const retryMs = 5_000;

/**
 * Reads what was told last, so that sites stay guarded and open to those who know the password while control is away.
 *
 * @param dir for the secrets, readable by this program only
 */
export async function openGates(clock: Clock, dir: string, files: GateFiles, log: Log): Promise<Gates> {
  const nowMs = (): number => clock.now().getTime();
  const path = join(dir, "gates.json");
  const known = await load(dir, path, log);
  let used: ReadonlySet<string> = new Set();
  /** Not named by any route when the day last changed: once more, and they go. */
  let idle: ReadonlySet<string> = new Set();
  let timer: Timer | undefined;
  let saving: Promise<void> = Promise.resolve();

  const save = (): Promise<void> => {
    const attempt = async () => {
      const gates = [...known.values()].map(({ key, ...gate }) => ({
        ...gate,
        key: Buffer.from(key).toString("base64"),
      }));
      await writeDurably(path, JSON.stringify({ format: 1, gates } satisfies z.infer<typeof stored>));
    };
    saving = saving
      .then(attempt)
      .catch((err: unknown) => log.error({ err }, "the passwords of sites could not be kept"));
    return saving;
  };

  /** Day whose cookies open the gate, by revision; of what an earlier process left, none is known. */
  const opened = new Map<string, number | null>(files.revisions().map((revision) => [revision, null]));

  /** Opens each gate in use to the cookies of these days. A gate without its secret stays shut. */
  function guard(): void {
    const day = dayOf(nowMs());
    try {
      for (const revision of used) {
        const gate = known.get(revision);
        if (gate === undefined || opened.get(revision) === day) continue;
        files.put(revision, validTokens(gate.key, day));
        opened.set(revision, day);
      }
      for (const revision of opened.keys()) {
        if (used.has(revision)) continue;
        files.remove(revision);
        opened.delete(revision);
      }
    } catch (err) {
      log.error({ err }, "the table of cookies could not be written");
      timer?.[Symbol.dispose]();
      timer = clock.after(retryMs, newDay);
    }
  }

  function newDay(): void {
    timer?.[Symbol.dispose]();
    timer = clock.after(msUntilNextDay(nowMs()) + 100, () => {
      forgetIdle();
      newDay();
    });
    guard();
  }

  function forgetIdle(): void {
    const unused = [...known.keys()].filter((revision) => !used.has(revision));
    const gone = unused.filter((revision) => idle.has(revision));
    idle = new Set(unused);
    for (const revision of gone) known.delete(revision);
    if (gone.length > 0) void save();
  }

  return {
    find(revision) {
      // Right after midnight: whoever logs in before the timer gets a cookie of the new day.
      if (used.has(revision) && opened.get(revision) !== dayOf(nowMs())) guard();
      return known.get(revision) ?? null;
    },
    async learn(gates) {
      let changed = false;
      for (const { projectId, revision, key, passwordHash } of gates) {
        if (!isRevision(revision) || key.length !== keyBytes || !bcryptHash.test(passwordHash)) {
          log.error({ projectId }, "control told a password that makes no sense: the site stays shut");
          continue;
        }
        const before = known.get(revision);
        if (before?.projectId === projectId && before.passwordHash === passwordHash) continue;
        known.set(revision, { projectId, revision, key, passwordHash });
        if (opened.has(revision)) opened.set(revision, null);
        changed = true;
      }
      if (!changed) return;
      if (used.size > 0) guard();
      await save();
    },
    use(revisions) {
      used = new Set(revisions);
      if (timer === undefined) newDay();
      else guard();
    },
    async [Symbol.asyncDispose]() {
      timer?.[Symbol.dispose]();
      await saving;
    },
  };
}

async function load(dir: string, path: string, log: Log): Promise<Map<string, SiteGate>> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  try {
    const { gates } = stored.parse(JSON.parse(await readFile(path, "utf8")));
    return new Map(gates.map((gate) => [gate.revision, { ...gate, key: Buffer.from(gate.key, "base64") }]));
  } catch (err) {
    if (!isFileError(err, "ENOENT")) {
      log.error({ path, err }, "the kept passwords of sites are damaged: until control tells them, nobody passes");
      await rename(path, `${path}.damaged`);
    }
    return new Map();
  }
}
