// @pure

/** How many are open, and how many came to nothing, for each database. */
export interface Counts {
  /** Takes one of `limit`; false when so many are open. */
  take(databaseId: string, limit: number): boolean;
  /** Gives one back. */
  give(databaseId: string): void;
  open(databaseId: string): number;
  /** A server refused a login. */
  loginFailed(databaseId: string): void;
  failedLogins(databaseId: string): number;
  /** Forgets failed logins of databases that are gone. */
  keepOnly(isKept: (databaseId: string) => boolean): void;
}

export function createCounts(): Counts {
  const open = new Map<string, number>();
  const failed = new Map<string, number>();
  const of = (counts: ReadonlyMap<string, number>, databaseId: string) => counts.get(databaseId) ?? 0;
  return {
    take(databaseId, limit) {
      const taken = of(open, databaseId);
      if (taken >= limit) return false;
      open.set(databaseId, taken + 1);
      return true;
    },
    give(databaseId) {
      const left = of(open, databaseId) - 1;
      if (left > 0) open.set(databaseId, left);
      else open.delete(databaseId);
    },
    open: (databaseId) => of(open, databaseId),
    loginFailed: (databaseId) => void failed.set(databaseId, of(failed, databaseId) + 1),
    failedLogins: (databaseId) => of(failed, databaseId),
    keepOnly(isKept) {
      for (const databaseId of failed.keys()) if (!isKept(databaseId)) failed.delete(databaseId);
    },
  };
}
