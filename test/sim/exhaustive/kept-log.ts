import { type DatabaseSizes, serverSettings } from "@svc/agent/databases/settings";
import type { DatabaseEngine } from "@svc/proto";
import type { Model } from "./explore.ts";

/**
 * The log that a server of Postgres keeps for a copy, as its real settings bound it, and a keeper that is away for any time: in steps of a
 * sixteenth of what the tenant may store. A server that has cut off a slot says so, and its keeper begins with another base.
 */
interface State {
  /** Written since the beginning, in steps. */
  written: number;
  /** Until where the keeper has it; null: the server has cut it off. */
  slot: number | null;
  isAway: boolean;
}

export type LogMutant = "a slot without a cap";

const sizeMb = 8_192;
const stepMb = sizeMb / 16;
const stepsMax = 40;
/** Of what the tenant may store: so much may a copy that is away take of its disk. */
const shareMost = 1 / 4;

const settingOf = (engine: DatabaseEngine, sizes: DatabaseSizes, name: string): string | null =>
  serverSettings(engine, sizes)
    .find((setting) => setting.startsWith(`${name}=`))
    ?.slice(name.length + 1) ?? null;

/** In MB; null: as much as there is room for, which is what a server does that is not told. */
function capOf(mutant: LogMutant | null): number | null {
  const sizes = { memoryMb: 512, sizeMb, connections: 20, readOnly: false };
  const text = settingOf("postgres", sizes, "max_slot_wal_keep_size");
  return text === null || mutant !== null ? null : Number(/^([0-9]+)MB$/.exec(text)?.[1] ?? Number.NaN);
}

export function keptLog(mutant: LogMutant | null): Model<State> {
  const cap = capOf(mutant);
  const keptMb = ({ written, slot }: State): number => (slot === null ? 0 : (written - slot) * stepMb);
  return {
    initial: { written: 0, slot: 0, isAway: false },
    *next(state) {
      const { written, slot, isAway } = state;
      yield [isAway ? "the keeper is back" : "the keeper dies", { ...state, isAway: !isAway }];
      if (!isAway && slot !== written)
        yield [slot === null ? "another base" : "the keeper follows", { ...state, slot: written }];
      if (written === stepsMax) return;
      const after = { ...state, written: written + 1 };
      yield ["the tenant writes", cap !== null && keptMb(after) > cap ? { ...after, slot: null } : after];
    },
    key: ({ written, slot, isAway }) => `${written} ${slot} ${isAway}`,
    problem: (state) => (keptMb(state) > sizeMb * shareMost ? "a copy that is away costs the tenant's disk" : null),
  };
}
