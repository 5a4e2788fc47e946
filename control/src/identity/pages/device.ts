import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Caller } from "../../http/caller.ts";
import { type DeviceRequest, displayUserCode, normaliseUserCode, readDeviceRequest } from "../auth/device-request.ts";
import type { IdentityContext } from "../context.ts";
import { Html, html } from "./html.ts";
import { field, hidden, notice, type Page } from "./layout.ts";
import { type AuthAnswer, callAuth, readForm, redirect, sendPage, tooManyAttempts, visitor } from "./site.ts";

const account = ({ email }: Caller) => ({ account: email });

const enterPage = (caller: Caller, error?: string): Page => ({
  ...account(caller),
  title: "Confirm a login",
  body: html`<h1>Confirm a login</h1>
<p class="lead">Enter the code that your command line shows.</p>
${error ? notice("error", error) : null}
<form method="get" action="/device">
${field({
  name: "user_code",
  label: "Code",
  type: "text",
  autocomplete: "off",
  first: true,
  maxLength: 20,
  extra: new Html(' class="code-input" autocapitalize="characters" spellcheck="false" placeholder="ABCD-EFGH"'),
})}
<button type="submit">Go on</button>
</form>`,
});

const confirmPage = (caller: Caller, code: string, { hostname, address }: DeviceRequest): Page => ({
  ...account(caller),
  title: "Let this command line in?",
  body: html`<h1>Let this command line in?</h1>
<p class="lead">It will have <strong>full access</strong> to your account: it can deploy, change and delete everything you own. Go on only if you started this login yourself and see the same code there.</p>
<p class="code" aria-label="Code ${code.split("").join(" ")}">${displayUserCode(code)}</p>
<dl class="facts">
${hostname === null ? null : html`<dt>Machine</dt><dd>${hostname} <span class="hint">(as it calls itself)</span></dd>`}
<dt>From address</dt><dd>${address}</dd>
<dt>Your account</dt><dd>${caller.email}</dd>
</dl>
<form method="post" action="/device">
${hidden("user_code", code)}
<div class="choices">
<button class="quiet" type="submit" name="decision" value="deny">Deny</button>
<button type="submit" name="decision" value="approve">Let it in</button>
</div>
</form>`,
});

const approvedPage = (caller: Caller): Page => ({
  ...account(caller),
  title: "You are logged in",
  body: html`<h1>Done</h1>
${notice("success", "Your command line is logged in. You can close this page and go back to it.")}
<p class="aside">It uses a key of its own, which <code>svc logout</code> revokes.</p>`,
});

const deniedPage = (caller: Caller): Page => ({
  ...account(caller),
  title: "Denied",
  body: html`<h1>Denied</h1>
${notice("info", "Nothing was let in. If you did not start that login, somebody may have sent you its code on purpose: there is nothing else to do.")}`,
});

/** Why a code does not lead on; null when the flow answered something else than a known refusal. */
function refusal(answer: AuthAnswer): string | null {
  if (answer.status === 429) return tooManyAttempts(answer);
  switch (answer.code) {
    case "expired_token":
      return "That code has expired. Run svc login again for a new one.";
    case "invalid_request":
      return "That code is not known, or was used already. Check it, or run svc login again.";
    case "access_denied":
      return "That code was already taken up by another account.";
    default:
      return null;
  }
}

/** What the code stands for, if it waits for this visitor's decision; else why not. */
async function lookUp(
  context: IdentityContext,
  request: FastifyRequest,
  code: string,
): Promise<DeviceRequest | { error: string; status: number }> {
  const answer = await callAuth(context, request, { method: "GET", path: `/device?user_code=${code}` });
  if (answer.status !== 200) {
    const error = refusal(answer);
    if (error === null) throw new Error(`device code lookup answered ${answer.status}`);
    return { error, status: answer.status === 429 ? 429 : 404 };
  }
  const { status, client_id: client, scope } = answer.body;
  if (status !== "pending")
    return { error: "That code was used already. Run svc login again for a new one.", status: 409 };
  // Only who may decide is told who asks.
  if (client === undefined) return { error: "That code was already taken up by another account.", status: 409 };
  return readDeviceRequest(scope) ?? { hostname: null, address: "unknown" };
}

export function registerDevice(scope: FastifyInstance, context: IdentityContext): void {
  scope.get<{ Querystring: { user_code?: string | string[] } }>("/device", async (request, reply) => {
    const typed = request.query.user_code;
    const given = typeof typed === "string" ? typed : "";
    const code = normaliseUserCode(given);
    const caller = await visitor(context, request);
    if (caller === null) {
      const next = code === null ? "/device" : `/device?user_code=${code}`;
      return redirect(reply, `/sign-in?next=${encodeURIComponent(next)}`);
    }
    if (given.trim() === "") return sendPage(context, reply, enterPage(caller));
    if (code === null)
      return sendPage(context, reply, enterPage(caller, "A code has eight letters and digits, like ABCD-EFGH."), 404);
    const found = await lookUp(context, request, code);
    return "error" in found
      ? sendPage(context, reply, enterPage(caller, found.error), found.status)
      : sendPage(context, reply, confirmPage(caller, code, found));
  });

  scope.post("/device", async (request, reply) => decide(context, request, reply));
}

async function decide(context: IdentityContext, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const form = readForm(context, request);
  const code = normaliseUserCode(form("user_code"));
  const caller = await visitor(context, request);
  if (caller === null)
    return redirect(
      reply,
      `/sign-in?next=${encodeURIComponent(code === null ? "/device" : `/device?user_code=${code}`)}`,
    );
  const decision = form("decision");
  if (code === null || (decision !== "approve" && decision !== "deny")) return redirect(reply, "/device");
  const answer = await callAuth(context, request, {
    method: "POST",
    path: `/device/${decision}`,
    body: { userCode: code },
  });
  if (answer.status === 200)
    return sendPage(context, reply, decision === "approve" ? approvedPage(caller) : deniedPage(caller));
  const error = refusal(answer);
  if (error === null) throw new Error(`device decision answered ${answer.status}`);
  return sendPage(context, reply, enterPage(caller, error), answer.status === 429 ? 429 : 409);
}
