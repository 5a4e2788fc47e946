import { limits } from "@svc/proto";
import type { FastifyInstance } from "fastify";
import { relayCookies } from "../auth/mount.ts";
import type { ApiContext } from "../http/endpoint.ts";
import { html } from "./html.ts";
import { field, hidden, notice, type Page } from "./layout.ts";
import { safeNext } from "./next.ts";
import { type AuthAnswer, callAuth, readForm, redirect, sendPage, tooManyAttempts } from "./site.ts";

const nameLengthMax = 100;

interface Entered {
  name: string;
  email: string;
  next: string;
}

const signUpPage = ({ name, email, next }: Entered, error?: string): Page => ({
  title: "Create an account",
  body: html`<h1>Create an account</h1>
${error ? notice("error", error) : null}
<form method="post" action="/sign-up">
${hidden("next", next)}
${field({ name: "name", label: "Your name", type: "text", autocomplete: "name", value: name, maxLength: nameLengthMax, first: true })}
${field({
  name: "email",
  label: "Email address",
  type: "email",
  autocomplete: "username",
  value: email,
  maxLength: limits.emailLengthMax,
  hint: "We send a link there, which you open before the first deploy.",
})}
${newPasswordField("password", "Password")}
<button type="submit">Create the account</button>
</form>
<p class="aside">Already have one? <a href="/sign-in${next === "/" ? "" : `?next=${encodeURIComponent(next)}`}">Sign in</a></p>`,
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
    case "USER_ALREADY_EXISTS":
    case "USER_ALREADY_EXISTS_USE_ANOTHER_EMAIL":
      return "There already is an account with this email address. Sign in instead.";
    case "INVALID_EMAIL":
      return "That is not an email address.";
    default:
      return passwordError(answer) ?? "The account could not be created. Check what you entered.";
  }
}

/** What is wrong with a new password; null when that is not the trouble. */
export function passwordError({ code }: AuthAnswer): string | null {
  if (code === "PASSWORD_TOO_SHORT")
    return `The password needs at least ${limits.accountPasswordLengthMin} characters.`;
  if (code === "PASSWORD_TOO_LONG")
    return `The password can have at most ${limits.accountPasswordLengthMax} characters.`;
  return null;
}

export function registerSignUp(scope: FastifyInstance, context: ApiContext): void {
  scope.get<{ Querystring: { next?: string } }>("/sign-up", async (request, reply) =>
    sendPage(context, reply, signUpPage({ name: "", email: "", next: safeNext(request.query.next) })),
  );

  scope.post("/sign-up", async (request, reply) => {
    const form = readForm(context, request);
    const entered = {
      name: form("name").trim().slice(0, nameLengthMax),
      email: form("email").trim(),
      next: safeNext(form("next")),
    };
    if (entered.name === "") return sendPage(context, reply, signUpPage(entered, "Enter your name."), 422);
    const body = { name: entered.name, email: entered.email, password: form("password") };
    const answer = await callAuth(context, request, { method: "POST", path: "/sign-up/email", body });
    if (answer.status === 200) {
      relayCookies(answer.response, reply);
      return redirect(reply, entered.next);
    }
    if (answer.status >= 500) throw new Error(`sign-up answered ${answer.status}`);
    return sendPage(context, reply, signUpPage(entered, signUpError(answer)), answer.status === 429 ? 429 : 422);
  });
}
