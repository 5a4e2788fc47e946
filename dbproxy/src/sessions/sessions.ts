import { mayStay, type Standing } from "../table/admission.ts";
import type { InForce } from "../table/table.ts";

export interface Session extends Standing {
  end(): void;
}

/** Every connection that this process was asked to let through, from the moment when it is known whose it is. */
export interface Sessions {
  /** The returned function says that it is over. */
  add(session: Session): () => void;
  /** Ends those that may not stay under the table; how many. */
  review(index: InForce): number;
  endAll(): void;
  readonly size: number;
  /** Resolves as soon as there is none. */
  none(): Promise<void>;
}

export function createSessions(): Sessions {
  const sessions = new Set<Session>();
  let waiting: (() => void)[] = [];
  return {
    add(session) {
      sessions.add(session);
      return () => {
        sessions.delete(session);
        if (sessions.size > 0) return;
        for (const tell of waiting) tell();
        waiting = [];
      };
    },
    review({ byId, gone }) {
      const over = [...sessions].filter((each) => !mayStay(each, byId.get(each.databaseId), gone));
      for (const session of over) session.end();
      return over.length;
    },
    endAll() {
      for (const session of [...sessions]) session.end();
    },
    get size() {
      return sessions.size;
    },
    none: () => (sessions.size === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
  };
}
