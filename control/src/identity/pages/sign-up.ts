import { limits } from "@svc/proto";
import type { FastifyInstance } from "fastify";
import { relayCookies } from "../auth/mount.ts";
import { passwordAdvice } from "../auth/password.ts";
import type { IdentityContext } from "../context.ts";
import { githostButton, githostOrigin } from "./githost.ts";
import { html } from "./html.ts";
import { field, hidden, notice, type Page } from "./layout.ts";
import { safeNext } from "./next.ts";
import { type AuthAnswer, callAuth, readForm, redirect, sendPage, tooManyAttempts } from "./site.ts";

const codeLengthMax = 100;

interface Entered {
  name: string;
  email: string;
  next: string;
  /** Code of an invitation; "" without one. */
  invite: string;
}

const nextQuery = (next: string) => (next === "/" ? "" : `?next=${encodeURIComponent(next)}`);

function signUpPage(context: IdentityContext, { name, email, next, invite }: Entered, error?: string): Page {
  const byInvitation = context.config.signup === "invite" || invite !== "";
  return {
    title: "Create an account",
    leadsTo: githostOrigin(context),
    body: html`<h1>Create an account</h1>
${byInvitation ? html`<p class="lead">Accounts are made by invitation. Use the address that yours was sent to.</p>` : null}
${error ? notice("error", error) : null}
<form method="post" action="/sign-up">
${hidden("next", next)}
${
  byInvitation
    ? field({
        name: "invite",
        label: "Invitation code",
        type: "text",
        autocomplete: "off",
        value: invite,
        maxLength: codeLengthMax,
        first: invite === "",
      })
    : null
}
${field({
  name: "name",
  label: "Your name",
  type: "text",
  autocomplete: "name",
  value: name,
  maxLength: limits.accountNameLengthMax,
  first: !byInvitation || invite !== "",
})}
${field({
  name: "email",
  label: "Email address",
  type: "email",
  autocomplete: "username",
  value: email,
  maxLength: limits.emailLengthMax,
  ...(!byInvitation && { hint: "We send a link there, which you open before the first deploy." }),
})}
${newPasswordField("password", "Password")}
<button type="submit">Create the account</button>
</form>
${byInvitation && invite === "" ? null : githostButton(context, { next, invite })}
<p class="aside">Already have one? <a href="/sign-in${nextQuery(next)}">Sign in</a></p>`,
  };
}

/** The same whether the account is new or there was one already; the mail says which. */
const sentPage = (next: string, email: string): Page => ({
  title: "Look into your mailbox",
  body: html`<h1>Look into your mailbox</h1>
<p>We have sent a mail to <strong>${email}</strong>. Open its link to confirm the address; you need that before the first deploy.</p>
<p><a class="button" href="/sign-in${nextQuery(next)}">Sign in</a></p>`,
});

export const newPasswordField = (name: string, label: string) =>
  field({
    name,
    label,
    type: "password",
    autocomplete: "new-password",
    minLength: limits.accountPasswordLengthMin,
    maxLength: limits.accountPasswordLengthMax,
    hint: `At least ${limits.accountPasswordLengthMin} characters. A few random words make a good one.`,
  });

function signUpError(answer: AuthAnswer): string {
  if (answer.status === 429) return tooManyAttempts(answer);
  switch (answer.code) {
    case "INVALID_EMAIL":
    case "VALIDATION_ERROR":
      return "That is not an email address.";
    case "INVALID_NAME":
      return `A name is one line of at most ${limits.accountNameLengthMax} characters.`;
    case "ACCOUNT_EXISTS":
      return "There already is an account with this address. Sign in.";
    case "INVITE_INVALID":
      return "This invitation is not for that address, has expired, or was used already. Ask an administrator for a new one.";
    default:
      return passwordError(answer) ?? "The account could not be created. Check what you entered.";
  }
}

/** What is wrong with a new password; null when that is not the trouble. */
export function passwordError({ code }: AuthAnswer): string | null {
  switch (code) {
    case "PASSWORD_TOO_SHORT":
      return passwordAdvice["too-short"];
    case "PASSWORD_TOO_LONG":
      return passwordAdvice["too-long"];
    case "PASSWORD_TOO_EASY":
      return passwordAdvice["too-easy"];
    default:
      return null;
  }
}

export function registerSignUp(scope: FastifyInstance, context: IdentityContext): void {
  scope.get<{ Querystring: { next?: string; invite?: string } }>("/sign-up", async (request, reply) => {
    const { next, invite } = request.query;
    const given = typeof invite === "string" ? invite.slice(0, codeLengthMax) : "";
    const entered = { name: "", email: "", next: safeNext(next), invite: given };
    return sendPage(context, reply, signUpPage(context, entered));
  });

  scope.post("/sign-up", async (request, reply) => {
    const form = readForm(context, request);
    const entered = {
      name: form("name").trim().slice(0, limits.accountNameLengthMax),
      email: form("email").trim(),
      next: safeNext(form("next")),
      invite: form("invite").trim().slice(0, codeLengthMax),
    };
    if (entered.name === "") return sendPage(context, reply, signUpPage(context, entered, "Enter your name."), 422);
    const credentials = { email: entered.email, password: form("password") };
    const answer = await callAuth(context, request, {
      method: "POST",
      path: "/sign-up/email",
      body: { name: entered.name, ...credentials, ...(entered.invite !== "" && { inviteCode: entered.invite }) },
    });
    if (answer.status >= 500) throw new Error(`sign-up answered ${answer.status}`);
    if (answer.status !== 200) {
      const status = answer.status === 429 ? 429 : 422;
      return sendPage(context, reply, signUpPage(context, entered, signUpError(answer)), status);
    }
    // An invitation has proven the address, so nothing is given away by going on at once.
    if (entered.invite !== "") {
      const signedIn = await callAuth(context, request, { method: "POST", path: "/sign-in/email", body: credentials });
      if (signedIn.status === 200) {
        relayCookies(signedIn.response, reply);
        return redirect(reply, entered.next);
      }
    }
    return sendPage(context, reply, sentPage(entered.next, entered.email));
  });
}
