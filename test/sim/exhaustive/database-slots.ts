import { type Creation, decideCreation } from "@svc/control/tenants/databases/rules";
import type { Model } from "./explore.ts";

/** A project of one user whose plan allows databases in one, and a request for its first. */
interface Request {
  /** Null: it has not decided; the lock of the user is asked for before that. */
  decided: Creation["do"] | "refused" | null;
  hasBranch: boolean;
  /** It holds the user. */
  isInside: boolean;
  isOver: boolean;
}

interface State {
  requests: readonly Request[];
  crashes: number;
}

export type SlotMutant = "counts outside the lock";

const maxDatabases = 1;
const limits = { requests: 3, crashes: 1 } as const;

/** Requests of one user for databases of different projects at once: real `decideCreation`. */
export function databaseSlots(mutant: SlotMutant | null): Model<State> {
  const begun: Request = { decided: null, hasBranch: false, isInside: false, isOver: false };
  const count = (requests: readonly Request[]): number => requests.filter(({ hasBranch }) => hasBranch).length;
  const decide = (otherProjects: number): Request["decided"] => {
    const creation = decideCreation({
      ...{ type: "ssr", channel: "production", asked: null, fixed: null, offered: ["postgres"], status: null },
      ...{ otherProjects, hasBranch: false, maxDatabases },
    });
    return "refusal" in creation ? "refused" : creation.do;
  };
  return {
    initial: { requests: Array.from({ length: limits.requests }, () => begun), crashes: 0 },
    *next(state) {
      const isHeld = state.requests.some(({ isInside }) => isInside);
      for (const [at, request] of state.requests.entries()) {
        const become = (change: Partial<Request>): State => ({
          ...state,
          requests: state.requests.with(at, { ...request, ...change }),
        });
        const { decided, isInside, isOver } = request;
        if (isOver) continue;
        const mayDecide = isInside || mutant === "counts outside the lock";
        if (decided === null && mayDecide) yield [`${at} decides`, become({ decided: decide(count(state.requests)) })];
        if (!isInside && !isHeld && (decided === null) === (mutant === null))
          yield [`${at} holds the user`, become({ isInside: true })];
        if (!isInside || decided === null) continue;
        yield [`${at} commits`, become({ hasBranch: decided === "insert", isInside: false, isOver: true })];
        if (state.crashes < limits.crashes)
          yield [`${at} is cut off`, { ...become({ ...begun }), crashes: state.crashes + 1 }];
      }
    },
    key: (state) => JSON.stringify(state),
    problem: ({ requests }) => (count(requests) > maxDatabases ? "more databases than the plan allows" : null),
  };
}
