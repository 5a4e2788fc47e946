import {
  createInviteReply,
  deleteInviteReply,
  emailAddress,
  emailInput,
  inviteParams,
  invitesReply,
  limits,
  waitlistEntriesReply,
  waitlistReply,
} from "@svc/proto";
import { addressGroup, addressSite } from "../../http/address.ts";
import { recordAudit } from "../../http/audit.ts";
import { ApiError } from "../../http/errors.ts";
import { instanceName } from "../../settings/instance-name.ts";
import type { IdentityContext } from "../context.ts";
import { endpoint } from "../endpoint.ts";
import { takeAttempt } from "../limits/attempts.ts";
import { invitation } from "../mail/messages.ts";
import { hashCode, newCode } from "./code.ts";
import { deleteInvite, listInvites, replaceInvite } from "./store.ts";
import { joinWaitlist, listWaitlist } from "./waitlist.ts";

/** Per client: enough for an office, too few to fill the list. */
const joining = { capacity: 10, secondsPerToken: 360 };
/** Per network of which one client may have all. */
const joiningFromSite = { capacity: 30, secondsPerToken: 120 };
const daySeconds = 86_400;

function readAddress(text: string): string {
  const email = emailAddress(text);
  if (email === null) throw new ApiError("INVALID_EMAIL");
  return email;
}

const join = endpoint({
  method: "POST",
  path: "/waitlist",
  access: "none",
  summary: "Ask to be let in. Says the same whether or not the address is known.",
  body: emailInput,
  badBody: "INVALID_BODY",
  errors: ["INVALID_EMAIL", "RATE_LIMITED"],
  reply: waitlistReply,
  async handle({ db }, { body, address }) {
    const email = readAddress(body.email);
    const site = addressSite(address);
    const wait =
      (await takeAttempt(db, { what: "waitlist", whose: addressGroup(address) }, joining)) ??
      (site === null ? null : await takeAttempt(db, { what: "waitlist-site", whose: site }, joiningFromSite));
    if (wait !== null) throw new ApiError("RATE_LIMITED", { retryAfterSeconds: wait });
    await joinWaitlist(db, email, address);
    return { message: "Thank you. You will get a mail when there is a place for you." };
  },
});

const list = endpoint({
  method: "GET",
  path: "/admin/waitlist",
  access: "admin",
  summary: "Who asked to be let in, oldest first.",
  reply: waitlistEntriesReply,
  handle: async ({ db }) => ({ entries: await listWaitlist(db) }),
});

const invite = endpoint({
  method: "POST",
  path: "/admin/invites",
  access: "admin",
  summary: "Invite an address. The code makes one account with it; a newer one to the same address replaces it.",
  body: emailInput,
  badBody: "INVALID_BODY",
  errors: ["INVALID_EMAIL", "IDEMPOTENCY_CONFLICT"],
  reply: createInviteReply,
  async handle(context, { caller, body, address, idempotencyKey }) {
    const { clock, random, createOnce } = context;
    const email = readAddress(body.email);
    const attempt = {
      caller,
      idempotencyKey,
      request: ["POST /admin/invites", email],
      status: 200,
      shownOnce: ({ id }: { id: string }) => id,
    };
    const made = await createOnce(attempt, async (tx) => {
      const inviteCode = newCode();
      const id = random.uuid();
      const expiresAt = new Date(clock.now().getTime() + limits.inviteSeconds * 1000);
      await replaceInvite(tx, { id, email, hash: hashCode(inviteCode), createdBy: caller.userId, expiresAt });
      await recordAudit(tx, { caller, address, action: "invite.create", target: id, detail: { email } });
      return { inviteCode, id, expiresAt: expiresAt.toISOString() };
    });
    const note = await mailInvitation(context, email, made.inviteCode);
    return { ...made, mailed: note === null, note };
  },
});

/** Null when the mail server took the invitation, else why nothing was sent. Nobody is sent to a door that is closed. */
async function mailInvitation({ config, mailer, log }: IdentityContext, email: string, code: string) {
  if (config.signup === "closed") return "Sign-up is closed: the code opens nothing until SVC_SIGNUP says otherwise.";
  if (mailer === null) return "This installation sends no mail: hand the code over yourself.";
  try {
    const url = `${config.apiUrl}/sign-up?invite=${code}`;
    await mailer.send(email, invitation(url, instanceName(config.apiUrl), limits.inviteSeconds / daySeconds));
    return null;
  } catch (error) {
    log.error({ err: error }, "an invitation was not delivered");
    return "The mail server did not take the invitation: hand the code over yourself.";
  }
}

const listAll = endpoint({
  method: "GET",
  path: "/admin/invites",
  access: "admin",
  summary: "Invitations, newest first; never their codes.",
  reply: invitesReply,
  handle: async ({ db }) => ({ invites: await listInvites(db) }),
});

const revoke = endpoint({
  method: "DELETE",
  path: "/admin/invites/:id",
  access: "admin",
  summary: "Take back an invitation that nobody has used.",
  params: inviteParams,
  errors: ["NOT_FOUND"],
  reply: deleteInviteReply,
  handle: ({ db }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      if (!(await deleteInvite(tx, params.id))) throw new ApiError("NOT_FOUND");
      await recordAudit(tx, { caller, address, action: "invite.delete", target: params.id });
      return { id: params.id };
    }),
});

export const inviteEndpoints = [join, list, invite, listAll, revoke];
