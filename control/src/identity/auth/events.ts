import { accountNameFrom, accountNameProblem } from "@svc/proto";
import type { BetterAuthOptions } from "better-auth";
import { getOAuthState } from "better-auth/api";
import type { Config } from "../../settings/settings.ts";
import type { Db } from "../../stores/db/pool.ts";
import { useInvite } from "../invites/store.ts";
import type { FindCallSession } from "./call-session.ts";
import { takeEntry } from "./entry.ts";
import { dropLink } from "./put-out.ts";
import { entryError } from "./refusals.ts";
import type { AuthCall, Trail } from "./trail.ts";

export interface EventParts {
  db: Db;
  config: Pick<Config, "signup">;
  trail: Trail;
  findSession: FindCallSession;
  /** Has the user told by mail that an account elsewhere is a way in from now on. */
  tellLinked(userId: string): Promise<void>;
}

/** By which of better-auth's calls somebody came in. */
const ways: Readonly<Record<string, string>> = {
  "/sign-up/email": "password",
  "/sign-in/email": "password",
  "/callback/:id": "githost",
  "/device/token": "device",
};

const sessionEnds: Readonly<Record<string, string>> = {
  "/sign-out": "session.end",
  "/revoke-session": "session.revoke",
  "/revoke-sessions": "session.revoke",
  "/revoke-other-sessions": "session.revoke",
};

/** Whoever signs up was told what a name is; what the Git host calls somebody is made to fit. */
function nameOf({ name, email }: { name: string; email: string }): string {
  if (accountNameProblem(name) === null) return name;
  return accountNameFrom(name, accountNameFrom(email.split("@", 1)[0] ?? "", "?"));
}

/** The user who left for the Git host to connect it; null when somebody left to sign in. */
async function linkedFrom(): Promise<string | null> {
  return (await getOAuthState())?.link?.userId ?? null;
}

/** Whoever comes back to connect an account must be signed in still: the way there and back may take minutes. */
async function mayLink(findSession: FindCallSession, call: AuthCall, userId: string): Promise<boolean> {
  return (await linkedFrom()) === null || (await findSession(call))?.caller.userId === userId;
}

/**
 * What goes with the rows that better-auth writes: an account is made only when the door is open to it, and what
 * happened is noted. Outside of a request (our own commands) there is no door.
 */
export function events({
  db,
  config,
  trail,
  findSession,
  tellLinked,
}: EventParts): NonNullable<BetterAuthOptions["databaseHooks"]> {
  return {
    user: {
      create: {
        async before(user, call) {
          if (call === null || call === undefined) return;
          const entry = await takeEntry({ db, signup: config.signup }, call, user.email);
          if (typeof entry === "string") throw entryError(entry);
          const name = nameOf(user);
          // Whoever sent the invitation vouched for the address.
          return { data: { ...user, name, ...(entry.invited && { emailVerified: true }) } };
        },
        async after(user, call) {
          if (call === null || call === undefined) return;
          const via = ways[call.path ?? ""] ?? "other";
          await trail.note(call, { userId: user.id, action: "account.create", target: user.id, detail: { via } });
          const inviteId = await useInvite(db, user.email, user.id);
          if (inviteId !== null) await trail.note(call, { userId: user.id, action: "invite.use", target: inviteId });
        },
      },
    },
    account: {
      create: {
        async before({ userId, providerId }, call) {
          if (call === null || call === undefined || providerId === "credential") return;
          if (!(await mayLink(findSession, call, userId))) return false;
        },
        async after({ id, userId, providerId }, call) {
          if (call === null || call === undefined || providerId === "credential") return;
          // Who was signed out in between has gained nothing.
          if (!(await mayLink(findSession, call, userId))) return dropLink(db, id);
          const detail = { provider: providerId };
          await trail.note(call, { userId, action: "account.link", target: userId, detail });
          if ((await linkedFrom()) !== null) await tellLinked(userId);
        },
      },
    },
    session: {
      create: {
        async after({ userId }, call) {
          const via = ways[call?.path ?? ""];
          if (via === undefined) return;
          await trail.note(call ?? null, { userId, action: "session.start", target: userId, detail: { via } });
        },
      },
      delete: {
        async after({ userId }, call) {
          const action = sessionEnds[call?.path ?? ""];
          if (action !== undefined) await trail.note(call ?? null, { userId, action, target: userId });
        },
      },
    },
  };
}
