import type { IncomingMessage, ServerResponse } from "node:http";
import type { Route } from "@svc/proto/edge";
import { limits } from "@svc/proto/limits";
import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../log.ts";
import { isHost } from "../names.ts";
import { sendPage } from "../pages/server.ts";
import { type Attempts, originOf } from "./attempts.ts";
import type { PasswordChecker } from "./checker.ts";
import type { Gates } from "./gates.ts";
import { refererPath, safeNext, withError } from "./next.ts";
import { cookieHeader, dayOf, tokenOf } from "./token.ts";

export interface LoginDeps {
  routes(): ReadonlyMap<string, Route>;
  gates: Pick<Gates, "find">;
  attempts: Attempts;
  checker: PasswordChecker;
  log: Log;
  clock: Clock;
}

const formBytesMax = 16 * 1024;

/**
 * Answers a visitor who brings a password: with the cookie and the way back, with the page that says what is wrong, or
 * later. Caddy says in headers of its own which host it is about and who asks.
 */
export function createLogin(deps: LoginDeps): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    logIn(request, response, deps).catch((err: unknown) => {
      deps.log.warn({ err }, "a password was not checked");
      if (!response.headersSent) sendPage(request, response, "passwordUnchecked");
      else response.destroy();
    });
  };
}

async function logIn(request: IncomingMessage, response: ServerResponse, deps: LoginDeps): Promise<void> {
  const { routes, gates, attempts, checker, clock } = deps;
  const form = await readForm(request);
  const site = siteOf(request);
  const route = site && routes().get(site.host);
  if (!site || !route) return sendPage(request, response, "unknown");
  const goTo = (path: string, headers: Record<string, string> = {}): void => {
    // Whole, because a path that begins with two slashes would name another host.
    const fixed = { Location: `${site.origin}${path}`, "Cache-Control": "no-store", "Content-Length": "0" };
    response.writeHead(303, { ...fixed, ...headers }).end();
  };
  const next = safeNext(form?.get("next") ?? refererPath(request.headers.referer, site.host));
  if (route.gate === "") return goTo(next);
  // As of now, whenever the answer goes out: the gate is open to it once it was found.
  const nowMs = clock.now().getTime();
  const day = dayOf(nowMs);
  const gate = gates.find(route.gate);
  if (gate === null || form === null) return sendPage(request, response, "passwordUnchecked");

  // Taken before the answer is known, or many at once would all be free.
  const visitor = [gate.projectId, headerOf(request, "x-real-ip")] as const;
  const waitMs = attempts.take(...visitor, nowMs);
  if (waitMs > 0) {
    response.setHeader("Retry-After", String(Math.ceil(waitMs / 1000)));
    return sendPage(request, response, "passwordSlow", escapeAttribute(next));
  }
  const asker = { site: gate.projectId, network: originOf(visitor[1]).network };
  const verdict = await checker.check(asker, form.get("password") ?? "", gate.passwordHash);
  if (verdict === "wrong") return goTo(withError(next));
  if (verdict === "busy") {
    attempts.refund(...visitor);
    return sendPage(request, response, "passwordUnchecked");
  }
  attempts.welcome(...visitor);
  const cookie = cookieHeader(tokenOf(gate.key, route.channel, day), limits.sitePasswordCookieSeconds);
  goTo(next, { "Set-Cookie": cookie });
}

/** The site as the visitor addressed it; null when that is none. */
function siteOf(request: IncomingMessage): { host: string; origin: string } | null {
  const [, host = "", port = ""] = /^([a-z0-9.-]+)(:\d{1,5})?$/.exec(headerOf(request, "x-svc-host")) ?? [];
  const scheme = headerOf(request, "x-forwarded-proto") === "https" ? "https" : "http";
  return isHost(host) ? { host, origin: `${scheme}://${host}${port}` } : null;
}

function headerOf(request: IncomingMessage, name: string): string {
  const value = request.headers[name];
  return typeof value === "string" ? value : "";
}

/** The form; null when it is longer than any. */
async function readForm(request: IncomingMessage): Promise<URLSearchParams | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    if (!(chunk instanceof Buffer)) continue;
    bytes += chunk.length;
    if (bytes <= formBytesMax) chunks.push(chunk);
  }
  return bytes > formBytesMax ? null : new URLSearchParams(Buffer.concat(chunks).toString("utf8"));
}

const escapeAttribute = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
