import { addressGroup } from "./address.ts";

/** Counts credentials that were wrong, per client. */
export interface Guesses {
  /** Counts one more; the seconds until the client's count begins anew when it is above the limit, else null. */
  wrong(address: string, now: Date): number | null;
}

const windowMs = 60_000;
/** Clients remembered at once; the longest known are forgotten first, in their favour. */
const clientsMax = 20_000;
/** Enough for a whole house of programs whose keys have run out, behind one address. */
const wrongPerMinuteMax = 600;

/**
 * Only what is wrong is counted, after it was looked up: a valid credential passes whatever else comes from its
 * address, so nobody can be locked out. Keys are far too long to be guessed; this tells apart who tries, and slows who
 * listens. In this process: of several replicas each allows as much.
 */
export function createGuesses(perMinuteMax: number = wrongPerMinuteMax): Guesses {
  const windows = new Map<string, { endsAt: number; count: number }>();
  return {
    wrong(address, now) {
      const client = addressGroup(address);
      const at = now.getTime();
      const known = windows.get(client);
      if (known === undefined || known.endsAt <= at) {
        windows.delete(client);
        windows.set(client, { endsAt: at + windowMs, count: 1 });
        const oldest = windows.size > clientsMax ? windows.keys().next().value : undefined;
        if (oldest !== undefined) windows.delete(oldest);
        return null;
      }
      known.count += 1;
      return known.count > perMinuteMax ? Math.ceil((known.endsAt - at) / 1000) : null;
    },
  };
}
