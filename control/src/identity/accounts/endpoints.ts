import { accountReply, meReply, okReply, setPasswordInput, usageReply } from "@svc/proto";
import { recordAudit } from "../../http/audit.ts";
import { unforeseenAs } from "../../http/error-handler.ts";
import { ApiError } from "../../http/errors.ts";
import { refuseLimited } from "../../http/limited.ts";
import { hashOf } from "../auth/hash-of.ts";
import { passwordAdvice, passwordProblem } from "../auth/password.ts";
import { signOutEverywhere } from "../auth/put-out.ts";
import { endpoint } from "../endpoint.ts";
import { planOfUser } from "../plans/of-user.ts";
import { bandwidthMb, getMonthTraffic } from "../plans/usage.ts";
import { planView } from "../plans/view.ts";
import { presentedSession } from "./presented-session.ts";
import { getAccountFacts, getUsage, lockCaller, setFirstPassword } from "./store.ts";

const me = endpoint({
  method: "GET",
  path: "/me",
  access: "any",
  summary: "Who the credential belongs to, and what it may do.",
  reply: meReply,
  async handle({ db }, { caller }) {
    const { slug } = await planOfUser(db, caller.userId);
    return {
      user: { id: caller.userId, email: caller.email, name: caller.name, plan: slug },
      scopes: caller.scopes,
      projectIds: caller.projectIds,
    };
  },
});

const account = endpoint({
  method: "GET",
  path: "/account",
  access: "full",
  summary: "How the account signs in.",
  reply: accountReply,
  handle: ({ db }, { caller }) => getAccountFacts(db, caller.userId),
});

const setPassword = endpoint({
  method: "POST",
  path: "/account/set-password",
  access: "full",
  summary:
    "Set the first password of an account that has none. Other sessions of the account end, and logins that wait for a command line.",
  body: setPasswordInput,
  badBody: "BAD_REQUEST",
  errors: [
    "FORBIDDEN_SCOPE",
    "SET_PASSWORD_FAILED",
    { code: "SET_PASSWORD_FAILED", status: 500 },
    "PASSWORD_ALREADY_SET",
  ],
  reply: okReply,
  async handle({ db, auth, config, clock }, { caller, body, address, request }) {
    refuseLimited(caller, "set the account's password");
    const problem = passwordProblem(body.newPassword, caller.email);
    if (problem !== null) {
      // Whoever has one is told that first: they would look for a better one, and then be refused.
      const { hasPassword } = await getAccountFacts(db, caller.userId);
      if (hasPassword) throw new ApiError("PASSWORD_ALREADY_SET");
      throw new ApiError("SET_PASSWORD_FAILED", { message: passwordAdvice[problem] });
    }
    await unforeseenAs(notSet, async () => {
      const hash = await hashOf(auth, body.newPassword);
      const kept = presentedSession(request.headers, config);
      await db.transaction().execute(async (tx) => {
        // A password would let them in again whose key or session has ended meanwhile.
        await lockCaller(tx, caller);
        if (!(await setFirstPassword(tx, caller.userId, hash, clock.now()))) throw new ApiError("PASSWORD_ALREADY_SET");
        await signOutEverywhere(tx, caller.userId, kept);
        await recordAudit(tx, { caller, address, action: "account.set-password", target: caller.userId });
      });
    });
    return {};
  },
});

const notSet = {
  code: "SET_PASSWORD_FAILED",
  message: "The password could not be set. The failure was recorded; try again.",
} as const;

const usage = endpoint({
  method: "GET",
  path: "/account/usage",
  access: "full",
  summary: "The account's plan, and how much of it is used.",
  reply: usageReply,
  async handle({ db, clock }, { caller }) {
    const [plan, used, month] = await Promise.all([
      planOfUser(db, caller.userId),
      getUsage(db, caller.userId),
      getMonthTraffic(db, caller.userId, clock.now()),
    ]);
    const traffic = { monthlyRequests: month.requests, monthlyBandwidthMb: bandwidthMb(month) };
    return { plan: planView(plan), usage: { ...used, ...traffic } };
  },
});

export const accountEndpoints = [me, account, setPassword, usage];
