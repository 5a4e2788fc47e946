import type { FastifyInstance } from "fastify";
import { relayCookies } from "../auth/mount.ts";
import type { ApiContext } from "../http/endpoint.ts";
import { githostButton, githostError, githostOrigin } from "./githost.ts";
import { type Html, html } from "./html.ts";
import { field, hidden, notice, type Page } from "./layout.ts";
import { purposeOf, safeNext } from "./next.ts";
import { type AuthAnswer, callAuth, readForm, redirect, sendPage, tooManyAttempts, visitor } from "./site.ts";

interface SignInPage {
  next: string;
  email?: string;
  error?: string | null;
}

interface Offers {
  canSignUp: boolean;
  canReset: boolean;
}

function signInPage(
  context: ApiContext,
  { canSignUp, canReset }: Offers,
  { next, email = "", error = null }: SignInPage,
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
  if (answer.status === 429) return tooManyAttempts(answer);
  if (answer.code === "BANNED_USER") return "This account is blocked. Ask the administrator of this installation.";
  return "Email address and password do not match.";
}

export function registerSignIn(scope: FastifyInstance, context: ApiContext, offers: Offers): void {
  scope.get<{ Querystring: { next?: string; error?: string } }>("/sign-in", async (request, reply) => {
    const next = safeNext(request.query.next);
    const error = githostError(context, request.query.error);
    if (error === null && (await visitor(context, request)) !== null) return redirect(reply, next);
    return sendPage(context, reply, signInPage(context, offers, { next, error }), error === null ? 200 : 403);
  });

  scope.post("/sign-in", async (request, reply) => {
    const form = readForm(context, request);
    const next = safeNext(form("next"));
    const email = form("email").trim();
    const body = { email, password: form("password") };
    const answer = await callAuth(context, request, { method: "POST", path: "/sign-in/email", body });
    if (answer.status === 200) {
      relayCookies(answer.response, reply);
      return redirect(reply, next);
    }
    if (answer.status >= 500) throw new Error(`sign-in answered ${answer.status}`);
    const status = answer.status === 429 ? 429 : 401;
    return sendPage(context, reply, signInPage(context, offers, { next, email, error: signInError(answer) }), status);
  });

  scope.post("/sign-out", async (request, reply) => {
    readForm(context, request);
    const { response } = await callAuth(context, request, { method: "POST", path: "/sign-out", body: {} });
    relayCookies(response, reply);
    return redirect(reply, "/");
  });
}
