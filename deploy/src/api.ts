import { createTokenReply, projectListReply } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { z } from "zod";

const requestMs = 15_000;

/** The platform's API answered something else than success. */
export class ApiRefused extends Error {
  override readonly name = "ApiRefused";
}

async function call(
  clock: Clock,
  method: string,
  url: string,
  headers: Record<string, string>,
  body?: unknown,
): Promise<Response> {
  const reply = await fetch(url, {
    method,
    headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
    signal: clock.abortAfter(requestMs),
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (reply.ok) return reply;
  throw new ApiRefused(
    `${method} ${new URL(url).pathname} answered ${reply.status}: ${(await reply.text()).slice(0, 500)}`,
  );
}

const signedIn = z.looseObject({ token: z.string() });

/** Signs in and returns the session's token, to be sent as `Authorization: Bearer`. */
export async function signIn(
  clock: Clock,
  apiUrl: string,
  account: { email: string; password: string },
): Promise<string> {
  const reply = await call(clock, "POST", `${apiUrl}/api/auth/sign-in/email`, { origin: apiUrl }, account);
  return reply.headers.get("set-auth-token") ?? signedIn.parse(await reply.json()).token;
}

/** Makes a full-access API key; null for one that never expires. */
export async function createKey(
  clock: Clock,
  apiUrl: string,
  session: string,
  options: { name: string; expiresInSeconds: number | null },
): Promise<{ id: string; key: string }> {
  const { name, expiresInSeconds } = options;
  const body = { name, ...(expiresInSeconds !== null && { expiresIn: expiresInSeconds }) };
  const reply = await call(clock, "POST", `${apiUrl}/api/v1/tokens`, { authorization: `Bearer ${session}` }, body);
  const { id, key } = createTokenReply.parse(await reply.json()).token;
  return { id, key };
}

/** Ends the key that is used for the call. */
export async function revokeKey(clock: Clock, apiUrl: string, key: string): Promise<void> {
  await call(clock, "DELETE", `${apiUrl}/api/v1/tokens/self`, { "x-api-key": key });
}

/** The caller's projects. */
export async function listProjects(clock: Clock, apiUrl: string, key: string) {
  const reply = await call(clock, "GET", `${apiUrl}/api/v1/projects`, { "x-api-key": key });
  return projectListReply.parse(await reply.json()).projects;
}
