// @pure
import { clip, stripControl } from "@svc/proto";
import { type CopySample, CopySample_State } from "@svc/proto/node";
import type { CopyBase } from "../../stores/db/columns.ts";
import type { Copy } from "../../stores/db/tables.ts";

/** How far a copy is, as it is told and kept. Times are in milliseconds since 1970. */
export interface CopyProgress {
  /** By the clock of the copy's node; null: it never told. */
  toldAtMs: number | null;
  state: "basing" | "following" | "broken";
  problem: string | null;
  /** By the clock of the server that is copied; null: nothing is in it. */
  coveredAtMs: number | null;
  position: string | null;
  bytes: number | null;
  /** The oldest first. */
  bases: readonly CopyBase[];
}

type Saved = Pick<Copy, "told_at" | "covered_at" | "state" | "problem" | "position" | "bytes" | "bases">;

const dateOf = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));

/** As it is in the copy's row. */
export const savedOf = ({ toldAtMs, coveredAtMs, bases, ...rest }: CopyProgress): Saved => ({
  ...{ ...rest, bases: [...bases], told_at: dateOf(toldAtMs), covered_at: dateOf(coveredAtMs) },
});

/** The other way round. One that has ended is told of no more. */
export const keptOf = ({ told_at, state, covered_at, problem, position, bytes, bases }: Saved): CopyProgress => ({
  ...{ toldAtMs: told_at?.getTime() ?? null, coveredAtMs: covered_at?.getTime() ?? null },
  ...{ state: state === "ended" ? "broken" : state, problem, position, bytes, bases },
});

const states: ReadonlyMap<number, CopyProgress["state"]> = new Map([
  [CopySample_State.BASING, "basing"],
  [CopySample_State.FOLLOWING, "following"],
  [CopySample_State.BROKEN, "broken"],
]);
const maxAgeMs = 3_600_000;
const maxAheadMs = 60_000;
const basesMax = 20;
const baseNumberMax = 999_999;
const problemLengthMax = 500;
const positionLengthMax = 1_000;
const maxBytes = BigInt(Number.MAX_SAFE_INTEGER);

const timeOf = (text: string): number | null => {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? null : ms;
};

/** What a node told, if it can be true: at a known time, of what has been, in numbers that can be; null: it is dropped. */
export function progressOf(sample: CopySample, nowMs: number): CopyProgress | null {
  const { at, state: code, coveredAt, position, bytes, problem } = sample;
  const toldAtMs = timeOf(at);
  const state = states.get(code);
  if (toldAtMs === null || toldAtMs < nowMs - maxAgeMs || toldAtMs > nowMs + maxAheadMs) return null;
  if (state === undefined || bytes > maxBytes || position.length > positionLengthMax) return null;
  const coveredAtMs = coveredAt === "" ? null : timeOf(coveredAt);
  if (coveredAt !== "" && (coveredAtMs === null || coveredAtMs > nowMs + maxAheadMs)) return null;
  const bases = basesOf(sample);
  if (bases === null) return null;
  return {
    ...{ toldAtMs, state, bases, bytes: Number(bytes) },
    problem: state === "broken" ? clip(stripControl(problem), problemLengthMax) || "its node does not say why" : null,
    // Without a whole one, the log alone is of no use.
    coveredAtMs: bases.length === 0 ? null : coveredAtMs,
    position: position === "" ? null : stripControl(position),
  };
}

/** Null: they are not what bases are: of rising numbers and times, and of what has been copied. */
function basesOf({ bases, coveredAt }: CopySample): CopyBase[] | null {
  if (bases.length > basesMax) return null;
  let before = { number: -1, atMs: Number.NEGATIVE_INFINITY };
  const found: CopyBase[] = [];
  for (const { number, at, bytes, until } of bases) {
    const atMs = timeOf(at);
    const untilMs = timeOf(until);
    if (until !== "" && untilMs === null) return null;
    if (atMs === null || bytes > maxBytes || number > baseNumberMax) return null;
    if (number <= before.number || atMs < before.atMs) return null;
    before = { number, atMs };
    found.push({
      ...{ number, at: new Date(atMs).toISOString(), bytes: Number(bytes) },
      ...(untilMs !== null && { until: new Date(untilMs).toISOString() }),
    });
  }
  return found.length > 0 && coveredAt === "" ? null : found;
}

/**
 * What is kept once a copy tells something; null: it comes too late. Of one chain of bases what is covered never goes back: a
 * keeper that starts again may not know yet how far it was. Of a chain that shares none with the one before, only what is told
 * of it is true.
 */
export function nextProgress(kept: CopyProgress, told: CopyProgress): CopyProgress | null {
  if (kept.toldAtMs !== null && (told.toldAtMs ?? 0) <= kept.toldAtMs) return null;
  const isSameChain = told.bases.some((base) =>
    kept.bases.some(({ number, at }) => number === base.number && at === base.at),
  );
  if (!isSameChain || kept.coveredAtMs === null) return told;
  if (told.coveredAtMs !== null && told.coveredAtMs >= kept.coveredAtMs) return told;
  return { ...told, coveredAtMs: kept.coveredAtMs, position: kept.position };
}
