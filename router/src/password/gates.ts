import { mkdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import type { Gate } from "@svc/proto/edge";
import type { Clock, Timer } from "@svc/runtime/clock";
import { isFileError, writeDurably } from "@svc/runtime/durable-file";
import { z } from "zod";
import type { Log } from "../log.ts";
import { isRevision, type Wicket, wicketName } from "../names.ts";
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
  /** How many gates routes name that control has not told. */
  missing(): number;
  /** Guards what routes name from now on; what none of them names is shut. */
  use(wickets: Iterable<Wicket>): void;
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
  /** By name. */
  let used: ReadonlyMap<string, Wicket> = new Map();
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

  /** Day whose cookies open the wicket, by its name; of what an earlier process left, none is known. */
  const opened = new Map<string, number | null>(files.wickets().map((name) => [name, null]));

  /** Opens each wicket in use to the cookies of these days. One whose gate has no secret here stays shut. */
  function guard(): void {
    const day = dayOf(nowMs());
    try {
      for (const [name, { revision, channel }] of used) {
        const gate = known.get(revision);
        if (gate === undefined || opened.get(name) === day) continue;
        files.put(name, validTokens(gate.key, channel, day));
        opened.set(name, day);
      }
      for (const name of opened.keys()) {
        if (used.has(name)) continue;
        files.remove(name);
        opened.delete(name);
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
    const named = new Set([...used.values()].map(({ revision }) => revision));
    const unused = [...known.keys()].filter((revision) => !named.has(revision));
    const gone = unused.filter((revision) => idle.has(revision));
    idle = new Set(unused);
    for (const revision of gone) known.delete(revision);
    if (gone.length > 0) void save();
  }

  return {
    find(revision) {
      // Right after midnight: whoever logs in before the timer gets a cookie of the new day.
      const day = dayOf(nowMs());
      if ([...used].some(([name, wicket]) => wicket.revision === revision && opened.get(name) !== day)) guard();
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
        for (const [name, wicket] of used) if (wicket.revision === revision && opened.has(name)) opened.set(name, null);
        changed = true;
      }
      if (!changed) return;
      if (used.size > 0) guard();
      await save();
    },
    missing: () => new Set([...used.values()].map(({ revision }) => revision).filter((each) => !known.has(each))).size,
    use(wickets) {
      used = new Map([...wickets].map((wicket) => [wicketName(wicket), wicket]));
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
