import {
  adminListQuery,
  adminUsersReply,
  banUserInput,
  banUserReply,
  deleteUserReply,
  userParams,
  userPlanInput,
  userPlanReply,
  userRoleInput,
  userRoleReply,
} from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import type { Caller } from "../../../http/caller.ts";
import { enqueueApplyLimits } from "../../../identity/plans/apply-limits.ts";
import { reconcileDatabases } from "../../../identity/plans/reconcile-databases.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint } from "../../endpoint.ts";
import { pageOf } from "../place.ts";
import { requestUserDeletion } from "./deletion/request.ts";
import { readUsers, userView } from "./listing.ts";
import { roleOf, withRole } from "./rules.ts";
import {
  type AdministeredUser,
  banUser,
  deleteSignInSessions,
  lockAdministered,
  setPlan,
  setRole,
  unbanUser,
} from "./store.ts";

const list = endpoint({
  method: "GET",
  path: "/admin/users",
  access: "admin",
  summary: "Everybody with an account, newest first, with what they use.",
  query: adminListQuery,
  reply: adminUsersReply,
  async handle({ db }, { query }) {
    const { page, nextCursor } = pageOf(await readUsers(db, query), query.limit);
    return { users: page.map(userView), nextCursor };
  },
});

/** Runs `act` on a user whose row, like the caller's, stays as it is meanwhile. */
const onUser = <T>(
  db: Db,
  caller: Caller,
  id: string,
  act: (tx: Db, user: AdministeredUser) => Promise<T>,
): Promise<T> => db.transaction().execute(async (tx) => act(tx, await lockAdministered(tx, caller, canonical(id))));

/** As the database writes ids; clients may write them in capitals. */
const canonical = (id: string) => id.toLowerCase();

function refuseSelf(caller: Caller, id: string): void {
  if (canonical(id) === caller.userId) throw new Refused("SELF_ACTION");
}

const ban = endpoint({
  method: "POST",
  path: "/admin/users/:id/ban",
  access: "admin",
  summary: "Shut a user out, for a time or until the ban is lifted. Their sites go on.",
  params: userParams,
  // No body at all asks for a ban without a reason or an end.
  body: banUserInput.prefault({}),
  badBody: "INVALID_BODY",
  reply: banUserReply,
  errors: ["SELF_ACTION"],
  async handle({ db }, { caller, params, body, address }) {
    refuseSelf(caller, params.id);
    const { reason = null, expiresInSeconds = null } = body;
    return onUser(db, caller, params.id, async (tx, { id, email }) => {
      await banUser(tx, id, { reason, seconds: expiresInSeconds });
      const sessions = await deleteSignInSessions(tx, id);
      const detail = { email, reason, expiresInSeconds, sessions };
      await recordAudit(tx, { caller, address, action: "user.ban", target: id, detail });
      return { id, banned: true };
    });
  },
});

const unban = endpoint({
  method: "POST",
  path: "/admin/users/:id/unban",
  access: "admin",
  summary: "Lift a ban. The user signs in again; API keys work as before.",
  params: userParams,
  reply: banUserReply,
  handle: ({ db }, { caller, params, address }) =>
    onUser(db, caller, params.id, async (tx, { id, email }) => {
      await unbanUser(tx, id);
      await recordAudit(tx, { caller, address, action: "user.unban", target: id, detail: { email } });
      return { id, banned: false };
    }),
});

const role = endpoint({
  method: "POST",
  path: "/admin/users/:id/role",
  access: "admin",
  summary: "Make a user an administrator, or an ordinary user again.",
  params: userParams,
  body: userRoleInput,
  badBody: "INVALID_BODY",
  reply: userRoleReply,
  errors: ["SELF_ACTION"],
  async handle({ db }, { caller, params, body, address }) {
    refuseSelf(caller, params.id);
    return onUser(db, caller, params.id, async (tx, { id, email, role: before }) => {
      await setRole(tx, id, withRole(before, body.role));
      const detail = { email, from: roleOf(before), to: body.role };
      await recordAudit(tx, { caller, address, action: "user.role", target: id, detail });
      return { id, role: body.role };
    });
  },
});

const plan = endpoint({
  method: "POST",
  path: "/admin/users/:id/plan",
  access: "admin",
  summary: "Give a user another plan. Its limits reach what runs already.",
  params: userParams,
  body: userPlanInput,
  badBody: "INVALID_BODY",
  reply: userPlanReply,
  errors: ["UNKNOWN_PLAN"],
  handle: ({ db }, { caller, params, body, address }) =>
    onUser(db, caller, params.id, async (tx, { id, email }) => {
      if (!(await setPlan(tx, id, body.plan))) throw new Refused("UNKNOWN_PLAN");
      await enqueueApplyLimits(tx, { userId: id });
      await reconcileDatabases(tx, { userId: id });
      await recordAudit(tx, { caller, address, action: "user.plan", target: id, detail: { email, plan: body.plan } });
      return { id, plan: body.plan };
    }),
});

const remove = endpoint({
  method: "DELETE",
  path: "/admin/users/:id",
  access: "admin",
  summary:
    "Delete a user with everything they own. They are shut out and their slugs are free at once; their sites are taken down after it.",
  params: userParams,
  reply: deleteUserReply,
  errors: ["SELF_ACTION"],
  async handle({ db }, { caller, params, address }) {
    refuseSelf(caller, params.id);
    return onUser(db, caller, params.id, async (tx, { id, email }) => {
      const { keys, sessions, projects } = await requestUserDeletion(tx, id, caller.userId);
      const detail = { email, keys, sessions, projects };
      await recordAudit(tx, { caller, address, action: "user.delete", target: id, detail });
      return { id };
    });
  },
});

export const adminUserEndpoints = [list, remove, ban, unban, role, plan];
