import { readIfThere, writeDurably } from "@svc/runtime/durable-file";
import { z } from "zod";
import type { Log } from "../log.ts";

/** What the keys of visitors are made with, another one each day. Nobody makes or tells a key without it again. */
export interface Salts {
  /** Of the day that an hour since 1970 is of; null: nobody has told it, or it is destroyed. */
  ofHour(hour: number): string | null;
  /** Whether visits are to be counted at all. */
  isTold(): boolean;
  /** These and no others, from now on. On disk when it returns. */
  learn(salts: readonly { day: string; salt: Uint8Array }[]): Promise<void>;
  /** Destroys those of days that are over, here and on disk. */
  tidy(now: Date): Promise<void>;
}

const hoursPerDay = 24;
const dayMs = 86_400_000;
/** So long after its day lines of it may still be read. */
const saltOutlivesDayMs = 2 * 3_600_000;
const saltBytes = 32;
const dayPattern = /^\d{4}-\d{2}-\d{2}$/;
/** More days than control tells ahead. */
const saltsMax = 32;

const stored = z.object({ format: z.literal(1), told: z.boolean(), salts: z.record(z.string(), z.string()) });

const dayOf = (hour: number): string => new Date(hour * 3_600_000).toISOString().slice(0, 10);

export async function openSalts(path: string, log: Log): Promise<Salts> {
  let { told, salts } = await load(path, log);
  let onDisk = "";
  let saving: Promise<void> = Promise.resolve();
  /** What there is by then, one after the other: a salt that was destroyed must not come back, nor stay where writing failed. */
  const save = (): Promise<void> => {
    const turn = saving.then(async () => {
      const text = JSON.stringify({ format: 1, told, salts } satisfies z.infer<typeof stored>);
      if (text === onDisk) return;
      await writeDurably(path, text);
      onDisk = text;
    });
    saving = turn.catch(() => {});
    return turn;
  };
  // Asked for each page view, of which most are of one day.
  let last = { number: -1, salt: "" };

  return {
    ofHour(hour) {
      const number = Math.floor(hour / hoursPerDay);
      if (number !== last.number) last = { number, salt: salts[dayOf(hour)] ?? "" };
      return last.salt === "" ? null : last.salt;
    },
    isTold: () => told,
    async learn(given) {
      const fit = given.filter(({ day, salt }) => dayPattern.test(day) && salt.length === saltBytes).slice(0, saltsMax);
      const next = Object.fromEntries(fit.map(({ day, salt }) => [day, Buffer.from(salt).toString("hex")]));
      salts = next;
      told = fit.length > 0;
      last = { number: -1, salt: "" };
      await save();
    },
    async tidy(now) {
      const isOver = (day: string) => Date.parse(day) + dayMs + saltOutlivesDayMs <= now.getTime();
      salts = Object.fromEntries(Object.entries(salts).filter(([day]) => !isOver(day)));
      last = { number: -1, salt: "" };
      await save();
    },
  };
}

async function load(path: string, log: Log): Promise<Pick<z.infer<typeof stored>, "told" | "salts">> {
  try {
    const text = await readIfThere(path);
    if (text !== null) return stored.parse(JSON.parse(text));
  } catch (err) {
    log.error({ path, err }, "the kept salts are damaged: visitors are counted again once control tells them");
  }
  return { told: false, salts: {} };
}
