import { accountReply, meReply, okReply, setPasswordInput, usageReply } from "@svc/proto";
import { refuseLimited } from "../auth/limited.ts";
import { recordAudit } from "../http/audit.ts";
import { endpoint } from "../http/endpoint.ts";
import { ApiError } from "../http/errors.ts";
import { planOfUser } from "../plans/of-user.ts";
import { planView } from "../plans/view.ts";
import { getAccountFacts, getUsage, lockUser, setFirstPassword } from "./store.ts";

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
  summary: "Set the first password of an account that has none.",
  body: setPasswordInput,
  badBody: "BAD_REQUEST",
  reply: okReply,
  async handle({ db, auth }, { caller, body, address }) {
    refuseLimited(caller, "set the account's password");
    const { password } = await auth.$context;
    const hash = await password.hash(body.newPassword);
    await db.transaction().execute(async (tx) => {
      await lockUser(tx, caller.userId);
      if (!(await setFirstPassword(tx, caller.userId, hash))) throw new ApiError("PASSWORD_ALREADY_SET");
      await recordAudit(tx, { caller, address, action: "account.set-password", target: caller.userId });
    });
    return {};
  },
});

const usage = endpoint({
  method: "GET",
  path: "/account/usage",
  access: "full",
  summary: "The account's plan, and how much of it is used.",
  reply: usageReply,
  async handle({ db }, { caller }) {
    const [plan, used] = await Promise.all([planOfUser(db, caller.userId), getUsage(db, caller.userId)]);
    // Nothing counts traffic yet, so there is none to report.
    return { plan: planView(plan), usage: { ...used, monthlyRequests: 0, monthlyBandwidthMb: 0 } };
  },
});

export const accountEndpoints = [me, account, setPassword, usage];
