// @pure

/** What a server of Postgres gave a session, for whoever wants to cancel its query. */
export interface CancelKey {
  pid: number;
  /** Hexadecimal. */
  secret: string;
}

/**
 * Which database a key was given by. Servers count their processes each on its own, so the same key may come from two of
 * them: it is known together with the bridge, beyond which nobody may use it.
 */
export interface CancelKeys {
  /** Keeps a key until the returned function is called. */
  keep(bridge: string, key: CancelKey, databaseId: string): () => void;
  /** Null: nobody has it. */
  find(bridge: string, key: CancelKey): string | null;
}

export function createCancelKeys(): CancelKeys {
  const kept = new Map<string, { databaseId: string }>();
  const nameOf = (bridge: string, { pid, secret }: CancelKey) => `${bridge} ${pid} ${secret}`;
  return {
    keep(bridge, key, databaseId) {
      const name = nameOf(bridge, key);
      const mine = { databaseId };
      kept.set(name, mine);
      return () => {
        // A later session may have got the same one.
        if (kept.get(name) === mine) kept.delete(name);
      };
    },
    find: (bridge, key) => kept.get(nameOf(bridge, key))?.databaseId ?? null,
  };
}
