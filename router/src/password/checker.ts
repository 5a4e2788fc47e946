import { availableParallelism } from "node:os";
import { verify } from "@node-rs/bcrypt";
import { limits } from "@svc/proto/limits";

export type Verdict = "right" | "wrong" | "busy";

/** Compares passwords with hashes. One costs some 80 ms of a processor, so few run at once and not many wait. */
export interface PasswordChecker {
  /** @param site whose password it is; nobody's attackers keep the visitors of others waiting */
  check(site: string, password: string, hash: string): Promise<Verdict>;
}

const waitingMax = 32;
const perSiteMax = 4;

export function createPasswordChecker(atOnce = Math.max(1, Math.floor(availableParallelism() / 4))): PasswordChecker {
  let running = 0;
  const queue: (() => void)[] = [];
  const sites = new Map<string, number>();

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (running >= atOnce) await new Promise<void>((resolve) => queue.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      // The place goes straight to the next in line, so the count stays.
      const next = queue.shift();
      if (next) next();
      else running -= 1;
    }
  }

  return {
    async check(site, password, hash) {
      // bcrypt would not look at the rest: two passwords that differ only there are not the same.
      if (password === "" || Buffer.byteLength(password) > limits.sitePasswordBytesMax) return "wrong";
      const ofSite = sites.get(site) ?? 0;
      if (ofSite >= perSiteMax || queue.length >= waitingMax) return "busy";
      sites.set(site, ofSite + 1);
      try {
        return (await inTurn(() => verify(password, hash))) ? "right" : "wrong";
      } finally {
        const left = (sites.get(site) ?? 1) - 1;
        if (left > 0) sites.set(site, left);
        else sites.delete(site);
      }
    },
  };
}
