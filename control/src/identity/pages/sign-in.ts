import type { FastifyInstance } from "fastify";
import { relayCookies } from "../auth/mount.ts";
import type { IdentityContext } from "../context.ts";
import { githostButton, githostError, githostOrigin } from "./githost.ts";
import { type Html, html } from "./html.ts";
import { field, hidden, notice, type Page } from "./layout.ts";
import { purposeOf, safeNext } from "./next.ts";
import { type AuthAnswer, callAuth, readForm, redirect, sendPage, tooManyAttempts, visitor } from "./site.ts";

interface SignInPage {
  next: string;
  /** What a mailed link brought along; "" without one. */
  link: string;
  email?: string;
  error?: string | null;
}

interface Offers {
  canSignUp: boolean;
  canReset: boolean;
}

function signInPage(
  context: IdentityContext,
  { canSignUp, canReset }: Offers,
  { next, link, email = "", error = null }: SignInPage,
): Page {
  const purpose = purposeOf(next);
  const query = next === "/" ? "" : `?next=${encodeURIComponent(next)}`;
  const links: Html[] = [
    ...(canReset ? [html`<a href="/forgot-password">Forgot your password?</a>`] : []),
    ...(canSignUp ? [html`<a href="/sign-up${query}">Create an account</a>`] : []),
  ];
  return {
    title: "Sign in",
    leadsTo: githostOrigin(context),
    body: html`<h1>Sign in</h1>
${purpose === null ? null : html`<p class="lead">${purpose}</p>`}
${error ? notice("error", error) : null}
<form method="post" action="/sign-in">
${hidden("next", next)}
${link === "" ? null : hidden("link", link)}
${field({ name: "email", label: "Email address", type: "email", autocomplete: "username", value: email, first: email === "" })}
${field({ name: "password", label: "Password", type: "password", autocomplete: "current-password", first: email !== "" })}
<button type="submit">Sign in</button>
</form>
${githostButton(context, { next })}
${links.length > 0 ? html`<p class="aside">${links.map((link, at) => html`${at > 0 ? " · " : null}${link}`)}</p>` : null}`,
  };
}

/** Says no more than that the two do not fit, so that nobody learns which addresses have an account. */
function signInError(answer: AuthAnswer): string {
  if (answer.status === 429)
    return answer.body["mailsLink"] === true
      ? `${tooManyAttempts(answer)} If the password was right, the account's mailbox gets a link with which you can sign in now.`
      : tooManyAttempts(answer);
  if (answer.code === "BANNED_USER") return "This account is blocked. Ask the administrator of this installation.";
  return "Email address and password do not match.";
}

const linkLengthMax = 100;
const linkOf = (given: unknown): string => (typeof given === "string" && given.length <= linkLengthMax ? given : "");

export function registerSignIn(scope: FastifyInstance, context: IdentityContext, offers: Offers): void {
  scope.get<{ Querystring: { next?: string; error?: string; link?: string } }>("/sign-in", async (request, reply) => {
    const next = safeNext(request.query.next);
    const { link } = request.query;
    const error = githostError(context, request.query.error);
    if (error === null && (await visitor(context, request)) !== null) return redirect(reply, next);
    return sendPage(
      context,
      reply,
      signInPage(context, offers, { next, link: linkOf(link), error }),
      error === null ? 200 : 403,
    );
  });

  scope.post("/sign-in", async (request, reply) => {
    const form = readForm(context, request);
    const next = safeNext(form("next"));
    const email = form("email").trim();
    const link = linkOf(form("link"));
    const body = { email, password: form("password"), ...(link !== "" && { link }) };
    const answer = await callAuth(context, request, { method: "POST", path: "/sign-in/email", body });
    if (answer.status === 200) {
      relayCookies(answer.response, reply);
      return redirect(reply, next);
    }
    if (answer.status >= 500) throw new Error(`sign-in answered ${answer.status}`);
    const status = answer.status === 429 ? 429 : 401;
    return sendPage(
      context,
      reply,
      signInPage(context, offers, { next, link, email, error: signInError(answer) }),
      status,
    );
  });

  scope.post("/sign-out", async (request, reply) => {
    readForm(context, request);
    const { response } = await callAuth(context, request, { method: "POST", path: "/sign-out", body: {} });
    relayCookies(response, reply);
    return redirect(reply, "/");
  });
}
