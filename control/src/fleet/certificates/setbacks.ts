// @pure

/** A certificate that a router did not take over, alone or with others. */
interface Setback {
  /** Another certificate of the name is told at once. */
  fingerprint: string;
  /** So often in a row. */
  times: number;
  /** When it may be told again, on the steady clock. */
  againAtMs: number;
}

/** By name. */
export type Setbacks = ReadonlyMap<string, Setback>;

const firstMs = 10_000;
const mostMs = 10 * 60_000;

/** What is known after a router's answer to `told`, fingerprints by name, of which it does not say which ones it did not take. */
export function afterAnswer(
  setbacks: Setbacks,
  told: ReadonlyMap<string, string>,
  hasFailed: boolean,
  nowMs: number,
): Setbacks {
  const after = new Map(setbacks);
  for (const [name, fingerprint] of told) {
    if (!hasFailed) {
      after.delete(name);
      continue;
    }
    const before = after.get(name);
    const times = before?.fingerprint === fingerprint ? before.times + 1 : 1;
    after.set(name, { fingerprint, times, againAtMs: nowMs + Math.min(firstMs * 2 ** (times - 1), mostMs) });
  }
  return after;
}

/** Whether a certificate may be told now: not what failed a moment ago. */
export function mayTell(setbacks: Setbacks, name: string, fingerprint: string, nowMs: number): boolean {
  const setback = setbacks.get(name);
  return setback === undefined || setback.fingerprint !== fingerprint || setback.againAtMs <= nowMs;
}

/** Without those that nobody is to be told any more. */
export const stillWanted = (setbacks: Setbacks, current: ReadonlyMap<string, string>): Setbacks =>
  setbacks.size === 0 ? setbacks : new Map([...setbacks].filter(([name]) => current.has(name)));
