import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Endpoint } from "../../http/endpoint.ts";
import { toApiError } from "../../http/error-handler.ts";
import type { IdentityContext } from "../context.ts";
import { registerClaim } from "./claim.ts";
import { registerDevice } from "./device.ts";
import { registerDocs } from "./docs.ts";
import { registerGithost } from "./githost.ts";
import { registerHome } from "./home.ts";
import { html } from "./html.ts";
import { mark } from "./layout.ts";
import { registerResetPassword } from "./reset-password.ts";
import { registerSignIn } from "./sign-in.ts";
import { registerSignUp } from "./sign-up.ts";
import { sendPage, stylesheet } from "./site.ts";
import { registerVerifyEmail } from "./verify-email.ts";

const formBytesMax = 16 * 1024;
const yearSeconds = 31_536_000;

/** Pages for people: few, rendered here, and whole without JavaScript. */
export function registerPages(app: FastifyInstance, context: IdentityContext, endpoints: readonly Endpoint[]): void {
  const canReset = context.mailer !== null;
  const { signup } = context.config;
  // Without mail nobody could confirm an address; an invitation has done so.
  const canSignUp = signup === "invite" || (signup === "open" && canReset);
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      "application/x-www-form-urlencoded",
      { parseAs: "string", bodyLimit: formBytesMax },
      (_request, body, done) => done(null, new URLSearchParams(String(body))),
    );
    scope.setErrorHandler((error, request, reply) => sendErrorPage(context, error, request, reply));
    registerHome(scope, context, canSignUp);
    registerGithost(scope, context);
    registerClaim(scope, context);
    registerSignIn(scope, context, { canSignUp, canReset });
    registerVerifyEmail(scope, context);
    registerDevice(scope, context);
    if (canSignUp) registerSignUp(scope, context);
    if (canReset) registerResetPassword(scope, context);
    registerDocs(scope, context, endpoints);
    registerAssets(scope);
  });
}

function registerAssets(scope: FastifyInstance): void {
  scope.get(stylesheet.path, async (_request, reply) =>
    reply
      .header("cache-control", `public, max-age=${yearSeconds}, immutable`)
      .type("text/css; charset=utf-8")
      .send(stylesheet.body),
  );
  scope.get("/assets/mark.svg", async (_request, reply) =>
    reply.header("cache-control", "public, max-age=86400").type("image/svg+xml").send(mark),
  );
}

function sendErrorPage(
  context: IdentityContext,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const { status, message, cause, retryAfterSeconds } = toApiError(error);
  if (retryAfterSeconds !== null) reply.header("retry-after", `${retryAfterSeconds}`);
  if (status >= 500) request.log.error({ err: cause ?? error }, "page failed");
  return sendPage(
    context,
    reply,
    { title: "That did not work", body: html`<h1>That did not work</h1><p>${message}</p><p><a href="/">Home</a></p>` },
    status,
  );
}

/** The page for an address that leads nowhere, for browsers; programs get the envelope. */
export function wantsPage(request: FastifyRequest): boolean {
  return (
    request.method === "GET" && !request.url.startsWith("/api/") && (request.headers.accept ?? "").includes("text/html")
  );
}

export const sendNotFoundPage = (context: IdentityContext, reply: FastifyReply): FastifyReply =>
  sendPage(
    context,
    reply,
    {
      title: "Not found",
      body: html`<h1>Not found</h1><p>There is nothing at this address.</p><p><a href="/">Home</a></p>`,
    },
    404,
  );
