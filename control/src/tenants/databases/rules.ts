// @pure
import {
  type Channel,
  type DatabaseEngine,
  type DatabaseStatus,
  type ErrorCode,
  limits,
  type ProjectType,
  plural,
} from "@svc/proto";

/** Why something is refused; without a message the catalogue's sentence says it. */
export interface Refusal {
  code: ErrorCode;
  message?: string;
}

/** What a plan without databases refuses: every use of them but to look at their state, and to drop and delete what is there. */
export const planRefusal = (maxDatabases: number): Refusal | null =>
  maxDatabases > 0
    ? null
    : { code: "PLAN_FEATURE_UNAVAILABLE", message: "The plan does not include managed databases." };

export interface CreateFacts {
  type: ProjectType;
  channel: Channel;
  /** What was asked for; null: whatever the project has. */
  asked: DatabaseEngine | null;
  /** What the project's databases run on for good; null: it never had one. */
  fixed: DatabaseEngine | null;
  /** What this installation offers. */
  offered: readonly DatabaseEngine[];
  /** Of the branch that is there; null: none is. */
  status: DatabaseStatus | null;
  /** Other projects of the owner that have a branch. */
  otherProjects: number;
  /** Whether this project has one, of any channel. */
  hasBranch: boolean;
  maxDatabases: number;
}

export type Creation =
  | { do: "insert"; engine: DatabaseEngine }
  /** The branch in `error` is tried again. */
  | { do: "retry"; engine: DatabaseEngine }
  /** It is there, or on its way. */
  | { do: "keep"; engine: DatabaseEngine; status: "provisioning" | "ready" };

/** What asking for a branch comes to, or why it is refused. Exact while the owner and the project are locked. */
export function decideCreation(facts: CreateFacts): Creation | { refusal: Refusal } {
  const { channel, asked, fixed, offered, status } = facts;
  const refusal = channelRefusal(facts.type, channel);
  if (refusal !== null) return { refusal };
  if (asked !== null && fixed !== null && asked !== fixed) return { refusal: engineConflict(fixed) };
  const engine = fixed ?? asked ?? "postgres";
  switch (status) {
    case "provisioning":
    case "ready":
      return { do: "keep", engine, status };
    case "dropping":
      return refuse("DATABASE_NOT_READY", "The database of this channel is being dropped. Try again in a moment.");
    default:
  }
  if (!offered.includes(engine)) return { refusal: { code: "DATABASE_ENGINE_UNAVAILABLE" } };
  if (status === "error") return { do: "retry", engine };
  if (!facts.hasBranch && facts.otherProjects >= facts.maxDatabases) {
    return refuse(
      "QUOTA_EXCEEDED",
      `The plan allows managed databases in ${plural(facts.maxDatabases, "project")}, and that many have one.`,
    );
  }
  return { do: "insert", engine };
}

/** Nothing of a channel that a project cannot deploy to would ever use its database. */
function channelRefusal(type: ProjectType, channel: Channel): Refusal | null {
  if (type === "static") return { code: "VALIDATION", message: "Projects of type static have no databases." };
  return type === "ociimage" && channel === "dev"
    ? { code: "VALIDATION", message: "Projects of type ociimage have no dev channel." }
    : null;
}

export const engineConflict = (fixed: DatabaseEngine): Refusal => ({
  code: "DATABASE_ENGINE_CONFLICT",
  message: `The databases of this project run on ${fixed} for good.`,
});

export const refuse = (code: ErrorCode, message: string) => ({ refusal: { code, message } });

/** Why a branch cannot be used now; null: it can. A null status is no branch. */
export function useRefusal(status: DatabaseStatus | null): Refusal | null {
  switch (status) {
    case "ready":
      return null;
    case "provisioning":
      return { code: "DATABASE_PROVISIONING" };
    case null:
      return { code: "NOT_FOUND", message: "This channel has no database." };
    default:
      return { code: "DATABASE_NOT_READY" };
  }
}

const full =
  "It holds more than the plan allows, and can only be read: nothing can be deleted from it either. It can be written to again " +
  "from the night on in which the plan allows as much.";
const soft =
  " It has unlogged tables, which would be empty afterwards if its server were kept from writing. So sessions are only told not " +
  "to write, and ended when they do.";

/** What the owner of a branch should know of that it can only be read; null: it can be written to. */
export const readOnlyWarning = ({ isReadOnly, isSoft }: { isReadOnly: boolean; isSoft: boolean }): string | null =>
  isReadOnly ? `${full}${isSoft ? soft : ""}` : null;

/** Why one more query is not saved beside `count` others; null: it is. */
export const savedQueryRefusal = (count: number): Refusal | null =>
  count < limits.savedQueriesPerProject
    ? null
    : {
        code: "QUOTA_EXCEEDED",
        message: `A project keeps at most ${limits.savedQueriesPerProject} queries. Delete one first.`,
      };
